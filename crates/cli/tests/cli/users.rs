//! Users of a real cluster: tokens at every replica, across restarts, and no secret in anything that is written.

use crate::support::{Home, channel, eventually, expect_failure, get, output, page, quorate};
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthStatusRequest, AuthUserAddRequest, AuthUserDeleteRequest,
    AuthUserGrantRoleRequest, AuthenticateRequest, PutRequest,
};
use quorate_face_etcd::client::{AuthClient, KvClient};
use std::fs;
use std::path::Path;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A password that is looked for in everything that is written.
const SECRET: &str = "correct-horse-battery-staple";

async fn auth(url: &str) -> AuthClient<Channel> {
    AuthClient::new(channel(url).await)
}

async fn login(url: &str, name: &str, password: &str) -> Result<String, Status> {
    let request = AuthenticateRequest {
        name: name.to_owned(),
        password: password.to_owned(),
    };
    let answer = auth(url).await.authenticate(request).await?;
    Ok(answer.into_inner().token)
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let token = token.parse().expect("a token is ASCII");
    request.metadata_mut().insert("token", token);
    request
}

async fn put(url: &str, token: &str) -> Result<(), Status> {
    let request = PutRequest {
        key: "k".into(),
        ..PutRequest::default()
    };
    let mut kv = KvClient::new(channel(url).await);
    kv.put(with_token(request, token)).await.map(drop)
}

/// Adds the user root and turns authentication on.
async fn add_root(url: &str) {
    let mut auth = auth(url).await;
    let request = AuthUserAddRequest {
        name: "root".to_owned(),
        password: SECRET.to_owned(),
        ..AuthUserAddRequest::default()
    };
    let added = auth.user_add(request).await;
    added.expect("a new cluster has users as soon as it serves");
    let request = AuthUserGrantRoleRequest {
        user: "root".to_owned(),
        role: "root".to_owned(),
    };
    auth.user_grant_role(request).await.expect("both exist");
    let enabled = auth.auth_enable(AuthEnableRequest {}).await;
    enabled.expect("there is a root");
}

/// The bytes of all files below a folder, with their names.
fn files(dir: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => {
                let bytes = fs::read(&path).unwrap_or_default();
                found.push((path.display().to_string(), bytes));
            }
        }
    }
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    let secret = secret.as_bytes();
    bytes.windows(secret.len()).any(|part| part == secret)
}

/// Scenario: a password gives a token at one replica; it is good at all, is refused once its user is gone, and neither
/// is in any file of the cluster, logs and exports included.
#[tokio::test]
async fn a_token_is_good_at_every_replica_and_is_written_nowhere() {
    let home = Home::new();
    let up = home.start(&[
        "--server-arg=--bcrypt-cost=4",
        "--server-arg=--log-level=debug",
    ]);
    add_root(&up.urls[0]).await;
    let wrong = login(&up.urls[1], "root", "wrong-secret").await;
    let wrong = wrong.expect_err("another password");
    assert_eq!(wrong.message(), errors::AUTH_FAILED.text);
    let token = login(&up.urls[1], "root", SECRET).await.expect("it fits");
    for url in &up.urls {
        put(url, &token).await.expect("root may");
        let refused = put(url, "abc.1").await.expect_err("no token");
        assert_eq!(refused.message(), errors::INVALID_AUTH_TOKEN.text);
    }
    let mut auth = auth(&up.urls[2]).await;
    let mallory = AuthUserAddRequest {
        name: "mallory".to_owned(),
        password: SECRET.to_owned(),
        ..AuthUserAddRequest::default()
    };
    let added = auth.user_add(with_token(mallory, &token)).await;
    added.expect("root may");
    let other = login(&up.urls[0], "mallory", SECRET)
        .await
        .expect("it fits");
    let name = "mallory".to_owned();
    let deleted = auth
        .user_delete(with_token(AuthUserDeleteRequest { name }, &token))
        .await;
    deleted.expect("root may");
    eventually("all have forgotten the token", || async {
        for url in &up.urls {
            let refused = put(url, &other).await.err()?;
            if refused.message() != errors::INVALID_AUTH_TOKEN.text {
                return None;
            }
        }
        Some(())
    })
    .await;
    let status = auth
        .auth_status(with_token(AuthStatusRequest {}, &token))
        .await;
    assert!(status.expect("root may").into_inner().enabled);
    // Whether a replica is well anybody may ask.
    assert!(page(&up.urls[0], "/health").await.contains("true"));
    // A browser is asked for name and password.
    assert_eq!(get(&up.urls[0], "/console").await.0, 401);
    operators_say_who_they_are(&up.urls[0]);
    up.stop();
    let mut written = Vec::new();
    files(&home.dir, &mut written);
    let folder = home.dir.join("1");
    let export = output(quorate().args(["log", "export", "--data-dir"]).arg(&folder));
    assert!(export.status.success());
    assert!(
        holds(&export.stdout, "UserAdd"),
        "changes of users are in the export"
    );
    written.push(("the export".to_owned(), export.stdout));
    let (letters, _) = token.split_once('.').expect("letters, a dot, a slot");
    for secret in [SECRET, "wrong-secret", letters] {
        for (name, bytes) in &written {
            assert!(!holds(bytes, secret), "{name} holds {secret}");
        }
    }
}

