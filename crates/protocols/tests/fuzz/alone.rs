//! What a replica that is cut off makes of requests: a bounded part of them may be decided later, all others are
//! refused when nobody waits for them any more, and never ordered.

use crate::cluster::{Cluster, REPLICAS};
use crate::each;
use fastrand::Rng;
use quorate_core::{Refusal, RequestId};
use quorate_protocols::{Protocol, Visitor};
use std::collections::BTreeSet;

/// Entries of one replica under way at once, at most, of all protocols by default.
const OUTSTANDING_MAX: usize = 64;

struct Alone;

impl Visitor for Alone {
    type Output = ();

    fn visit<P: Protocol>(self) {
        (0..REPLICAS).for_each(cut_off::<P>);
    }
}

/// Scenario: three replicas decide something, then one hears nobody for longer than any patience, and is asked for
/// something all the time, one command after the other; nobody waits for long. Then everybody is back.
fn cut_off<P: Protocol>(me: usize) {
    let name = P::NAME;
    let mut cluster = Cluster::<P>::new(Rng::with_seed(me as u64));
    cluster.decide_something();
    let mut asked: BTreeSet<RequestId> = BTreeSet::new();
    for _ in 0..12 {
        let hasty: BTreeSet<RequestId> = (0..10).map(|_| cluster.ask_alone(me)).collect();
        let patient: BTreeSet<RequestId> = (0..10).map(|_| cluster.ask_alone(me)).collect();
        asked.extend(hasty.union(&patient));
        cluster.withdraw(me, hasty);
        cluster.pass_alone(me, 1_000_000_000);
        cluster.withdraw(me, patient);
    }
    let is_refused = |id: &&RequestId| cluster.watch.refused.contains_key(id);
    let (refused, under_way): (BTreeSet<&RequestId>, BTreeSet<&RequestId>) =
        asked.iter().partition(is_refused);
    let whys: Vec<Refusal> = cluster.watch.refused.values().copied().collect();
    let never_executed = [Refusal::Withdrawn, Refusal::NotServing];
    assert!(
        whys.iter().all(|why| never_executed.contains(why)),
        "{name}: {whys:?}"
    );
    assert!(
        whys.contains(&Refusal::Withdrawn),
        "{name}: nothing is withdrawn"
    );
    assert!(
        under_way.len() <= OUTSTANDING_MAX,
        "{name}: {} under way",
        under_way.len()
    );
    let offered = cluster.offered_alone();
    let in_vain = offered.iter().find(|id| refused.contains(id));
    assert_eq!(in_vain, None, "{name}: offered, and said to be withdrawn");
    for _ in 0..200 {
        cluster.pass();
    }
    let delivered = cluster.delivered();
    let late = delivered.iter().find(|id| refused.contains(id));
    assert_eq!(late, None, "{name}: withdrawn, and decided");
}

#[test]
fn what_was_offered_to_nobody_is_withdrawn_for_good() {
    each(|| Alone);
}
