//! Whether the rights that there were explain who was served and who was refused.
//!
//! One administrator changes users and roles, one change after the other, so the states that these went
//! through are known from what it was told ([`Timeline`]). Every answer must fit one of them: the request
//! was served, and the asker had the right to it; or it was refused for the reason that this state gives.
//! Which states can have been the present one is bounded from three sides:
//!
//! - Real time: a change that was acknowledged before the request was sent counts, one that was asked for
//!   after the answer does not.
//! - Revisions: answers to changes of users name the revision of the keys, and so do answers to requests.
//! - Each other: what was asked after another answer was there is not of an earlier state than that.
//!
//! Each request takes the earliest state that all this allows, in the order in which they were sent. If
//! there is an order of all requests and changes that explains every answer, this finds it: the check is
//! exact. Reads that may be stale are bounded by what their replica has said in the same life alone,
//! changes of users that it acknowledged included.
//! Requests without an answer that turn out to have been carried out take a right, too
//! ([`Rights::may_have_made`]).

mod needs;
mod timeline;
mod users;

use super::check::Floors;
use super::eval::{comes_to, leased};
use super::journal::Journal;
use super::op::{Op, Refusal, Request, Response, Returned};
use bytes::Bytes;
use quorate_etcd_api::errors::Error;
use quorate_etcd_store::{Access, Asker};
use std::collections::BTreeMap;
use timeline::Timeline;
pub(crate) use users::{ROOT, Users};

/// Something that was told to a watch, or its end.
#[derive(Clone, Debug)]
pub struct Sight {
    /// For whom it is watched.
    pub asker: Asker,
    /// The key that is watched, or the first of the range.
    pub key: Bytes,
    /// The end of the range.
    pub range_end: Bytes,
    /// When it was told.
    pub stamp: u64,
    /// The revision of the keys at the replica that told it.
    pub revision: i64,
    /// Why the watch was ended, if it was.
    pub refused: Option<Error>,
}

/// What a history says of rights.
pub(super) struct Rights<'a> {
    history: &'a [Op],
    floors: &'a [Floors],
    journal: &'a Journal,
    timeline: Timeline,
}

/// A request and its answer.
struct Told<'a> {
    op: &'a Op,
    returned: &'a Returned,
    /// Whether the request took the revision that the answer names.
    has_changed: bool,
    /// The keys were at this revision when it was sent, or at a later one.
    revision_min: i64,
}

impl<'a> Rights<'a> {
    pub(super) fn of(
        history: &'a [Op],
        floors: &'a [Floors],
        journal: &'a Journal,
    ) -> Result<Self, String> {
        Ok(Rights {
            timeline: Timeline::of(history)?,
            history,
            floors,
            journal,
        })
    }

    /// Whether a request without an answer can have had the right to make a revision.
    pub(super) fn may_have_made(&self, at: usize, revision: i64) -> bool {
        let op = &self.history[at];
        let (least, most) = self.timeline.made_at(revision, true);
        let least = least.max(self.timeline.made_before(op.invoked));
        (least..=most).any(|index| self.admits(op, index, revision - 1).is_ok())
    }

