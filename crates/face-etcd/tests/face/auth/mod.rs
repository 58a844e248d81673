//! Users at the face: tokens, and calls that are refused.

mod calls;
mod pages;

use crate::backend::{serve_face, start};
use bytes::Bytes;
use quorate_etcd_api::authpb::{Permission, PermissionType};
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    AlarmRequest, AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest,
    AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest, AuthStatusRequest,
    AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserGetRequest,
    AuthUserGrantRoleRequest, AuthUserListRequest, AuthenticateRequest, CompactionRequest,
    DefragmentRequest, DowngradeRequest, HashKvRequest, HashRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest, MoveLeaderRequest, PutRequest, RangeRequest, SnapshotRequest,
    StatusRequest, TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use quorate_face_etcd::client::{
    AuthClient, ClusterClient, KvClient, LeaseClient, MaintenanceClient, WatchClient,
};
use quorate_face_etcd::{JwtOptions, JwtSigner, Limits, TokenKind, UserOptions};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

type Answered<M> = Result<Response<M>, Status>;

/// The least cost there is: tests need no strength.
fn limits() -> Limits {
    Limits {
        users: UserOptions {
            bcrypt_cost: 4,
            ..UserOptions::default()
        },
        ..Limits::default()
    }
}

/// A client with or without a token.
#[derive(Clone)]
struct Client {
    channel: Channel,
    token: Option<String>,
}

impl Client {
    fn ask<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let token: MetadataValue<_> = token.parse().expect("a token is ASCII");
            request.metadata_mut().insert("token", token);
        }
        request
    }

    fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    fn with(&self, token: &str) -> Client {
        Client {
            channel: self.channel.clone(),
            token: Some(token.to_owned()),
        }
    }

    async fn token(&self, name: &str, password: &str) -> Result<String, Status> {
        let request = AuthenticateRequest {
            name: name.to_owned(),
            password: password.to_owned(),
        };
        let answer = self.auth().authenticate(request).await?;
        Ok(answer.into_inner().token)
    }

    /// Logs in: a client with a token.
    async fn login(&self, name: &str) -> Client {
        let token = self.token(name, &password(name)).await;
        self.with(&token.expect("the password fits"))
    }

    async fn put(&self, key: &'static str) -> Result<(), Status> {
        let request = PutRequest {
            key: Bytes::from_static(key.as_bytes()),
            ..PutRequest::default()
        };
        self.kv().put(self.ask(request)).await.map(drop)
    }

    async fn range(&self, key: &'static str) -> Result<(), Status> {
        let request = RangeRequest {
            key: Bytes::from_static(key.as_bytes()),
            ..RangeRequest::default()
        };
        self.kv().range(self.ask(request)).await.map(drop)
    }

    async fn grant(&self, kind: PermissionType, key: &'static str) {
        let request = AuthRoleGrantPermissionRequest {
            name: "reader".to_owned(),
            perm: Some(Permission {
                perm_type: kind as i32,
                key: Bytes::from_static(key.as_bytes()),
                range_end: Bytes::new(),
            }),
        };
        let granted = self.auth().role_grant_permission(self.ask(request)).await;
        granted.expect("root may");
    }

    async fn revoke(&self, key: &'static str) {
        let request = AuthRoleRevokePermissionRequest {
            role: "reader".to_owned(),
            key: Bytes::from_static(key.as_bytes()),
            range_end: Bytes::new(),
        };
        let revoked = self.auth().role_revoke_permission(self.ask(request)).await;
        revoked.expect("root may");
    }

    async fn disable(&self) {
        let disabled = self
            .auth()
            .auth_disable(self.ask(AuthDisableRequest {}))
            .await;
        disabled.expect("root may");
    }
}

fn password(name: &str) -> String {
    format!("password of {name}")
}

/// A face without users, and a client.
async fn face(limits: Limits) -> Client {
    let channel = serve_face(start(), limits).await;
    let token = None;
    Client { channel, token }
}

/// Adds users root and alice, who has the role reader, and turns authentication on.
async fn add_users(client: &Client) {
    let mut auth = client.auth();
    for name in ["root", "alice"] {
        let request = AuthUserAddRequest {
            name: name.to_owned(),
            password: password(name),
            ..AuthUserAddRequest::default()
        };
        auth.user_add(request).await.expect("the name is free");
    }
    let name = "reader".to_owned();
    let added = auth.role_add(AuthRoleAddRequest { name }).await;
    added.expect("the name is free");
    for (user, role) in [("root", "root"), ("alice", "reader")] {
        let request = AuthUserGrantRoleRequest {
            user: user.to_owned(),
            role: role.to_owned(),
        };
        auth.user_grant_role(request).await.expect("both exist");
    }
    let enabled = auth.auth_enable(AuthEnableRequest {}).await;
    enabled.expect("there is a root");
}

/// A client without a token, one for root and one for alice.
async fn with_users() -> (Client, Client, Client) {
    let client = face(limits()).await;
    add_users(&client).await;
    let (root, alice) = (client.login("root").await, client.login("alice").await);
    (client, root, alice)
}

