//! Connections that misbehave, and some that only look like it. What takes seconds takes hundredths of them here.

mod floods;
mod places;

use super::exchange::BODY_BYTES_MIN;
use super::read_ahead::ReadAhead;
use super::*;
use bytes::Bytes;
use http_body::Frame;
use quorate_server::{Budget, ConnectionCounts};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tonic::Status;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
/// Of a connection that is never closed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers when the body has come: at once, if it is a stream, and never says the end of that.
#[derive(Clone)]
struct Echo;

impl Face for Echo {
    type Body = Answer;
    type Answering = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn on_connection(&self, _: Account) -> Self {
        self.clone()
    }

    fn answer(self, request: Request<AnyBody>) -> Self::Answering {
        Box::pin(async move {
            let is_stream = Self::is_stream(request.uri().path());
            let mut answer = Answer {
                is_stream,
                is_read: request.uri().path() != "/stream/unread",
                body: None,
            };
            let mut body = request.into_body();
            if is_stream {
                answer.body = Some(body);
                return Ok(Response::new(answer));
            }
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                if frame.is_err() {
                    let refused = Response::builder().status(408).body(answer);
                    return Ok(refused.expect("a good response"));
                }
            }
            Ok(Response::new(answer))
        })
    }

    fn is_stream(path: &str) -> bool {
        path.starts_with("/stream")
    }
}

/// Says nothing: for ever, if the answer is a stream. What its client says is read, if it is to be.
struct Answer {
    is_stream: bool,
    is_read: bool,
    body: Option<AnyBody>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let is_read = self.is_read;
        if let Some(body) = self.body.as_mut().filter(|_| is_read) {
            while let Poll::Ready(Some(Ok(_))) = Pin::new(&mut *body).poll_frame(context) {}
        }
        match self.is_stream {
            true => Poll::Pending,
            false => Poll::Ready(None),
        }
    }
}

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        head_timeout: Duration::from_millis(100),
        body_window: Duration::from_millis(100),
        ..ConnectionLimits::default()
    }
}

/// A connection under these limits, from its client's side, and the task that serves it.
async fn open(limits: &ConnectionLimits) -> (DuplexStream, JoinHandle<()>) {
    let registry = registry(1, IDLE_AFTER);
    let place = registry.admit().await.expect("there is a place");
    let (client, server) = duplex(64 << 10);
    let heads = Heads::new(server, place.state(), limits.head_timeout);
    let account = Budget::new(1 << 20).account();
    let exchange = Exchange::new(Echo, place.state(), account, limits.body_window);
    let window = Windows::default().next(limits.window_bytes);
    let http = http(limits, &window);
    let serving = serve_connection(heads, exchange, http, window, place);
    (client, tokio::spawn(serving))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The head of a request whose body follows, in one frame.
fn head(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, 4, stream, &fields(path, &[]))
}

/// The fields of a request's head: `:method: POST` and `:scheme: http` from HPACK's static table, then literals:
/// `:path` and further ones (RFC 7541).
fn fields(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let mut block = vec![0x83, 0x86, 0x04];
    block.extend(literal(path));
    for (name, value) in more {
        block.push(0);
        block.extend([literal(name), literal(value)].concat());
    }
    block
}

/// Reads all that is said, until the connection is closed.
async fn read_to_end(client: &mut DuplexStream) -> Vec<u8> {
    let mut said = Vec::new();
    let read = timeout(PATIENCE, client.read_to_end(&mut said)).await;
    read.expect("the connection is closed")
        .expect("a clean end");
    said
}

/// The kind and the stream of the next frame.
async fn next_frame(client: &mut DuplexStream) -> (u8, u32) {
    let mut header = [0; 9];
    client.read_exact(&mut header).await.expect("a frame");
    let [a, b, c, kind, _, stream @ ..] = header;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    client
        .read_exact(&mut payload)
        .await
        .expect("a whole frame");
    (kind, u32::from_be_bytes(stream))
}

