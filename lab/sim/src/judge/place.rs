//! Whose work are the revisions that no answer claims?
//!
//! Each must be the end of a lease, or what a request without an answer comes to on the state
//! before it, with the right to it; and no such request may have taken two revisions. That is a
//! matching of revisions to requests. Nearly always a request's own values say which it was, so that
//! there is one choice.

use super::check::{Floors, Summary};
use super::eval::{comes_to, leased};
use super::journal::Journal;
use super::op::{Op, Write};
use super::rights::Rights;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::{Event, EventType};
use std::collections::{BTreeMap, BTreeSet};

/// Finds a request, or the end of a lease, for every revision without an owner.
pub(super) fn all(
    history: &[Op],
    floors: &[Floors],
    journal: &Journal,
    rights: &Rights<'_>,
    owners: &BTreeMap<i64, usize>,
    summary: &mut Summary,
) -> Result<(), String> {
    let open = Open::of(history);
    let mut places = Places::default();
    for (revision, events) in journal.from(journal.first()) {
        if owners.contains_key(&revision) {
            continue;
        }
        if ends_lease(journal, revision, events) {
            summary.leases_ended += 1;
            continue;
        }
        let mut found = open.candidates(events);
        found.retain(|&at| {
            floors[at].revision < revision
                && comes_to(&history[at], journal, revision)
                && rights.may_have_made(at, revision)
        });
        places.candidates.push(found);
        let place = places.candidates.len() - 1;
        if !places.give(place, &mut BTreeSet::new()) {
            return Err(unexplained(
                revision,
                events,
                &open.candidates(events),
                history,
            ));
        }
    }
    summary.unknown_done += places.taken.len() as u64;
    Ok(())
}

/// Requests without an answer, by what they may write.
struct Open {
    puts: BTreeMap<(Bytes, Bytes), Vec<usize>>,
    deletes: Vec<usize>,
}

impl Open {
    fn of(history: &[Op]) -> Open {
        let mut open = Open {
            puts: BTreeMap::new(),
            deletes: Vec::new(),
        };
        for (at, op) in history.iter().enumerate() {
            if op.returned.is_some() {
                continue;
            }
            op.request.each_write(&mut |write| match write {
                Write::Put(put) => {
                    let name = (put.key.clone(), put.value.clone());
                    open.puts.entry(name).or_default().push(at);
                }
                Write::Delete => {
                    if open.deletes.last() != Some(&at) {
                        open.deletes.push(at);
                    }
                }
            });
        }
        open
    }

    /// Requests that may have made these changes: those that store the first value stored, or, if
    /// there is none, those that delete.
    fn candidates(&self, events: &[Event]) -> Vec<usize> {
        let is_put = |event: &&Event| event.r#type == EventType::Put as i32;
        let stored = events
            .iter()
            .find(is_put)
            .and_then(|event| event.kv.as_ref());
        match stored {
            Some(kv) => {
                let name = (kv.key.clone(), kv.value.clone());
                self.puts.get(&name).cloned().unwrap_or_default()
            }
            None => self.deletes.clone(),
        }
    }
}

/// Which request takes which place, and could.
#[derive(Default)]
struct Places {
    candidates: Vec<Vec<usize>>,
    /// The place of each request that has one.
    taken: BTreeMap<usize, usize>,
}

impl Places {
    /// Gives a place to a request, moving others if need be. `tried` are requests that cannot be
    /// moved.
    fn give(&mut self, place: usize, tried: &mut BTreeSet<usize>) -> bool {
        for at in 0..self.candidates[place].len() {
            let op = self.candidates[place][at];
            if !tried.insert(op) {
                continue;
            }
            let is_free = match self.taken.get(&op) {
                None => true,
                Some(&other) => self.give(other, tried),
            };
            if is_free {
                self.taken.insert(op, place);
                return true;
            }
        }
        false
    }
}

/// Whether the changes of a revision are the end of a lease: of all keys it had.
fn ends_lease(journal: &Journal, revision: i64, events: &[Event]) -> bool {
    let is_deletion = |event: &Event| event.r#type == EventType::Delete as i32;
    let first = events.first().and_then(|event| event.kv.as_ref());
    let Some(kv) = first.and_then(|kv| journal.get(&kv.key, revision - 1)) else {
        return false;
    };
    if kv.lease == 0 || !events.iter().all(is_deletion) {
        return false;
    }
    let gone: BTreeSet<&Bytes> = events
        .iter()
        .filter_map(|e| Some(&e.kv.as_ref()?.key))
        .collect();
    let had = leased(journal, kv.lease, revision - 1);
    let had: BTreeSet<&Bytes> = had.iter().map(|kv| &kv.key).collect();
    gone == had
}

fn unexplained(revision: i64, events: &[Event], open: &[usize], history: &[Op]) -> String {
    let mut what = format!(
        "revision {revision} is {events:?}, which nobody asked for, or which happened twice"
    );
    for &at in open.iter().take(4) {
        what.push_str(&format!("\n    {}", history[at]));
    }
    what
}