fn is<T>(answer: &Result<T, Status>, error: errors::Error) -> bool {
    let status = answer.as_ref().err();
    status.is_some_and(|status| {
        status.code() == Code::from_i32(error.code as i32) && status.message() == error.text
    })
}

#[tokio::test]
async fn a_password_gives_a_token_and_the_token_a_name() {
    let (client, root, alice) = with_users().await;
    let token = root.token.clone().expect("it has one");
    let (secret, slot) = token.split_once('.').expect("letters, a dot, a slot");
    assert!(secret.len() == 16 && slot.parse::<u64>().is_ok(), "{token}");
    assert!(root.put("k").await.is_ok() && root.range("k").await.is_ok());
    assert!(is(&alice.put("k").await, errors::PERMISSION_DENIED));
    assert!(is(&alice.range("k").await, errors::PERMISSION_DENIED));
    assert!(is(&client.put("k").await, errors::USER_EMPTY));
    assert!(is(&client.range("k").await, errors::USER_EMPTY));
    root.grant(PermissionType::Readwrite, "k").await;
    assert!(alice.put("k").await.is_ok() && alice.range("k").await.is_ok());
    let request = AuthUserGetRequest {
        name: "alice".to_owned(),
    };
    let asked = alice.auth().user_get(alice.ask(request)).await;
    assert_eq!(asked.expect("her own").into_inner().roles, ["reader"]);
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_token_are_refused() {
    let (client, root, _) = with_users().await;
    for (name, password) in [("root", "wrong"), ("root", ""), ("nobody", "x"), ("", "")] {
        let asked = client.token(name, password).await;
        assert!(is(&asked, errors::AUTH_FAILED), "{name}: {asked:?}");
    }
    let token = root.token.clone().expect("it has one");
    for token in [
        "",
        "x",
        "x.y",
        "abcdefghijklmnop.1",
        &format!("{token}.1"),
        &format!("x{token}"),
    ] {
        let asked = client.with(token).range("k").await;
        assert!(is(&asked, errors::INVALID_AUTH_TOKEN), "{token}: {asked:?}");
        let asked = client.with(token).put("k").await;
        assert!(is(&asked, errors::INVALID_AUTH_TOKEN), "{token}: {asked:?}");
    }
    root.disable().await;
    assert!(
        client.with("x").put("k").await.is_ok(),
        "tokens do not count"
    );
    let asked = client.token("root", "x").await;
    assert!(is(&asked, errors::AUTH_NOT_ENABLED));
}

#[tokio::test]
async fn a_token_ends_with_its_time_or_its_password() {
    let mut limits = limits();
    limits.users.token_ttl = Duration::from_secs(1);
    let client = face(limits).await;
    add_users(&client).await;
    let root = client.login("root").await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        assert!(root.put("k").await.is_ok(), "it is used again and again");
    }
    let unused = client.login("alice").await;
    assert!(!is(&unused.put("k").await, errors::INVALID_AUTH_TOKEN));
    let is_over = async || is(&unused.put("k").await, errors::INVALID_AUTH_TOKEN);
    // Every look is a use, after which the token lives on: only time can be waited for.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(is_over().await);

    let (_, root, alice) = with_users().await;
    let request = AuthUserChangePasswordRequest {
        name: "alice".to_owned(),
        password: "another".to_owned(),
        ..AuthUserChangePasswordRequest::default()
    };
    let changed = root.auth().user_change_password(root.ask(request)).await;
    changed.expect("root may");
    assert!(is(&alice.range("k").await, errors::INVALID_AUTH_TOKEN));
    assert!(is(
        &alice.token("alice", &password("alice")).await,
        errors::AUTH_FAILED
    ));
    assert!(alice.token("alice", "another").await.is_ok());
}

#[tokio::test]
async fn a_signed_token_names_a_user_until_users_change() {
    let signer = JwtSigner::new(&JwtOptions {
        method: "HS256".to_owned(),
        public_key: None,
        private_key: Some(vec![7; 32]),
        ttl: Duration::from_secs(60),
    });
    let mut limits = limits();
    limits.users.tokens = TokenKind::Jwt(Arc::new(signer.expect("a good key")));
    let client = face(limits).await;
    add_users(&client).await;
    let root = client.login("root").await;
    assert_eq!(
        root.token.as_ref().map(|token| token.split('.').count()),
        Some(3)
    );
    assert!(root.put("k").await.is_ok());
    assert!(is(
        &client.with("a.b.c").put("k").await,
        errors::INVALID_AUTH_TOKEN
    ));
    root.grant(PermissionType::Read, "k").await;
    assert!(is(&root.put("k").await, errors::AUTH_OLD_REVISION));
    assert!(client.login("root").await.put("k").await.is_ok());
}