/// Answers pings until the connection is closed; says the kinds of all other frames.
async fn keep_alive(client: &mut DuplexStream) -> Vec<u8> {
    let mut kinds = Vec::new();
    let mut header = [0; 9];
    while client.read_exact(&mut header).await.is_ok() {
        let [a, b, c, kind, flags, ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        client
            .read_exact(&mut payload)
            .await
            .expect("a whole frame");
        if kind == PING && flags & ACK == 0 {
            let ack = frame(PING, ACK, 0, &payload);
            client.write_all(&ack).await.expect("it is open");
        } else {
            kinds.push(kind);
        }
    }
    kinds
}

/// Scenario: each way to begin something and not to go on.
#[tokio::test]
async fn what_is_half_open_is_closed_in_time() {
    let head = head(1, "/unary");
    let partial_head = [PREFACE, &head[..head.len() - 1]].concat();
    let to_be_continued = [PREFACE, &frame(HEADERS, 0, 1, &head[9..12])].concat();
    let second = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HT".to_vec();
    let beginnings = [
        Vec::new(),
        PREFACE[..20].to_vec(),
        b"GET / HTTP/1.1\r\nhost:".to_vec(),
        partial_head,
        to_be_continued,
        second[..second.len() - 8].to_vec(),
    ];
    for bytes in &beginnings[..5] {
        let (mut client, serving) = open(&limits()).await;
        let began = Instant::now();
        client.write_all(bytes).await.unwrap();
        read_to_end(&mut client).await;
        let took = began.elapsed();
        assert!(
            took >= limits().head_timeout,
            "closed after {took:?}: {}",
            bytes.escape_ascii()
        );
        serving.await.unwrap();
    }
    // The head of a second request on a connection.
    let (mut client, serving) = open(&limits()).await;
    client.write_all(&beginnings[5]).await.unwrap();
    sleep(limits().head_timeout * 3).await;
    assert!(!serving.is_finished(), "idle between two requests");
    client.write_all(b"GET / HT").await.unwrap();
    read_to_end(&mut client).await;
    serving.await.unwrap();
}

/// Scenario: a head that comes a byte at a time is late for all that.
#[tokio::test]
async fn bytes_do_not_put_off_the_deadline_of_a_head() {
    let (mut client, serving) = open(&limits()).await;
    let began = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nhost: a\r\nx: "
        .iter()
        .chain(&[b'a'; 1000])
    {
        if client.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() < limits().head_timeout * 10);
    serving.await.unwrap();
}

/// Scenario: a body of one message, over HTTP/2 and HTTP/1, that comes a few bytes at a time.
#[tokio::test]
async fn what_comes_too_slowly_is_closed() {
    let http2 = [PREFACE, &head(1, "/unary"), &frame(DATA, 0, 1, b"abc")].concat();
    let http1 = b"POST /unary HTTP/1.1\r\nhost: a\r\ncontent-length: 99999\r\n\r\nabc";
    for bytes in [&http2[..], http1] {
        let (mut client, serving) = open(&limits()).await;
        let began = Instant::now();
        client.write_all(bytes).await.unwrap();
        let kinds = if bytes == http1 {
            let said = read_to_end(&mut client).await;
            assert!(said.starts_with(b"HTTP/1.1 408"), "{}", said.escape_ascii());
            Vec::new()
        } else {
            timeout(PATIENCE, keep_alive(&mut client))
                .await
                .expect("it is closed")
        };
        assert!(began.elapsed() >= limits().body_window);
        assert!(
            bytes == http1 || kinds.contains(&HEADERS),
            "an answer among {kinds:?}"
        );
        serving.await.unwrap();
    }
}

/// Scenario: a client that sends too slowly, and does not answer what HTTP/2 asks before a connection ends.
#[tokio::test]
async fn who_is_too_slow_cannot_keep_the_connection_open() {
    let (mut client, serving) = open(&limits()).await;
    let begin = [PREFACE, &head(1, "/unary"), &frame(DATA, 0, 1, b"abc")].concat();
    client.write_all(&begin).await.unwrap();
    read_to_end(&mut client).await;
    serving.await.unwrap();
}

/// Scenario: calls that come with a millisecond left, one of which is given up at once.
#[tokio::test]
async fn a_call_that_is_nearly_over_is_held_back_and_then_answered() {
    let (mut client, _serving) = open(&limits()).await;
    let block = fields("/unary", &[(TIMEOUT, "1m")]);
    let call = |stream| {
        [
            frame(HEADERS, 4, stream, &block),
            frame(DATA, 1, stream, b"put"),
        ]
        .concat()
    };
    let given_up = frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
    let bytes = [PREFACE, &call(1), &given_up, &call(3)].concat();
    let began = Instant::now();
    client.write_all(&bytes).await.unwrap();
    let mut answered = Vec::new();
    while answered.is_empty() {
        let (kind, stream) = next_frame(&mut client).await;
        answered.extend((kind == HEADERS).then_some(stream));
    }
    assert_eq!(answered, [3]);
    assert!(began.elapsed() >= call_time::HOLD);
}

/// Scenario: a body that brings enough in each of three windows; then the rest of it.
#[tokio::test]
async fn what_comes_fast_enough_has_the_time_it_takes() {
    let limits = ConnectionLimits {
        body_window: Duration::from_millis(300),
        ..limits()
    };
    let (mut client, serving) = open(&limits).await;
    client
        .write_all(&[PREFACE, &head(1, "/unary")].concat())
        .await
        .unwrap();
    let piece = frame(DATA, 0, 1, &[7; BODY_BYTES_MIN / 2]);
    for _ in 0..30 {
        client.write_all(&piece).await.unwrap();
        sleep(limits.body_window / 10).await;
    }
    client.write_all(&frame(DATA, 1, 1, &[])).await.unwrap();
    let kinds = timeout(limits.body_window, keep_alive(&mut client)).await;
    assert!(kinds.is_err(), "it is open, and idle");
    assert!(!serving.is_finished());
}

/// Scenario: a day passes, on a clock that runs 40,000 times as fast; the connection is asked for a sign of life every
/// two hours. In the end there is a request as if nothing had been.
#[tokio::test]
async fn a_watch_that_nothing_happens_to_lives_for_a_day() {
    const FASTER: u32 = 40_000;
    let real = ConnectionLimits::default();
    let limits = ConnectionLimits {
        head_timeout: real.head_timeout / FASTER,
        body_window: real.body_window / FASTER,
        keepalive_interval: real.keepalive_interval / FASTER,
        // A busy machine is not faster.
        keepalive_timeout: Duration::from_secs(5),
        ..real
    };
    let (mut client, serving) = open(&limits).await;
    let begin = [PREFACE, &head(1, "/stream"), &frame(DATA, 0, 1, b"watch")].concat();
    client.write_all(&begin).await.unwrap();
    let day = Duration::from_secs(24 * 60 * 60) / FASTER;
    let ended = timeout(day, keep_alive(&mut client)).await;
    assert!(
        ended.is_err() && !serving.is_finished(),
        "the day is over, the watch is not"
    );
    let request = [head(3, "/unary"), frame(DATA, 1, 3, &[])].concat();
    client.write_all(&request).await.unwrap();
    drop(timeout(day / 10, keep_alive(&mut client)).await);
    assert!(!serving.is_finished());
}

/// The kinds of frames that come until so many heads of answers have, or the connection is about to end.
async fn answers(client: &mut (impl AsyncRead + Unpin), count: usize) -> Vec<u8> {
    let mut kinds = Vec::new();
    let read = async {
        while kinds.iter().filter(|kind| **kind == HEADERS).count() < count
            && !kinds.contains(&GOAWAY)
        {
            let mut header = [0; 9];
            client.read_exact(&mut header).await.expect("it is open");
            let [a, b, c, kind, ..] = header;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            client
                .read_exact(&mut payload)
                .await
                .expect("a whole frame");
            kinds.push(kind);
        }
    };
    timeout(PATIENCE, read).await.expect("answers come");
    kinds
}

/// Limits of a connection that begins while many are open: its window is the least there is.
fn crowded() -> ConnectionLimits {
    ConnectionLimits {
        window_bytes: 0,
        ..ConnectionLimits::default()
    }
}

/// Scenario: a stream of thousands of small messages, many at once or one after the other, that its reader takes, or
/// does not take because it is busy. Other requests are answered.
#[tokio::test]
async fn small_messages_on_a_stream_end_no_connection() {
    for (path, together, count) in [
        ("/stream", 500, 20_000),
        ("/stream/unread", 500, 20_000),
        ("/stream/unread", 1, 2_000),
    ] {
        let (mut client, serving) = open(&crowded()).await;
        client
            .write_all(&[PREFACE, &head(1, path)].concat())
            .await
            .unwrap();
        let message = frame(DATA, 0, 1, &[7; 30]);
        for _ in 0..count / together {
            client.write_all(&message.repeat(together)).await.unwrap();
            tokio::task::yield_now().await;
        }
        let request = [head(3, "/unary"), frame(DATA, 1, 3, &[])].concat();
        client.write_all(&request).await.unwrap();
        let kinds = answers(&mut client, 2).await;
        assert!(!kinds.contains(&GOAWAY), "{path}, {together} at once");
        assert!(!serving.is_finished());
    }
}

/// Scenario: 2,000 small requests at once, as clients send them that end a stream with an empty frame, and as many
/// streams that stay open.
#[tokio::test]
async fn many_small_requests_at_once_end_no_connection() {
    for path in ["/unary", "/stream"] {
        let (client, serving) = open(&crowded()).await;
        let (mut read, mut write) = tokio::io::split(client);
        let requests = (0..2_000).map(|number| {
            let stream = 2 * number + 1;
            let mut request = [head(stream, path), frame(DATA, 0, stream, &[7; 12])].concat();
            if path == "/unary" {
                request.extend(frame(DATA, 1, stream, &[]));
            }
            request
        });
        let bytes = [PREFACE.to_vec(), requests.collect::<Vec<_>>().concat()].concat();
        let sending = tokio::spawn(async move {
            write.write_all(&bytes).await.unwrap();
            write
        });
        let kinds = answers(&mut read, 2_000).await;
        assert!(!kinds.contains(&GOAWAY), "{path}");
        assert!(!serving.is_finished());
        drop(sending.await);
    }
}

/// Scenario: a client sends messages on a stream that nobody takes, until the connection has no memory left for them.
#[tokio::test]
async fn what_is_read_ahead_is_bounded_by_the_memory_of_the_connection() {
    let account = Budget::new(1 << 20).account();
    let (sender, receiver) = sent_body();
    let mut body = ReadAhead::start(receiver, account.charge());
    let mut sent = 0;
    while sender.send(Bytes::from(vec![7; 1000])).await.is_ok() {
        sent += 1000;
        tokio::task::yield_now().await;
    }
    assert!(sent > 512 << 10 && sent <= 1 << 20, "{sent}");
    assert!(account.held() <= sent);
    let mut next = async || poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
    let first = next().await.expect("what came").expect("no error yet");
    assert!(first.into_data().is_ok_and(|data| data.len() <= sent));
    let refused = next().await.expect("a reason").expect_err("no room");
    let status = refused.downcast_ref::<Status>().expect("a status");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert!(next().await.is_none() && account.held() == 0);
}

/// A body and who sends it.
fn sent_body() -> (tokio::sync::mpsc::Sender<Bytes>, Sent) {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    (sender, Sent(receiver))
}

/// A body that brings what it is sent.
struct Sent(tokio::sync::mpsc::Receiver<Bytes>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.0.poll_recv(context);
        next.map(|next| next.map(|data| Ok(Frame::data(data))))
    }
}

fn registry(connections_max: usize, idle_after: Duration) -> Registry {
    let counts = Arc::new(ConnectionCounts::unseen());
    Registry::new(connections_max, idle_after, counts)
}
