use super::*;
use crate::panics::INVARIANT;
use crate::scope::{Request, Scope, write};
use quorate_core::Seat;
use quorate_protocols::Protocol;
use quorate_protocols::rabia::{Rabia, Replica};

const ONE_WRITE: &[Request] = &[write(0)];

/// What replicas show, by replica.
type Shown = BTreeSet<Vec<u128>>;

impl Search<'_, Replica> {
    fn shown(&self, states: &[u32]) -> Vec<u128> {
        let nodes = states.iter().map(|state| self.cache.node(*state));
        nodes.map(|node| node.visible()).collect()
    }

    /// Every order of every single step, hidden or not: what is shown wherever no replica is in
    /// the middle of a step.
    fn plainly(&mut self) -> Shown {
        let n = self.cache.model.scope.n;
        let first = (0..n).map(|me| self.cache.first(me).expect("it starts"));
        let mut open = vec![first.collect::<Vec<_>>()];
        let mut seen = open.iter().cloned().collect::<BTreeSet<_>>();
        let mut shown = Shown::new();
        while let Some(tuple) = open.pop() {
            if tuple.iter().all(|state| !self.cache.is_midway(*state)) {
                shown.insert(self.shown(&tuple));
            }
            let (crashes, _) = self.faults_left(&tuple);
            for who in 0..n {
                for act in self.acts(tuple[who], &tuple, who) {
                    let next = self.cache.take(tuple[who], act).expect("all is well");
                    if next == CUT || crashes == 0 && matches!(act, Act::Crash { .. }) {
                        continue;
                    }
                    let mut tuple = tuple.clone();
                    tuple[who] = next;
                    if seen.insert(tuple.clone()) {
                        open.push(tuple);
                    }
                }
            }
        }
        shown
    }
}

#[test]
fn equivalence_classes_show_what_every_order_of_single_steps_shows() {
    let mut all = crate::table::configurations();
    let crash = all.find(|scope| scope.name == "n3-crash");
    let scope = &Scope {
        requests: ONE_WRITE,
        ..*crash.expect("it is in the table")
    };
    let configure = |seat: &Seat| Rabia::config(seat).expect("its parameters are right");
    let model = HostModel {
        scope,
        seed: 0,
        configure: &configure,
    };
    let mut search = Search::<Replica>::new(model, Guard::new(None));
    assert!(search.run(u64::MAX).is_ok(), "all is well");
    let tuples = (0..search.tuples.len()).map(|number| {
        let faces = search.faces(search.tuples.get(number as u32));
        search.shown(&faces)
    });
    let by_classes = tuples.collect::<Shown>();
    let plainly = search.plainly();
    let (missing, added) = (
        plainly.difference(&by_classes),
        by_classes.difference(&plainly),
    );
    let states = plainly.len();
    assert!(states > 100, "{states}");
    assert_eq!((missing.count(), added.count()), (0, 0), "of {states}");
}

/// Scenario: a replica cannot start, for its parameters are none: there is no state, and yet a fault to tell of.
#[test]
fn a_fault_at_the_start_is_told() {
    let mut all = crate::table::configurations();
    let scope = all.next().expect("there are some");
    let configure = |seat: &Seat| {
        let mut seat = seat.clone();
        let params = &mut seat.epoch.params;
        params.insert("window".to_owned(), "0".to_owned());
        Rabia::config(&seat).expect("its parameters are right")
    };
    let model = HostModel {
        scope,
        seed: 0,
        configure: &configure,
    };
    let found = super::search::<Replica>(model, u64::MAX, Guard::new(None));
    let (fault, story) = found.fault.expect("it is a fault");
    assert_eq!((found.states, fault.property), (0, INVARIANT));
    assert_eq!(story, ["replica 1 starts"]);
}
