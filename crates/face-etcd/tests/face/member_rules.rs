//! etcd's rules for changes of members, by what the member that is asked knows of the others.

use crate::backend;
use quorate_core::ReplicaId;
use quorate_etcd_api::etcdserverpb::{
    MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest,
};
use quorate_etcd_store::Store;
use quorate_face_etcd::Limits;
use quorate_face_etcd::client::ClusterClient;
use quorate_server::{
    ChangeError, GroupChange, Handle, MemberInfo, Request, Status as ReplicaStatus, USERS_LEVEL,
    answer_any,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::transport::Channel;
use tonic::{Code, Request as Asked, Status};

/// A member: whether it votes, was ever started, and is connected.
#[derive(Clone, Copy)]
enum Seen {
    Running,
    Down,
    NeverStarted,
    Learner,
    /// A learner that never started and is to stay one.
    Promised,
}
use Seen::{Down, Learner, NeverStarted, Promised, Running};

fn status(members: &[Seen]) -> ReplicaStatus {
    let ids = (1..).map(ReplicaId);
    let info = |(id, seen): (ReplicaId, &Seen)| MemberInfo {
        client_url: format!("http://client-{id}"),
        is_learner: matches!(seen, Learner | Promised),
        stays_learner: matches!(seen, Learner | Promised),
        has_started: !matches!(seen, NeverStarted | Promised),
        ..MemberInfo::told(id, format!("name-{id}"), format!("http://peer-{id}:1"))
    };
    let is_up = |(_, seen): &(ReplicaId, &Seen)| matches!(seen, Running | Learner);
    ReplicaStatus {
        me: ReplicaId(1),
        level: USERS_LEVEL,
        members: ids.clone().zip(members).map(info).collect(),
        links_up: ids.zip(members).filter(is_up).map(|(id, _)| id).collect(),
        ..backend::status(1)
    }
}

/// The face of member 1 among these, of which every change comes to this.
async fn start(
    members: &'static [Seen],
    changed: Result<(), ChangeError>,
    limits: Limits,
) -> ClusterClient<Channel> {
    start_recorded(members, changed, limits).await.0
}

/// The face of member 1 among these, and the changes that it asks the group for, each of which comes to this.
async fn start_recorded(
    members: &'static [Seen],
    changed: Result<(), ChangeError>,
    limits: Limits,
) -> (ClusterClient<Channel>, UnboundedReceiver<GroupChange>) {
    let (handle, mut requests) = Handle::new(64);
    let (record, recorded) = unbounded_channel();
    tokio::spawn(async move {
        let store = Store::new();
        while let Some(request) = requests.recv().await {
            // Whoever asked may have stopped waiting.
            match request {
                Request::Change { change, reply, .. } => {
                    drop(record.send(change));
                    drop(reply.send(changed.clone()));
                }
                Request::Status { reply } => drop(reply.send(status(members))),
                Request::Read { query, reply, .. } => {
                    drop(reply.send(Ok(answer_any(&store, &query))))
                }
                _ => {}
            }
        }
    });
    let channel = backend::serve_face(handle, limits).await;
    (ClusterClient::new(channel), recorded)
}

fn add(is_learner: bool) -> MemberAddRequest {
    MemberAddRequest {
        peer_urls: vec!["http://new:1".to_owned()],
        is_learner,
    }
}

fn told(answer: Result<(), Status>) -> String {
    answer.map_or_else(|why| why.message().to_owned(), |()| "done".to_owned())
}

const NOT_ENOUGH_STARTED: &str =
    "etcdserver: re-configuration failed due to not enough started members";
const UNHEALTHY: &str = "etcdserver: unhealthy cluster";

#[tokio::test]
async fn a_replica_is_added_where_that_could_not_cost_the_quorum() {
    let cases: &[(&[Seen], bool, &str)] = &[
        (&[Running], false, "done"),
        (&[Running, Running], false, "done"),
        (&[Running, Running, Running], false, "done"),
        (&[Running, NeverStarted], false, NOT_ENOUGH_STARTED),
        (&[Running, NeverStarted], true, UNHEALTHY),
        (&[Running, Down], false, UNHEALTHY),
        (&[Running, Running, Down], false, UNHEALTHY),
        (&[Running, Running, Down], true, UNHEALTHY),
        (&[Running, Running, Running, Down], false, "done"),
        (&[Running, Running, Running, Learner], true, "done"),
    ];
    for (members, is_learner, expected) in cases {
        let mut cluster = start(members, Ok(()), Limits::default()).await;
        let added = cluster.member_add(add(*is_learner)).await;
        if let Ok(added) = &added {
            let member = added.get_ref().member.as_ref().expect("a member");
            assert_eq!((member.is_learner, &member.name[..]), (*is_learner, ""));
        }
        assert_eq!(told(added.map(drop)), *expected, "{}", members.len());
    }
    let lenient = Limits {
        strict_reconfig_check: false,
        ..Limits::default()
    };
    let mut cluster = start(&[Running, Running, Down], Ok(()), lenient).await;
    cluster.member_add(add(false)).await.expect("nobody checks");
    // What `quorate cluster` asks for.
    let mut cluster = start(&[Running, Down], Ok(()), Limits::default()).await;
    let mut in_words = Asked::new(add(false));
    let words = "words".parse().expect("metadata");
    in_words.metadata_mut().insert("quorate-reasons", words);
    cluster.member_add(in_words).await.expect("nobody checks");
}

#[tokio::test]
async fn a_voter_is_removed_where_the_others_can_go_on() {
    let cases: &[(&[Seen], u64, &str)] = &[
        (&[Running], 1, NOT_ENOUGH_STARTED),
        (&[Running, Running], 2, "done"),
        (&[Running, Down], 2, "done"),
        (&[Running, NeverStarted], 1, NOT_ENOUGH_STARTED),
        (&[Running, Running, Running], 3, "done"),
        (&[Running, Running, Down], 3, "done"),
        (&[Running, Running, Down], 2, UNHEALTHY),
        (&[Running, Running, NeverStarted], 2, NOT_ENOUGH_STARTED),
        (&[Running, Down, Learner], 3, "done"),
    ];
    for (members, id, expected) in cases {
        let mut cluster = start(members, Ok(()), Limits::default()).await;
        let removed = cluster.member_remove(MemberRemoveRequest { id: *id }).await;
        assert_eq!(
            told(removed.map(drop)),
            *expected,
            "{id} of {}",
            members.len()
        );
    }
}

#[tokio::test]
async fn reasons_are_told_in_etcds_words_to_its_clients() {
    let why = || "a reason".to_owned();
    let not_ready = "etcdserver: can only promote a learner member which is in sync with leader";
    for (error, in_etcds_words, code) in [
        (
            ChangeError::NotReady(why()),
            not_ready,
            Code::FailedPrecondition,
        ),
        (ChangeError::NoQuorum(why()), UNHEALTHY, Code::Unavailable),
        (
            ChangeError::Refused(why()),
            "quorate: a reason",
            Code::FailedPrecondition,
        ),
        (
            ChangeError::IsMember(ReplicaId(3)),
            "etcdserver: can only promote a learner member",
            Code::FailedPrecondition,
        ),
        (
            ChangeError::Unknown(ReplicaId(3)),
            "etcdserver: member not found",
            Code::NotFound,
        ),
    ] {
        let mut cluster = start(&[Running, Running, Learner], Err(error), Limits::default()).await;
        let request = MemberPromoteRequest { id: 3 };
        let refused = cluster.member_promote(request).await.expect_err("refused");
        assert_eq!((refused.message(), refused.code()), (in_etcds_words, code));
    }
}

#[tokio::test]
async fn members_that_never_started_have_no_name() {
    let members = &[Running, Down, NeverStarted, Learner, Promised];
    let mut cluster = start(members, Ok(()), Limits::default()).await;
    let list = cluster.member_list(MemberListRequest { linearizable: true });
    let list = list.await.expect("a list").into_inner().members;
    let shown = list.iter().map(|member| {
        let urls = (member.peer_urls.len(), member.client_urls.len());
        (&member.name[..], urls, member.is_learner)
    });
    let expected = [
        ("name-1", (1, 1), false),
        ("name-2", (1, 1), false),
        ("", (1, 0), false),
        ("name-4", (1, 1), true),
        ("", (1, 0), true),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

/// Scenario (etcd's #21736): a learner moves elsewhere. The group is asked for nothing but to note the address.
#[tokio::test]
async fn a_learner_that_moves_stays_one() {
    let members = &[Running, Running, Running, Learner];
    let (mut cluster, mut changes) = start_recorded(members, Ok(()), Limits::default()).await;
    let url = "http://elsewhere:1".to_owned();
    let moved = cluster.member_update(MemberUpdateRequest {
        id: 4,
        peer_urls: vec![url.clone()],
    });
    let list = moved.await.expect("it moves").into_inner().members;
    assert!(list.iter().any(|one| one.id == 4 && one.is_learner));
    let id = ReplicaId(4);
    assert_eq!(changes.recv().await, Some(GroupChange::Address { id, url }));
    changes.try_recv().expect_err("nothing else is asked for");
}