    /// Holds every answer against the rights there were. `owners` are the requests whose answers say that they made a
    /// revision.
    pub(super) fn check(&self, owners: &BTreeMap<i64, usize>) -> Result<(), String> {
        let mut moments: Vec<(u64, usize, bool)> = Vec::new();
        for (at, op) in self.history.iter().enumerate() {
            if let Some(returned) = &op.returned {
                moments.push((op.invoked, at, true));
                moments.push((returned.stamp, at, false));
            }
        }
        moments.sort_unstable();
        let mut places = vec![0; self.history.len()];
        let mut now = 0;
        let mut readers: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, at, is_sent) in moments {
            let op = &self.history[at];
            let floor = match op.request.is_serializable() {
                true => readers.entry(op.reader).or_default(),
                false => &mut now,
            };
            match &op.returned {
                Some(returned) if is_sent => {
                    let changes = self.changes(op, returned, owners);
                    let found = changes.iter().map(|&has_changed| {
                        let told = Told {
                            op,
                            returned,
                            has_changed,
                            revision_min: self.floors[at].revision,
                        };
                        self.place(&told, *floor)
                    });
                    // The earliest leaves most to what comes after.
                    let earliest = found.reduce(|a, b| match (a, b) {
                        (Ok(a), Ok(b)) => Ok(a.min(b)),
                        (Err(_), Ok(at)) => Ok(at),
                        (first, _) => first,
                    });
                    places[at] = earliest.unwrap_or(Ok(*floor))?;
                }
                _ => *floor = places[at].max(*floor),
            }
            if !is_sent && op.reader != 0 {
                // Nor does its replica go back.
                let floor = readers.entry(op.reader).or_default();
                *floor = places[at].max(*floor);
            }
        }
        Ok(())
    }

    /// Whether a request took the revision that its answer names. That of the end of a lease does not say: it did if
    /// all keys of the lease went in this revision and no other answer claims it, unless a request without an answer
    /// comes to just that.
    fn changes(
        &self,
        op: &Op,
        returned: &Returned,
        owners: &BTreeMap<i64, usize>,
    ) -> &'static [bool] {
        let (Request::Revoke(lease), Response::Revoked) = (&op.request, &returned.response) else {
            return match returned.response.changed() {
                true => &[true],
                false => &[false],
            };
        };
        let keys = |revision| leased(self.journal, *lease, revision).len();
        let revision = returned.revision;
        if owners.contains_key(&revision) || keys(revision - 1) == 0 || keys(revision) > 0 {
            return &[false];
        }
        let can_have_made = |other: &Op| {
            let is_open = other.returned.is_none() && other.invoked < returned.stamp;
            is_open && comes_to(other, self.journal, revision)
        };
        match self.history.iter().any(can_have_made) {
            true => &[true, false],
            false => &[true],
        }
    }

    /// Holds what watches were told against the rights there were.
    pub(super) fn check_sights(&self, sights: &[Sight]) -> Result<(), String> {
        for sight in sights {
            let (least, _) = self.timeline.made_at(sight.revision, false);
            let most = self.timeline.asked_before(sight.stamp);
            let fits = |index: usize| {
                let users = self.timeline.state(index);
                let may = || users.demand(&sight.asker, Access::Read, &sight.key, &sight.range_end);
                let judged = if users.enabled { may() } else { Ok(()) };
                judged.err() == sight.refused
            };
            if !(least..=most).any(fits) {
                return Err(format!(
                    "no rights explain {sight:?}{}",
                    self.between(least, most)
                ));
            }
        }
        Ok(())
    }

    /// The earliest state that explains an answer, from one on.
    fn place(&self, told: &Told<'_>, floor: usize) -> Result<usize, String> {
        let Told { op, returned, .. } = told;
        let mut most = self.timeline.asked_before(returned.stamp);
        if let Request::Auth(_) = op.request {
            // It is between two states, and was held against both by the timeline.
            return Ok(most);
        }
        let mut least = floor;
        if !op.request.is_serializable() {
            least = least.max(self.timeline.made_before(op.invoked));
        }
        if returned.revision > 0 {
            let (from, to) = (self.timeline).made_at(returned.revision, told.has_changed);
            (least, most) = (least.max(from), most.min(to));
        }
        let found = (least..=most).find(|index| self.explains(told, *index));
        found.ok_or_else(|| {
            let states = self.between(least, most);
            format!("no rights explain the answer: {op}{states}")
        })
    }

    /// Whether an answer is what a state gives.
    fn explains(&self, told: &Told<'_>, index: usize) -> bool {
        let Told { op, returned, .. } = told;
        let users = self.timeline.state(index);
        let expected = match &returned.response {
            Response::Refused(Refusal::Auth(why)) => Err(*why),
            Response::AuthStatus(enabled, revision)
                if (users.enabled, users.revision) != (*enabled, *revision) =>
            {
                return false;
            }
            _ => Ok(()),
        };
        if returned.revision > 0 || !op.request.names_lease() {
            let revision = returned.revision - i64::from(told.has_changed);
            return self.admits(op, index, revision) == expected;
        }
        // A refusal names no revision, and which keys go with a lease depends on it.
        let (from, to) = self.timeline.revisions(index);
        let from = from.max(told.revision_min);
        let mut revisions = from..=to.min(self.journal.end() - 1);
        revisions.any(|revision| self.admits(op, index, revision) == expected)
    }

    /// What a state says to a request while the keys are at a revision.
    fn admits(&self, op: &Op, index: usize, revision: i64) -> Result<(), Error> {
        let keys = |lease| {
            let kvs = leased(self.journal, lease, revision);
            kvs.into_iter().map(|kv| kv.key).collect()
        };
        let users = self.timeline.state(index);
        users.admit(&op.asker, &op.request, &keys)
    }

    /// The states between two, in words.
    fn between(&self, least: usize, most: usize) -> String {
        let states = (least..=most).take(STATES_TOLD);
        let lines = states.map(|index| format!("\n    {:?}", self.timeline.state(index)));
        lines.collect()
    }
}

/// How many states a complaint tells at most.
const STATES_TOLD: usize = 4;
