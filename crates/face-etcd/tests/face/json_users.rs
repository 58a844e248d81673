//! Users, locks and elections in JSON, as scripts with curl use them.

use crate::backend;
use crate::plain_http::Http;
use quorate_face_etcd::{Limits, UserOptions, serve};
use std::net::SocketAddr;

/// Serves on a port of its own until the test ends; passwords cost the least there is.
fn start() -> SocketAddr {
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let limits = Limits {
        users: UserOptions {
            bcrypt_cost: 4,
            ..UserOptions::default()
        },
        ..Limits::default()
    };
    let never = std::future::pending();
    tokio::spawn(serve(listener, backend::start(), limits, None, never));
    address
}

/// A client that shows a token, if it has one.
struct Asker {
    http: Http,
    token: Option<String>,
}

impl Asker {
    async fn new(address: SocketAddr, token: Option<&str>) -> Asker {
        Asker {
            http: Http::connect(address).await,
            token: token.map(str::to_owned),
        }
    }

    /// The status of an answer, and what it says in JSON.
    async fn ask(&mut self, path: &str, body: &str) -> (u16, serde_json::Value) {
        let token = self.token.as_deref();
        let headers: Vec<_> = token
            .map(|token| ("authorization", token))
            .into_iter()
            .collect();
        let line = format!("POST /v3/{path}");
        self.http.send(&line, &headers, Some(body)).await;
        let (head, answer) = self.http.answer().await;
        let answer = serde_json::from_str(&answer);
        (head.status, answer.expect("JSON"))
    }