/// Watches a range; what comes first is the answer to that.
async fn watch(
    client: &Client,
    key: &'static str,
    end: &'static str,
) -> (
    mpsc::Sender<WatchRequest>,
    Streaming<WatchResponse>,
    WatchResponse,
) {
    let (requests, taken) = mpsc::channel(4);
    let create = WatchCreateRequest {
        key: Bytes::from_static(key.as_bytes()),
        range_end: Bytes::from_static(end.as_bytes()),
        ..WatchCreateRequest::default()
    };
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    requests.send(create).await.expect("there is room");
    let mut service = WatchClient::new(client.channel.clone());
    let request = client.ask(ReceiverStream::new(taken));
    let answers: Answered<_> = service.watch(request).await;
    let mut answers = answers.expect("no stream error").into_inner();
    let first = answers
        .message()
        .await
        .expect("no error")
        .expect("an answer");
    (requests, answers, first)
}

fn denied(response: &WatchResponse) -> bool {
    response.cancel_reason
        == "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
}

#[tokio::test]
async fn a_watch_without_the_right_to_it_is_created_and_cancelled_at_once() {
    let (client, root, alice) = with_users().await;
    root.grant(PermissionType::Read, "k").await;
    // From a key on is more than that key (GHSA-xg4h-6gfc-h4m8).
    for (key, end) in [("x", ""), ("k", "\0"), ("k", "l"), ("", "\0")] {
        let (_, _, first) = watch(&alice, key, end).await;
        assert!(
            first.created && first.canceled && first.watch_id == -1,
            "{first:?}"
        );
        assert!(denied(&first), "{key:?} {end:?}: {first:?}");
    }
    let (_, _, first) = watch(&client, "k", "").await;
    let reason = "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
    assert!(first.canceled && first.cancel_reason == reason, "{first:?}");
    let (_, _, first) = watch(&client.with("x.1"), "k", "").await;
    let reason = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    assert!(first.canceled && first.cancel_reason == reason, "{first:?}");
    let (_requests, mut answers, first) = watch(&alice, "k", "").await;
    assert!(first.created && !first.canceled, "{first:?}");
    root.put("k").await.expect("root may");
    let event = answers
        .message()
        .await
        .expect("no error")
        .expect("an event");
    assert_eq!(event.events.len(), 1);
}

#[tokio::test]
async fn a_watch_ends_when_its_right_does_and_tells_nothing_after_it() {
    let (_, root, alice) = with_users().await;
    root.grant(PermissionType::Read, "k").await;
    root.grant(PermissionType::Read, "other").await;
    let (_kept, mut other, _) = watch(&alice, "other", "").await;
    let (_requests, mut answers, first) = watch(&alice, "k", "").await;
    assert!(first.created && !first.canceled, "{first:?}");
    root.revoke("k").await;
    root.put("k").await.expect("root may");
    root.put("other").await.expect("root may");
    let last = answers.message().await.expect("no error").expect("the end");
    assert!(
        last.canceled && denied(&last) && last.events.is_empty(),
        "{last:?}"
    );
    let event = other.message().await.expect("no error").expect("an event");
    assert!(!event.canceled && event.events.len() == 1, "{event:?}");
}

#[tokio::test]
async fn a_watch_from_before_authentication_ends_with_it() {
    let client = face(limits()).await;
    let (_requests, mut answers, first) = watch(&client, "k", "").await;
    assert!(!first.canceled);
    add_users(&client).await;
    let last = answers.message().await.expect("no error").expect("the end");
    assert!(last.canceled, "{last:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_as_long_as_its_keys_may_be_written() {
    let (_, root, alice) = with_users().await;
    root.grant(PermissionType::Readwrite, "k").await;
    let grant = LeaseGrantRequest { id: 5, ttl: 60 };
    let granted = alice.lease().lease_grant(alice.ask(grant)).await;
    granted.expect("any user may");
    let request = PutRequest {
        key: Bytes::from_static(b"k"),
        lease: 5,
        ..PutRequest::default()
    };
    let put = alice.kv().put(alice.ask(request)).await;
    put.expect("alice may");
    let (requests, taken) = mpsc::channel(4);
    let asked = ReceiverStream::new(taken);
    let answers = alice.lease().lease_keep_alive(alice.ask(asked)).await;
    let mut answers = answers.expect("any user may").into_inner();
    requests
        .send(LeaseKeepAliveRequest { id: 5 })
        .await
        .expect("there is room");
    assert!(answers.message().await.is_ok_and(|answer| answer.is_some()));
    root.revoke("k").await;
    requests
        .send(LeaseKeepAliveRequest { id: 5 })
        .await
        .expect("there is room");
    let answer = answers.message().await;
    assert!(is(&answer, errors::PERMISSION_DENIED), "{answer:?}");
}

#[tokio::test]
async fn transactions_that_read_are_checked_as_ranges_are() {
    let (_, root, alice) = with_users().await;
    root.grant(PermissionType::Read, "k").await;
    let ask = async |key: &'static str| {
        let range = RangeRequest {
            key: Bytes::from_static(key.as_bytes()),
            ..RangeRequest::default()
        };
        let range = quorate_etcd_api::etcdserverpb::request_op::Request::RequestRange(range);
        let request = TxnRequest {
            success: vec![range.into()],
            ..TxnRequest::default()
        };
        alice.kv().txn(alice.ask(request)).await
    };
    assert!(ask("k").await.is_ok());
    assert!(is(&ask("x").await, errors::PERMISSION_DENIED));
}
