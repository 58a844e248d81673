//! Watches over WebSockets, as pages in browsers make them.

use crate::backend;
use crate::plain_http::Http;
use quorate_face_etcd::{AllowList, Limits, WebAccess, serve};
use std::net::SocketAddr;
use tokio::sync::oneshot;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Serves on a port of its own until it is told to stop.
fn start(limits: Limits) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let (stop, stopped) = oneshot::channel();
    let stopped = async { drop(stopped.await) };
    tokio::spawn(serve(listener, backend::start(), limits, None, stopped));
    (address, stop)
}

const CREATE: &[u8] = br#"{"create_request":{"key":"YQ==","range_end":"Yg=="}}"#;

async fn put(address: SocketAddr, key: &str) {
    let mut http = Http::connect(address).await;
    let put = format!(r#"{{"key":"{key}"}}"#);
    assert_eq!(http.post("/v3/kv/put", &put).await.0, 200);
}

#[tokio::test]
async fn requests_and_responses_are_messages() {
    let (address, _stop) = start(Limits::default());
    let http = Http::connect(address).await;
    let offered = [("sec-websocket-protocol", "Bearer, token")];
    let (head, mut socket) = http.upgrade("/v3/watch", &offered).await;
    assert_eq!(head.status, 101);
    assert_eq!(
        head.headers["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    assert_eq!(head.headers["sec-websocket-protocol"], "Bearer");
    socket.frame(PING, b"before anything").await;
    assert_eq!(
        socket.next_frame().await,
        (PONG, "before anything".to_owned())
    );
    socket.frame(TEXT, CREATE).await;
    let (kind, created) = socket.next_frame().await;
    assert!(
        kind == TEXT && created.ends_with(r#","created":true}}"#),
        "{created}"
    );
    put(address, "YWE=").await;
    let (kind, event) = socket.next_frame().await;
    assert!(
        kind == TEXT && event.contains(r#""events":[{"kv":{"key":"YWE=""#),
        "{event}"
    );
    // What is no request: no more are taken, and the watch goes on.
    socket.frame(TEXT, b"value").await;
    socket.frame(TEXT, CREATE).await;
    put(address, "YWI=").await;
    let (_, event) = socket.next_frame().await;
    assert!(
        event.contains(r#""events":[{"kv":{"key":"YWI=""#),
        "{event}"
    );
    socket.frame(CLOSE, &1000_u16.to_be_bytes()).await;
    assert_eq!(socket.next_frame().await.0, CLOSE);
    assert!(socket.is_closed().await);
}

#[tokio::test]
async fn a_call_of_one_response_is_over_after_it() {
    let (address, _stop) = start(Limits::default());
    let http = Http::connect(address).await;
    let (_, mut socket) = http.upgrade("/v3/kv/range", &[]).await;
    socket.frame(TEXT, br#"{"key":"YQ=="}"#).await;
    let (kind, range) = socket.next_frame().await;
    assert!(
        kind == TEXT && range.starts_with(r#"{"header":"#),
        "{range}"
    );
    assert_eq!(socket.next_frame().await.0, CLOSE);
    assert!(socket.is_closed().await);
}

/// Scenario: handshakes that are not whole, and a page that may not ask.
#[tokio::test]
async fn handshakes_that_are_not_right_are_refused() {
    let (address, _stop) = start(Limits {
        web: WebAccess {
            origins: AllowList::new(["http://good".to_owned()]),
            ..WebAccess::default()
        },
        ..Limits::default()
    });
    for (headers, status) in [
        (("origin", "http://good"), 101),
        (("origin", "http://bad"), 403),
    ] {
        let http = Http::connect(address).await;
        let (head, _) = http.upgrade("/v3/watch", &[headers]).await;
        assert_eq!(head.status, status, "{headers:?}");
    }
    let mut http = Http::connect(address).await;
    let asked = [("connection", "upgrade"), ("upgrade", "websocket")];
    http.send("GET /v3/watch", &asked, Some("")).await;
    let (head, why) = http.answer().await;
    assert_eq!(
        (head.status, why.contains("Sec-WebSocket-Version")),
        (400, true)
    );
}

/// Scenario: a server that is told to stop while a watch is open, and a client that sends what is no frame.
#[tokio::test]
async fn a_socket_ends_with_its_server_and_with_its_protocol() {
    let (address, stop) = start(Limits::default());
    let http = Http::connect(address).await;
    let (_, mut socket) = http.upgrade("/v3/watch", &[]).await;
    socket.write(b"GET / HTTP/1.1\r\n\r\n").await;
    let (kind, reason) = socket.next_frame().await;
    assert!(kind == CLOSE && reason.contains("not a frame"), "{reason}");
    assert!(socket.is_closed().await);
    let http = Http::connect(address).await;
    let (_, mut socket) = http.upgrade("/v3/watch", &[]).await;
    socket.frame(TEXT, CREATE).await;
    socket.next_frame().await;
    stop.send(()).expect("it serves");
    assert!(socket.is_closed().await);
}
