//! Links between replicas of this process.

use super::super::handshake::Identity;
use super::super::handshake::tests::identity;
use super::super::tests::{Replica, frame, next, up};
use super::super::{Arrival, TransportSetup};
use super::*;
use quorate_core::Boot;
use quorate_host::SupportedVersions;

/// Replicas 1 to 3 are peers of each other.
fn start(rings: &Rings, identity: Identity) -> Replica {
    let others = (1..=3).map(ReplicaId).filter(|id| *id != identity.me);
    let peers: Vec<_> = others.map(|id| (id, format!("replica {id}"))).collect();
    Replica::start_by(TransportSetup::Rings(rings.clone()), identity, &peers)
}

async fn pair() -> (Replica, Replica, Rings) {
    let rings = Rings::default();
    let mut one = start(&rings, identity(1));
    let mut two = start(&rings, identity(2));
    up(&mut one).await;
    up(&mut two).await;
    (one, two, rings)
}

async fn next_frame(replica: &mut Replica) -> Bytes {
    match next(replica).await {
        Arrival::Frame { payload, .. } => payload,
        other => panic!("not a frame: {other:?}"),
    }
}

/// The link to a peer goes down.
async fn down(replica: &mut Replica) -> ReplicaId {
    match next(replica).await {
        Arrival::Link {
            peer,
            version: None,
        } => peer,
        other => panic!("not a lost link: {other:?}"),
    }
}

fn whole(payload: &Bytes) -> Frame {
    Frame {
        chunks: vec![payload.clone()],
        ..frame(b"")
    }
}

/// Scenario: frames of every length, in one piece and in two, for all.
#[tokio::test]
async fn frames_arrive_in_order_at_all_and_their_bytes_are_not_copied() {
    let rings = Rings::default();
    let mut all = [1, 2, 3].map(|me| start(&rings, identity(me)));
    for replica in &mut all {
        up(replica).await;
        up(replica).await;
    }
    let [one, others @ ..] = &mut all;
    let payloads = [1, 3000, 3 << 20].map(|length| Bytes::from(vec![length as u8; length]));
    let frames = payloads.iter().flat_map(|one| [whole(one), frame(one)]);
    one.links.send(frames.collect());
    let mut joined = Vec::new();
    for other in others {
        for payload in &payloads {
            let (same, pieces) = (next_frame(other).await, next_frame(other).await);
            assert_eq!(same.as_ptr(), payload.as_ptr());
            assert!(pieces == payload);
            joined.push(pieces.as_ptr());
        }
        other.links.send(vec![frame(b"back")]);
        assert_eq!(next_frame(one).await, "back");
    }
    let (second, third) = joined.split_at(payloads.len());
    assert_eq!(second, third, "pieces are put together once");
}

/// Scenario: a replica takes nothing while another sends more than a ring holds.
#[tokio::test]
async fn a_full_ring_loses_frames_and_keeps_nobody_waiting() {
    let (mut one, mut two, _) = pair().await;
    let sent = FRAMES_MAX as u64 + 5;
    // Nothing else runs meanwhile: the receiver is a task of this thread.
    for n in 0..sent {
        one.links.send(vec![frame(&n.to_le_bytes())]);
    }
    assert_eq!(one.figure(DROPPED), 5);
    for n in 0..FRAMES_MAX as u64 {
        assert_eq!(next_frame(&mut two).await, n.to_le_bytes()[..]);
    }
    one.links.send(vec![frame(b"room again")]);
    assert_eq!(next_frame(&mut two).await, "room again");
    let long = Bytes::from(vec![1; QUEUE_BYTES_MAX]);
    one.links
        .send(vec![frame(b"first"), whole(&long), whole(&long)]);
    assert_eq!(one.figure(DROPPED), 6, "one may go over");
}

const DROPPED: &str = "quorate_peer_dropped_frames_total{peer=\"2\"}";

