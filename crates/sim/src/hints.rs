//! When did operations without an answer take effect?
//!
//! Without a hint the checker may have to try every order of them. The store keeps all versions of
//! all keys, so an observer of its final state can tell; the checker still verifies every step.

use crate::history::{Call, Op, Seen};
use crate::subject::Subject;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Adds to operations of unknown fate the revision at which they took effect, where one is found.
pub(crate) fn add<A: Subject>(app: &A, keys: u8, history: &mut [Op]) -> Result<(), String> {
    let changed = history.iter().filter_map(|op| op.returned);
    let answered: BTreeSet<u64> = changed
        .filter(|(_, outcome)| outcome.changed())
        .map(|(_, outcome)| outcome.revision())
        .collect();
    let mut stores: BTreeMap<u64, usize> = BTreeMap::new();
    let mut deletions: BTreeMap<u8, VecDeque<usize>> = BTreeMap::new();
    for (index, op) in history.iter().enumerate() {
        match (op.returned, op.call) {
            (None, Call::Delete) => deletions.entry(op.key).or_default().push_back(index),
            (None, call) => stores.extend(call.value().map(|value| (value, index))),
            (Some(_), _) => {}
        }
    }
    let newest = A::got(&app.query(&A::read(0)))?.revision();
    for revision in (2..=newest).filter(|revision| !answered.contains(revision)) {
        for key in 0..keys {
            let index = match at::<A>(app, key, revision)? {
                Some(seen) if seen.modified == revision => stores.get(&seen.value).copied(),
                None if at::<A>(app, key, revision - 1)?.is_some() => {
                    // Of several deletions the one sent first fits wherever another one fits.
                    deletions.get_mut(&key).and_then(VecDeque::pop_front)
                }
                _ => None,
            };
            if let Some(index) = index {
                history[index].hint = Some(revision);
            }
        }
    }
    Ok(())
}

fn at<A: Subject>(app: &A, key: u8, revision: u64) -> Result<Option<Seen>, String> {
    Ok(A::got(&app.query(&A::read_at(key, revision)))?.seen())
}
