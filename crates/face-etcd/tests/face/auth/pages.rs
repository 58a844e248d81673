//! Pages over plain HTTP, and who may see them.

use super::*;
use crate::backend;
use crate::plain_http::Http;
use quorate_face_etcd::serve;
use std::net::SocketAddr;

/// A face with users, where it is, and clients without a token, for root and for alice.
async fn start() -> (SocketAddr, Client, Client, Client) {
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let handle = backend::start();
    let served = serve(listener, handle, limits(), None, std::future::pending());
    tokio::spawn(served);
    let channel = backend::connect(address).await;
    let client = Client {
        channel,
        token: None,
    };
    add_users(&client).await;
    let (root, alice) = (client.login("root").await, client.login("alice").await);
    (address, client, root, alice)
}

/// The status of an answer to who shows this.
async fn ask(address: SocketAddr, line: &str, shown: Option<&str>, body: &str) -> (u16, String) {
    let mut http = Http::connect(address).await;
    let header = shown.map(|shown| ("authorization", shown));
    let headers: Vec<_> = header.into_iter().collect();
    http.send(line, &headers, Some(body)).await;
    let (head, answer) = http.answer().await;
    if head.status == 401 {
        let realm = head.headers.get("www-authenticate");
        assert!(realm.is_some_and(|realm| realm.starts_with("Basic")));
    }
    (head.status, answer)
}

fn basic(name: &str, password: &str) -> String {
    use base64::Engine;
    let pair = format!("{name}:{password}");
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    )
}

/// Scenario: everybody asks for figures, for the state of the replica, and for another protocol.
#[tokio::test]
async fn figures_are_open_the_state_is_for_users_and_changes_are_for_root() {
    let (address, _, root, alice) = start().await;
    let token = |client: &Client| client.token.clone().expect("it has one");
    let another = r#"{"protocol":"rs-paxos","params":{}}"#;
    for (shown, state, change) in [
        (None, 401, 401),
        (Some("x.1".to_owned()), 401, 401),
        (Some(basic("alice", "wrong")), 401, 401),
        (Some(basic("nobody", "")), 401, 401),
        (Some(token(&alice)), 200, 403),
        (Some(format!("Bearer {}", token(&alice))), 200, 403),
        (Some(basic("alice", &password("alice"))), 200, 403),
        (Some(token(&root)), 200, 200),
        (Some(basic("root", &password("root"))), 200, 200),
    ] {
        let shown = shown.as_deref();
        for path in ["/metrics", "/health", "/version", "/readyz"] {
            let (status, _) = ask(address, &format!("GET {path}"), shown, "").await;
            assert_eq!(status, 200, "{path} of {shown:?}");
        }
        let (status, page) = ask(address, "GET /status", shown, "").await;
        assert_eq!(status, state, "the state for {shown:?}");
        assert_eq!(page.contains("members"), state == 200, "{page}");
        let (status, answer) = ask(address, "POST /cluster/protocol", shown, another).await;
        let is_let_through = ![401, 403].contains(&status);
        assert_eq!(
            is_let_through,
            change == 200,
            "{shown:?}: {status} {answer}"
        );
        assert!(is_let_through || status == change, "{shown:?}: {status}");
    }
    root.disable().await;
    for line in ["GET /status", "POST /cluster/protocol"] {
        let (status, _) = ask(address, line, None, another).await;
        assert!(![401, 403].contains(&status), "{line}: {status}");
    }
}
