//! Every call, and who may make it.

use super::*;
use std::pin::Pin;

/// A call's name, whether any user may make it and not root alone, and the call.
type Row = (&'static str, bool, Call);
type Call = Box<dyn Fn(Client) -> Pin<Box<dyn Future<Output = Result<(), Status>>>>>;

#[tokio::test]
async fn every_call_knows_who_may() {
    let (client, root, alice) = with_users().await;
    // Whether authentication is on is told to anybody.
    let mut service = AuthClient::new(client.channel.clone());
    service
        .auth_status(client.ask(AuthStatusRequest {}))
        .await
        .unwrap();
    let calls = [maintenance(), cluster(), leases(), users()];
    for (name, any_user, call) in calls.into_iter().flatten() {
        let asked = call(client.clone()).await;
        assert!(
            is(&asked, errors::USER_EMPTY),
            "{name} of nobody: {asked:?}"
        );
        let asked = call(client.with("x.1")).await;
        let is_invalid = is(&asked, errors::INVALID_AUTH_TOKEN);
        assert!(is_invalid, "{name} with a bad token: {asked:?}");
        let asked = call(alice.clone()).await;
        let is_denied = is(&asked, errors::PERMISSION_DENIED);
        assert_eq!(is_denied, !any_user, "{name} of a user: {asked:?}");
        let asked = call(root.clone()).await;
        let is_denied = is(&asked, errors::PERMISSION_DENIED);
        assert!(!is_denied, "{name} of root: {asked:?}");
    }
}

fn call<F: Future<Output = Result<(), Status>> + 'static>(
    ask: impl Fn(Client) -> F + 'static,
) -> Call {
    Box::new(move |client| Box::pin(ask(client)))
}

macro_rules! unary {
    ($client:ident, $method:ident, $any:literal, $request:expr) => {
        (
            stringify!($method),
            $any,
            call(async |client: Client| {
                let mut service = $client::new(client.channel.clone());
                service.$method(client.ask($request)).await.map(drop)
            }),
        )
    };
}

fn maintenance() -> Vec<Row> {
    type Service = MaintenanceClient<Channel>;
    fn raise() -> AlarmRequest {
        AlarmRequest {
            action: 2,
            member_id: 2,
            alarm: 1,
        }
    }
    vec![
        unary!(Service, status, true, StatusRequest {}),
        unary!(Service, alarm, true, AlarmRequest::default()),
        unary!(Service, alarm, false, raise()),
        unary!(Service, defragment, false, DefragmentRequest {}),
        unary!(Service, hash, false, HashRequest {}),
        unary!(Service, hash_kv, false, HashKvRequest::default()),
        unary!(Service, snapshot, false, SnapshotRequest {}),
        unary!(Service, move_leader, false, MoveLeaderRequest::default()),
        unary!(Service, downgrade, false, DowngradeRequest::default()),
    ]
}

fn cluster() -> Vec<Row> {
    type Service = ClusterClient<Channel>;
    vec![
        unary!(Service, member_list, true, MemberListRequest::default()),
        unary!(Service, member_add, false, MemberAddRequest::default()),
        unary!(
            Service,
            member_remove,
            false,
            MemberRemoveRequest::default()
        ),
        unary!(
            Service,
            member_update,
            false,
            MemberUpdateRequest::default()
        ),
        unary!(
            Service,
            member_promote,
            false,
            MemberPromoteRequest::default()
        ),
    ]
}

fn leases() -> Vec<Row> {
    type Service = LeaseClient<Channel>;
    fn ask(keys: bool) -> LeaseTimeToLiveRequest {
        LeaseTimeToLiveRequest { id: 7, keys }
    }
    vec![
        unary!(
            Service,
            lease_grant,
            true,
            LeaseGrantRequest { id: 0, ttl: 9 }
        ),
        unary!(Service, lease_revoke, true, LeaseRevokeRequest { id: 7 }),
        unary!(Service, lease_leases, true, LeaseLeasesRequest {}),
        unary!(Service, lease_time_to_live, true, ask(true)),
        unary!(Service, lease_time_to_live, true, ask(false)),
        (
            "lease_keep_alive",
            true,
            call(async |client: Client| {
                let requests = tokio_stream::once(LeaseKeepAliveRequest { id: 7 });
                let mut lease = client.lease();
                let asked = lease.lease_keep_alive(client.ask(requests)).await;
                let mut answers = asked?.into_inner();
                answers.message().await.map(drop)
            }),
        ),
    ]
}

fn users() -> Vec<Row> {
    type Service = AuthClient<Channel>;
    type Kv = KvClient<Channel>;
    fn add() -> AuthUserAddRequest {
        AuthUserAddRequest {
            name: "x".to_owned(),
            ..AuthUserAddRequest::default()
        }
    }
    vec![
        unary!(Kv, compact, false, CompactionRequest::default()),
        unary!(Service, auth_enable, false, AuthEnableRequest {}),
        unary!(Service, user_list, false, AuthUserListRequest {}),
        unary!(Service, user_add, false, add()),
    ]
}
