//! Long fragments lie on the disk before anybody counts on them.

mod cluster;

use cluster::{Cluster, LONG, limits};
use quorate_core::Now;
use quorate_host::{Flaw, Fragment, Limits};

const VALUE: &[u8] = &[7; 3 * LONG];

fn fragments(cluster: &Cluster, index: usize) -> Vec<Fragment> {
    cluster.nodes[index]
        .host
        .look()
        .fragments()
        .copied()
        .collect()
}

/// Scenario: followers get their fragments of a long value and do not store them. The value is not
/// decided; small ones pass. Once they do, it is, and the flush with its record finds the fragment
/// there.
#[test]
fn a_message_with_long_fragments_is_heard_once_they_are_stored() {
    let mut cluster = Cluster::led(None);
    for node in &mut cluster.nodes[1..] {
        node.stores = false;
    }
    cluster.submit(0, 2, VALUE);
    cluster.submit(0, 3, b"small");
    cluster.settle();
    assert!(cluster.is_answered(0, 3) && !cluster.is_answered(0, 2));
    assert_eq!(fragments(&cluster, 1).len(), 1, "it is on its way");
    for index in 1..4 {
        cluster.store(index);
        assert!(!cluster.is_answered(0, 2), "{index} have it");
        cluster.settle();
    }
    assert!(cluster.is_answered(0, 2), "four of five have it");
    let bytes = cluster.nodes[1].host.look().unwritten_bytes();
    assert!(bytes < LONG, "{bytes} B are left of a fragment");
}

/// Whether the leader says that it accepted a long value only when its own fragment is stored.
fn waits_for_its_own(flaw: Option<Flaw>) -> bool {
    let mut cluster = Cluster::led(flaw);
    cluster.nodes[0].stores = false;
    cluster.nodes[4].stores = false;
    cluster.submit(0, 2, VALUE);
    cluster.settle();
    // The others need the leader for their quorum.
    let waited = !cluster.is_answered(0, 2);
    cluster.store(0);
    cluster.settle();
    assert!(cluster.is_answered(0, 2));
    waited
}

#[test]
fn a_record_waits_for_the_fragments_it_names() {
    assert!(waits_for_its_own(None));
    assert!(!waits_for_its_own(Some(Flaw::FragmentsNotAwaited)));
}

/// Scenario: the leader's record of a long value waits for the own fragment; what is small is ordered
/// behind it, and both are decided once that is stored.
#[test]
fn no_flush_is_synced_while_a_record_waits() {
    let mut cluster = Cluster::led(None);
    cluster.nodes[0].stores = false;
    cluster.submit(0, 2, VALUE);
    cluster.settle();
    cluster.nodes[0].synced = false;
    cluster.submit(0, 3, b"small");
    cluster.settle();
    assert!(!cluster.nodes[0].synced);
    cluster.store(0);
    cluster.settle();
    assert!(cluster.nodes[0].synced && cluster.is_answered(0, 2) && cluster.is_answered(0, 3));
}

/// Scenario: a follower ends while its fragment is half written. It starts again without the fragment
/// and without the message, gets both once more, and nothing is damaged.
#[test]
fn what_waited_is_forgotten_with_the_process_and_comes_again() {
    let mut cluster = Cluster::led(None);
    for node in &mut cluster.nodes[1..3] {
        node.stores = false;
    }
    cluster.submit(0, 2, VALUE);
    cluster.settle();
    assert_eq!(fragments(&cluster, 1).len(), 1);
    let node = &mut cluster.nodes[1];
    let step = node.host.take_fragment_step().expect("it is on its way");
    node.disk.perform_step(&step);
    cluster.restart(1);
    assert_eq!(fragments(&cluster, 1), []);
    cluster.settle();
    assert!(!cluster.is_answered(0, 2));
    for _ in 0..1_000 {
        cluster.now.mono_ns += 1_000_000;
        cluster.settle();
        if cluster.is_answered(0, 2) {
            return;
        }
    }
    panic!("the fragment did not come again");
}

/// Scenario: a follower gets its short fragment of a large value, which is spread ahead of its slot, and
/// misses what follows. It learns from a peer's log that the value is decided, and has its fragment at once:
/// nobody sends it another.
#[test]
fn a_fragment_that_came_ahead_is_kept_when_its_slot_is_learned_from_a_peer() {
    let mut cluster = Cluster::led_with(Limits {
        long_bytes_min: 100 * LONG,
        ..limits(None)
    });
    cluster.nodes[4].hears_all = false;
    cluster.submit(0, 2, VALUE);
    cluster.settle();
    assert!(cluster.is_answered(0, 2));
    assert_eq!(
        fragments(&cluster, 4),
        [],
        "it does not know what becomes of it"
    );
    cluster.nodes[4].hears_all = true;
    cluster.submit(0, 3, b"small");
    cluster.settle();
    cluster.nodes[4].stands_at = Some(Now {
        mono_ns: 10_000_000,
        ..Now::default()
    });
    cluster.settle();
    let host = &cluster.nodes[4].host;
    assert_eq!(
        host.look().applied(),
        cluster.nodes[0].host.look().applied()
    );
    assert_eq!(fragments(&cluster, 4).len(), 1);
    assert_eq!(host.look().counters().rebuilt, 0);
}