/// The commands of operators take a user with its password, from either place, and say so where there is none.
fn operators_say_who_they_are(url: &str) {
    let named = format!("--user=root:{SECRET}");
    let name_alone = ["--user=root", "--password", SECRET];
    for (words, says) in [
        (&["status"][..], "healthy: 3 of 3 replicas serve"),
        (&["cluster", "status"], "rabia"),
        (&["cluster", "history"], "rabia"),
    ] {
        let asked = |user: &[&str]| {
            let mut command = quorate();
            command.args(words).arg("--endpoints").arg(url).args(user);
            output(&mut command)
        };
        for user in [&[&*named][..], &name_alone] {
            let answer = asked(user);
            let said = String::from_utf8_lossy(&answer.stdout).into_owned();
            assert!(said.contains(says), "{words:?}: {answer:?}");
        }
        for (user, why) in [
            (&[][..], "user name is empty: give --user"),
            (&["--user=root:wrong-secret"], "authentication failed"),
        ] {
            let answer = asked(user);
            let said = [answer.stdout, answer.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(
                !answer.status.success() && said.contains(why),
                "{words:?}: {said}"
            );
        }
    }
    for (words, why) in [
        (&["remove", "9"][..], "member not found"),
        (&["switch", "none"], "none"),
    ] {
        for (user, why) in [(&[&*named][..], why), (&[], "user name is empty")] {
            let mut command = quorate();
            command
                .arg("cluster")
                .args(words)
                .arg("--endpoints")
                .arg(url);
            expect_failure(command.args(user), 1, why);
        }
    }
}

/// Scenario: all replicas end and start again. Users stay, and so does who may do what.
#[tokio::test]
async fn users_outlive_a_restart() {
    let home = Home::new();
    let flags = [
        "--server-arg=--bcrypt-cost=4",
        "--server-arg=--auth-token-ttl=1",
    ];
    let up = home.start(&flags);
    add_root(&up.urls[0]).await;
    let token = login(&up.urls[0], "root", SECRET).await.expect("it fits");
    put(&up.urls[0], &token).await.expect("root may");
    up.stop();
    let up = home.start(&flags);
    let url = &up.urls[0];
    let refused = eventually("it serves", || async { put(url, "abc.1").await.err() }).await;
    assert_eq!(refused.message(), errors::INVALID_AUTH_TOKEN.text);
    eventually("the token is over", || async {
        let refused = put(url, &token).await.err()?;
        (refused.message() == errors::INVALID_AUTH_TOKEN.text).then_some(())
    })
    .await;
    let token = login(url, "root", SECRET).await.expect("it fits");
    put(url, &token).await.expect("root may");
    up.stop();
}

#[test]
fn wrong_options_are_named_at_start() {
    for (flag, why) in [
        (
            "--auth-token=paseto",
            "--auth-token: \"paseto\" is neither simple nor jwt",
        ),
        ("--bcrypt-cost=3", "--bcrypt-cost 3"),
        ("--auth-token-ttl=0", "--auth-token-ttl 0"),
    ] {
        expect_failure(quorate().args(["serve", flag]), 2, why);
    }
}
