//! When did operations without an answer take effect?
//!
//! Without a hint the checker may have to try every order of them. The record of all changes can
//! tell; the checker still verifies every step.

use crate::history::{Call, Op};
use crate::watches::Record;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Adds to operations of unknown fate the revision at which they took effect, where one is found.
pub(crate) fn add(record: &Record, history: &mut [Op]) {
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
    let open = record.revisions().filter(|r| !answered.contains(r));
    for change in open.flat_map(|revision| record.of(revision)) {
        let Some(key) = change.register else { continue };
        let index = match change.after {
            Some(seen) => stores.get(&seen.value).copied(),
            // Of several deletions the one sent first fits wherever another one fits.
            None => deletions.get_mut(&key).and_then(VecDeque::pop_front),
        };
        if let Some(index) = index {
            history[index].hint = Some(change.revision);
        }
    }
}