/// Scenario: a frame with bulk has another way, and as much room as the others have.
#[tokio::test]
async fn bulk_has_rings_of_its_own() {
    let (mut one, mut two, _) = pair().await;
    let long = Bytes::from(vec![7; QUEUE_BYTES_MAX]);
    let bulk = |payload: &Bytes| Frame {
        bulk: true,
        ..whole(payload)
    };
    one.links
        .send(vec![bulk(&long), bulk(&long), frame(b"small")]);
    let mut lengths = Vec::new();
    for _ in 0..3 {
        lengths.push(next_frame(&mut two).await.len());
    }
    lengths.sort_unstable();
    assert_eq!(lengths, [5, long.len(), long.len()]);
}

/// Scenario: a replica ends and starts again, twice.
#[tokio::test]
async fn who_ends_is_gone_at_once_and_who_starts_again_is_linked_again() {
    let (mut one, mut two, rings) = pair().await;
    for boot in 0..2 {
        drop(two);
        assert_eq!(down(&mut one).await, ReplicaId(2));
        one.links.send(vec![frame(b"to nobody")]);
        two = start(
            &rings,
            Identity {
                boot: Boot(boot),
                ..identity(2)
            },
        );
        up(&mut one).await;
        up(&mut two).await;
        one.links.send(vec![frame(b"again")]);
        assert_eq!(next_frame(&mut two).await, "again");
        two.links.send(vec![frame(b"back")]);
        assert_eq!(next_frame(&mut one).await, "back");
    }
}

/// Scenario: a replica takes another for no peer any more, and then for one again.
#[tokio::test]
async fn who_is_no_peer_is_not_listened_to() {
    let (mut one, mut two, _) = pair().await;
    let others = |ids: &[u16]| -> Vec<_> {
        let ids = ids.iter().map(|id| (ReplicaId(*id), String::new()));
        ids.collect()
    };
    assert_eq!(two.links.meet(&others(&[3])), [ReplicaId(1)]);
    assert_eq!(down(&mut one).await, ReplicaId(2));
    one.links.send(vec![frame(b"to nobody")]);
    assert_eq!(two.links.meet(&others(&[1, 3])), []);
    up(&mut one).await;
    up(&mut two).await;
    one.links.send(vec![frame(b"again")]);
    assert_eq!(next_frame(&mut two).await, "again");
}

/// Scenario: two replicas that speak different versions. What one still has to say in a newer one is lost.
#[tokio::test]
async fn replicas_agree_on_a_version() {
    let rings = Rings::default();
    let newer = Identity {
        supported: SupportedVersions::REHEARSED,
        ..identity(2)
    };
    let (mut one, mut two) = (start(&rings, identity(1)), start(&rings, newer));
    let agreed = SupportedVersions::SHIPPED.newest;
    assert_eq!((up(&mut one).await, up(&mut two).await), (agreed, agreed));
    let newest = Frame {
        version: SupportedVersions::REHEARSED.newest,
        ..frame(b"news")
    };
    two.links.send(vec![newest, frame(b"for everybody")]);
    assert_eq!(next_frame(&mut one).await, "for everybody");
}

/// Scenario: a replica of another cluster is there, and is replaced by the right one.
#[tokio::test]
async fn a_stranger_is_refused_and_makes_room() {
    let rings = Rings::default();
    let mut one = start(&rings, identity(1));
    let stranger = start(
        &rings,
        Identity {
            cluster: quorate_core::ClusterId(5),
            ..identity(2)
        },
    );
    while one.figure(REFUSED) == 0 {
        tokio::task::yield_now().await;
    }
    let mut two = start(&rings, identity(2));
    // It was not asked to leave, and leaves nobody but itself.
    drop(stranger);
    up(&mut one).await;
    up(&mut two).await;
    two.links.send(vec![frame(b"hello")]);
    assert_eq!(next_frame(&mut one).await, "hello");
}

const REFUSED: &str = "quorate_peer_failed_dials_total{peer=\"2\"}";