    /// Asks for what has to succeed.
    async fn done(&mut self, path: &str, body: &str) -> serde_json::Value {
        let (status, answer) = self.ask(path, body).await;
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    /// What is said of something that is refused.
    async fn refused(&mut self, path: &str, body: &str) -> (u16, String) {
        let (status, answer) = self.ask(path, body).await;
        let message = answer["message"].as_str();
        (status, message.expect("a reason").to_owned())
    }
}

/// Scenario: etcd's documented way to switch authentication on with curl, and what users with and without rights see.
#[tokio::test]
async fn users_are_made_logged_in_and_held_to_their_rights() {
    let address = start();
    let mut anybody = Asker::new(address, None).await;
    for (path, body) in [
        ("auth/user/add", r#"{"name": "root", "password": "pass"}"#),
        ("auth/user/add", r#"{"name": "alice", "password": "word"}"#),
        (
            "auth/user/add",
            r#"{"name": "cn", "options": {"no_password": true}}"#,
        ),
        ("auth/role/add", r#"{"name": "root"}"#),
        ("auth/role/add", r#"{"name": "reader"}"#),
        ("auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("auth/user/grant", r#"{"user": "alice", "role": "reader"}"#),
        (
            "auth/role/grant",
            r#"{"name": "reader", "perm": {"permType": "READ", "key": "YQ==", "range_end": "Yw=="}}"#,
        ),
        ("kv/put", r#"{"key": "YQ==", "value": "MQ=="}"#),
        ("auth/enable", "{}"),
    ] {
        anybody.done(path, body).await;
    }
    let refused = anybody.refused("kv/range", r#"{"key": "YQ=="}"#).await;
    assert_eq!(refused, (400, "etcdserver: user name is empty".to_owned()));
    let wrong = r#"{"name": "alice", "password": "pass"}"#;
    let (status, why) = anybody.refused("auth/authenticate", wrong).await;
    assert_eq!(status, 400);
    assert!(
        why.starts_with("etcdserver: authentication failed"),
        "{why}"
    );

    let mut tokens = Vec::new();
    for (name, password) in [("root", "pass"), ("alice", "word")] {
        let body = format!(r#"{{"name": "{name}", "password": "{password}"}}"#);
        let answer = anybody.done("auth/authenticate", &body).await;
        tokens.push(answer["token"].as_str().expect("a token").to_owned());
    }
    let mut root = Asker::new(address, Some(&tokens[0])).await;
    let mut alice = Asker::new(address, Some(&tokens[1])).await;
    let found = alice.done("kv/range", r#"{"key": "YQ=="}"#).await;
    assert_eq!(found["kvs"][0]["value"], "MQ==");
    for (path, body) in [
        ("kv/put", r#"{"key": "YQ==", "value": "Mg=="}"#),
        ("kv/range", r#"{"key": "Yw=="}"#),
        ("kv/range", r#"{"key": "YQ==", "range_end": "AA=="}"#),
        ("auth/user/list", "{}"),
        ("maintenance/defragment", "{}"),
    ] {
        let denied = (403, "etcdserver: permission denied".to_owned());
        assert_eq!(alice.refused(path, body).await, denied, "{path} {body}");
    }
    let list = root.done("auth/user/list", "{}").await;
    assert_eq!(list["users"], serde_json::json!(["alice", "cn", "root"]));
    let role = root.done("auth/role/get", r#"{"role": "reader"}"#).await;
    // What is zero is left out, as the first of the types of permission is.
    let granted = serde_json::json!([{"key": "YQ==", "range_end": "Yw=="}]);
    assert_eq!(role["perm"], granted);
    let status = root.done("auth/status", "{}").await;
    assert_eq!(status["enabled"], true);
    let mut forged = Asker::new(address, Some("abcdefghijklmnop.1")).await;
    let (status, why) = forged.refused("kv/range", r#"{"key": "YQ=="}"#).await;
    assert_eq!((status, &*why), (401, "etcdserver: invalid auth token"));
    root.done("auth/user/delete", r#"{"name": "alice"}"#).await;
    let (status, why) = alice.refused("kv/range", r#"{"key": "YQ=="}"#).await;
    assert_eq!((status, &*why), (401, "etcdserver: invalid auth token"));
}

/// Scenario: two scripts want a lock, and then to lead, each with a lease.
#[tokio::test]
async fn a_lock_and_a_lead_are_had_by_one_at_a_time() {
    let address = start();
    let mut first = Asker::new(address, None).await;
    let mut second = Asker::new(address, None).await;
    for id in [7, 8] {
        let grant = format!(r#"{{"ID": {id}, "TTL": 60}}"#);
        first.done("lease/grant", &grant).await;
    }
    let locked = first
        .done("lock/lock", r#"{"name": "bG9jaw==", "lease": 7}"#)
        .await;
    let key = locked["key"].as_str().expect("a key").to_owned();
    let waiting = tokio::spawn(async move {
        let locked = second
            .done("lock/lock", r#"{"name": "bG9jaw==", "lease": "8"}"#)
            .await;
        (second, locked["key"].as_str().expect("a key").to_owned())
    });
    let unlocked = format!(r#"{{"key": "{key}"}}"#);
    first.done("lock/unlock", &unlocked).await;
    let (mut second, next) = waiting.await.expect("it has the lock");
    assert_ne!(next, key);
    second
        .done("lock/unlock", &format!(r#"{{"key": "{next}"}}"#))
        .await;

    let campaign = r#"{"name": "ZWxlY3Q=", "lease": 7, "value": "b25l"}"#;
    let won = first.done("election/campaign", campaign).await;
    let leader = won["leader"].to_string();
    let seen = second
        .done("election/leader", r#"{"name": "ZWxlY3Q="}"#)
        .await;
    assert_eq!(seen["kv"]["value"], "b25l");
    let proclaimed = format!(r#"{{"leader": {leader}, "value": "dHdv"}}"#);
    first.done("election/proclaim", &proclaimed).await;
    let seen = second
        .done("election/leader", r#"{"name": "ZWxlY3Q="}"#)
        .await;
    assert_eq!(seen["kv"]["value"], "dHdv");
    let resigned = format!(r#"{{"leader": {leader}}}"#);
    first.done("election/resign", &resigned).await;
    let (status, why) = second
        .refused("election/leader", r#"{"name": "ZWxlY3Q="}"#)
        .await;
    assert_eq!((status, &*why), (500, "election: no leader"));
}
