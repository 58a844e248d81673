//! What clients can make a replica keep in memory: requests that are half sent, answers that are not taken.

use quorate_face_plain::{Limits, serve};
use quorate_plain_store::{Item, Query, QueryAnswer, Store, Version};
use quorate_server::{Budget, Door, Handle, Listener, Request};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Serves on a port of its own until the test ends; clients may take so much memory. Each key has the value `value`.
fn start(client_memory: usize, value: &'static [u8]) -> (SocketAddr, Budget) {
    let budget = Budget::new(client_memory);
    let port = quorate_server::bind("127.0.0.1:0").expect("a free port");
    let listener = Listener::new(port, Door::Client).expect("a listener");
    let listener = listener.budgeted(budget.clone());
    let address = listener.local_addr().expect("it is bound");
    let (handle, mut requests) = Handle::<Store>::new(100);
    tokio::spawn(async move {
        while let Some(request) = requests.recv().await {
            if let Request::Read { query, reply, .. } = request {
                let item = Item {
                    version: Version(1),
                    value: value.into(),
                };
                let Some(Query::Get(keys)) = query.downcast_ref() else {
                    continue;
                };
                let answer = QueryAnswer::Got(vec![Some(item); keys.len()]);
                // Whoever asked may be gone.
                let _ = reply.send(Ok(Box::new(answer)));
            }
        }
    });
    let limits = Limits::default();
    tokio::spawn(serve(
        listener,
        handle,
        limits,
        None,
        std::future::pending(),
    ));
    (address, budget)
}

/// Says this on a connection of its own.
async fn say(address: SocketAddr, text: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    // The server may refuse before it has read all.
    let _ = stream.write_all(text).await;
    stream
}

/// The beginning of the answer, if one comes soon.
async fn answer(stream: &mut TcpStream) -> Option<String> {
    let mut answer = [0; 200];
    let read = timeout(Duration::from_millis(100), stream.read(&mut answer)).await;
    let count = read.ok()?.ok()?;
    Some(String::from_utf8_lossy(&answer[..count]).into_owned())
}

async fn until_given_back(budget: &Budget) {
    for _ in 0..1000 {
        if budget.used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are never given back", budget.used());
}

/// Scenario: 20 clients send two thirds of a put of 1.5 MiB each.
#[tokio::test]
async fn half_sent_puts_are_bounded() {
    const BUDGET: usize = 4 << 20;
    let (address, budget) = start(BUDGET, b"");
    let mut put = b"PUT /kv/a HTTP/1.1\r\nhost: a\r\ncontent-length: 1500000\r\n\r\n".to_vec();
    put.resize(1 << 20, 7);
    let mut attackers = Vec::new();
    for _ in 0..20 {
        attackers.push(say(address, &put).await);
        assert!(budget.used() <= BUDGET);
    }
    let mut refused = 0;
    for attacker in &mut attackers {
        if let Some(answer) = answer(attacker).await {
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("retry-after: 1"), "{answer}");
            refused += 1;
        }
    }
    assert!(refused > 10 && budget.refused() > 10, "{refused}");
    let small = b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n";
    let served = answer(&mut say(address, small).await).await;
    assert!(served.expect("an answer").starts_with("HTTP/1.1 200"));
    drop(attackers);
    until_given_back(&budget).await;
}

/// Scenario: clients read eight values of 1 MiB each in one request, which take 20 MiB while they become text.
#[tokio::test]
async fn an_answer_for_which_there_is_no_room_is_not_made() {
    static VALUE: [u8; 1 << 20] = [b'x'; 1 << 20];
    let (address, budget) = start(32 << 20, &VALUE);
    let body = r#"{"keys": ["a", "b", "c", "d", "e", "f", "g", "h"]}"#;
    let head = format!(
        "POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let request = head + body;
    let mut first = say(address, request.as_bytes()).await;
    let begun = answer(&mut first).await.expect("an answer");
    assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
    assert!(budget.used() > 8 << 20);
    let mut second = say(address, request.as_bytes()).await;
    let mut told = [0; 12];
    let read = timeout(Duration::from_secs(10), second.read_exact(&mut told)).await;
    read.expect("an answer in time").expect("an answer");
    assert_eq!(&told, b"HTTP/1.1 503");
    drop((first, second));
    until_given_back(&budget).await;
}
