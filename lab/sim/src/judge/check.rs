//! Holds a history against a journal.

use super::eval::{Eval, same};
use super::journal::Journal;
use super::op::{Op, Refusal, Request, Response, Returned};
use super::place;
use super::rights::{Rights, Sight};
use std::collections::BTreeMap;

/// What was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Answers held against the state at their revision.
    pub answers: u64,
    /// Requests without an answer that turned out to have taken effect.
    pub unknown_done: u64,
    /// Revisions that ended a lease whose end nobody was told of.
    pub leases_ended: u64,
}

/// Whether the journal explains every answer, and the requests every revision.
///
/// The journal must tell of every revision that an answer names, and of every key that a request
/// names.
///
/// # Errors
/// The request or the revision that nothing explains.
pub fn check(history: &[Op], journal: &Journal) -> Result<Summary, String> {
    check_with_sights(history, &[], journal)
}

/// Checks also whether watches were told what their askers had a right to, and ended when they had none.
///
/// # Errors
/// The request, the revision or the watch that nothing explains.
pub fn check_with_sights(
    history: &[Op],
    sights: &[Sight],
    journal: &Journal,
) -> Result<Summary, String> {
    let floors = Floors::of_all(history);
    let rights = Rights::of(history, &floors, journal)?;
    let mut summary = Summary::default();
    // Whose work each revision is.
    let mut owners: BTreeMap<i64, usize> = BTreeMap::new();
    for (index, op) in history.iter().enumerate() {
        let Some(returned) = &op.returned else {
            continue;
        };
        summary.answers += 1;
        let judged = judge(op, returned, &floors[index], journal);
        let changed = judged.map_err(|why| format!("{why}: {op}"))?;
        if !changed {
            continue;
        }
        if let Some(other) = owners.insert(returned.revision, index) {
            return Err(format!(
                "two changes have one revision: {} and {op}",
                history[other]
            ));
        }
    }
    place::all(history, &floors, journal, &rights, &owners, &mut summary)?;
    rights.check(&owners)?;
    rights.check_sights(sights)?;
    Ok(summary)
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Default)]
pub(super) struct Floors {
    /// The highest revision anybody had been told of; for a read that may be stale, by the replica
    /// that answers it, in its present life.
    pub(super) revision: i64,
    /// The highest revision up to which history was known to be compacted.
    compacted: i64,
    /// The highest revision anybody had asked to compact up to, before the answer came.
    compacted_asked: i64,
}

impl Floors {
    fn of_all(history: &[Op]) -> Vec<Floors> {
        let sent = history
            .iter()
            .enumerate()
            .map(|(at, op)| (op.invoked, at, true));
        let answered = history.iter().enumerate().filter_map(|(at, op)| {
            let returned = op.returned.as_ref()?;
            Some((returned.stamp, at, false))
        });
        let mut moments: Vec<(u64, usize, bool)> = sent.chain(answered).collect();
        moments.sort_unstable();
        let mut floors = vec![Floors::default(); history.len()];
        let mut now = Floors::default();
        let mut readers: BTreeMap<u64, i64> = BTreeMap::new();
        for (_, at, is_sent) in moments {
            let op = &history[at];
            if is_sent {
                if let Request::Compact(revision) = op.request {
                    now.compacted_asked = now.compacted_asked.max(revision);
                }
                floors[at] = now;
                if op.request.is_serializable() {
                    floors[at].revision = readers.get(&op.reader).copied().unwrap_or(0);
                }
                continue;
            }
            floors[at].compacted_asked = now.compacted_asked;
            let Some(returned) = &op.returned else {
                continue;
            };
            now.revision = now.revision.max(returned.revision);
            if op.request.is_serializable() {
                let reader = readers.entry(op.reader).or_default();
                *reader = returned.revision.max(*reader);
            }
            if let (Request::Compact(revision), Response::Compacted) =
                (&op.request, &returned.response)
            {
                now.compacted = now.compacted.max(*revision);
            }
        }
        floors
    }
}

/// Judges one answer; says whether its request took a revision of its own.
fn judge(op: &Op, returned: &Returned, floors: &Floors, journal: &Journal) -> Result<bool, String> {
    let revision = returned.revision;
    if let Response::Refused(refusal) = returned.response {
        return judge_refusal(op, refusal, floors).map(|()| false);
    }
    // Whether the end of a lease took keys along, its answer does not say: that none is left, and
    // that the revision ended a lease, is seen without it.
    let changed = returned.response.changed();
    if revision < floors.revision || changed && revision == floors.revision {
        let floor = floors.revision;
        return Err(format!(
            "revision {floor} had been answered before it was asked"
        ));
    }
    if revision >= journal.end() {
        let end = journal.end();
        return Err(format!("nobody was told of revisions from {end} on"));
    }
    let read = op.request.revisions_read(&returned.response);
    if !op.request.is_serializable() && read.iter().any(|read| *read < floors.compacted) {
        return Err(format!(
            "what was before revision {} had been compacted",
            floors.compacted
        ));
    }
    if let Response::AuthStatus(..) = returned.response {
        return Ok(false);
    }
    let mut eval = Eval::new(journal, revision - i64::from(changed));
    let expected = eval.run(&op.request);
    if expected != returned.response {
        return Err(format!("the state gives {expected:?}"));
    }
    if changed && !same(&eval.events, journal.of(revision)) {
        return Err(format!(
            "revision {revision} should be {:?}, and is {:?}",
            eval.events,
            journal.of(revision)
        ));
    }
    if !changed && !eval.events.is_empty() {
        return Err(format!("it should have changed {:?}", eval.events));
    }
    Ok(changed)
}

fn judge_refusal(op: &Op, refusal: Refusal, floors: &Floors) -> Result<(), String> {
    let asked = op.request.revisions_asked();
    let has_reason = match (refusal, &op.request) {
        // Nobody can tell here how long a lease lived, nor who was the first to compact.
        (Refusal::LeaseNotFound, _) | (Refusal::Compacted, Request::Compact(_)) => true,
        // Rights are looked at by themselves.
        (Refusal::Auth(_), _) => true,
        (Refusal::Compacted, _) => asked.iter().any(|r| *r < floors.compacted_asked),
        (Refusal::Future, Request::Compact(revision)) => *revision > floors.revision,
        (Refusal::Future, _) => asked.iter().any(|r| *r > floors.revision),
    };
    if has_reason {
        return Ok(());
    }
    Err("there was no reason to refuse it".into())
}
