//! The states that users and roles went through.

use super::users::Users;
use crate::judge::op::{Op, Refusal, Request, Response, Returned};

/// Every state of users and roles, and the changes between them.
pub(super) struct Timeline {
    /// One more than there are changes.
    states: Vec<Users>,
    changes: Vec<Made>,
}

/// A change that was made.
struct Made {
    asked: u64,
    /// When it was known to have been made; never, where that is not known at all.
    known: u64,
    /// The least and the greatest revision that the keys can have had.
    revisions: (i64, i64),
}

/// A change that was asked for, and may have been made: what it would have made of users and roles.
struct Doubt {
    asked: u64,
    next: Users,
}

impl Timeline {
    /// Follows the administrator: the one client that changes users. Changes come one after the other; whether one
    /// without an answer was made, the administrator looks before it asks for another.
    ///
    /// # Errors
    /// What it was told and cannot be.
    pub(super) fn of(history: &[Op]) -> Result<Timeline, String> {
        let mut timeline = Timeline {
            states: vec![Users::default()],
            changes: Vec::new(),
        };
        let changes = |op: &&Op| matches!(op.request, Request::Auth(_));
        let Some(administrator) = history.iter().find(changes).map(|op| op.client) else {
            return Ok(timeline);
        };
        let mut told: Vec<&Op> = history
            .iter()
            .filter(|op| op.client == administrator || changes(op))
            .filter(|op| matches!(op.request, Request::Auth(_) | Request::AuthStatus))
            .collect();
        told.sort_by_key(|op| op.invoked);
        let mut doubt = None;
        let mut last = 0;
        for op in told {
            if op.invoked < last {
                return Err(format!("two changes of users at a time: {op}"));
            }
            if changes(&op) {
                last = op.returned.as_ref().map_or(op.invoked, |told| told.stamp);
            }
            timeline.follow(op, &mut doubt)?;
        }
        if let Some(doubt) = doubt {
            timeline.push(doubt, u64::MAX, None);
        }
        timeline.bound_revisions();
        Ok(timeline)
    }

    /// The state after so many changes.
    pub(super) fn state(&self, index: usize) -> &Users {
        &self.states[index]
    }

    /// How many changes were certainly made, and known to be, before a moment.
    pub(super) fn made_before(&self, stamp: u64) -> usize {
        self.changes.partition_point(|made| made.known < stamp)
    }

    /// How many changes were asked for before a moment.
    pub(super) fn asked_before(&self, stamp: u64) -> usize {
        self.changes.partition_point(|made| made.asked < stamp)
    }

    /// How many changes were made at the least, and at the most, when the keys were at a revision; or right before the
    /// change that took it.
    pub(super) fn made_at(&self, revision: i64, changed: bool) -> (usize, usize) {
        let last = revision - i64::from(changed);
        let least = |made: &Made| made.revisions.1 < revision;
        let most = |made: &Made| made.revisions.0 <= last;
        (
            self.changes.partition_point(least),
            self.changes.partition_point(most),
        )
    }

    /// The least and the greatest revision that the keys can have had while a state lasted.
    pub(super) fn revisions(&self, index: usize) -> (i64, i64) {
        let before = index.checked_sub(1).map(|before| &self.changes[before]);
        let after = self.changes.get(index);
        (
            before.map_or(1, |made| made.revisions.0),
            after.map_or(i64::MAX, |made| made.revisions.1),
        )
    }

    fn now(&self) -> &Users {
        &self.states[self.changes.len()]
    }

    fn push(&mut self, Doubt { asked, next }: Doubt, known: u64, revision: Option<i64>) {
        self.states.push(next);
        self.changes.push(Made {
            asked,
            known,
            revisions: revision.map_or((0, i64::MAX), |revision| (revision, revision)),
        });
    }

    fn follow(&mut self, op: &Op, doubt: &mut Option<Doubt>) -> Result<(), String> {
        let Request::Auth(change) = &op.request else {
            return match &op.returned {
                Some(returned) => self.look(op, returned, doubt),
                None => Ok(()),
            };
        };
        if doubt.is_some() {
            return Err(format!(
                "nobody knows what became of the change before: {op}"
            ));
        }
        let now = self.now();
        let admitted = now.admit(&op.asker, &op.request, &|_| Vec::new());
        let next = admitted.and_then(|()| now.after(change));
        let response = op.returned.as_ref().map(|returned| &returned.response);
        match (next, response) {
            (Ok(next), None) => {
                let asked = op.invoked;
                *doubt = Some(Doubt { asked, next });
            }
            (Err(_), None) => {}
            (Ok(next), Some(Response::Auth)) => {
                let asked = op.invoked;
                let (known, revision) = op
                    .returned
                    .as_ref()
                    .map_or((u64::MAX, 0), |told| (told.stamp, told.revision));
                self.push(Doubt { asked, next }, known, Some(revision));
            }
            (Err(why), Some(Response::Refused(Refusal::Auth(told)))) if why == *told => {}
            (expected, _) => {
                let expected = expected.map(|_| ());
                return Err(format!("it should come to {expected:?}: {op}"));
            }
        }
        Ok(())
    }

    /// The administrator looks what there is.
    fn look(
        &mut self,
        op: &Op,
        returned: &Returned,
        doubt: &mut Option<Doubt>,
    ) -> Result<(), String> {
        let Response::AuthStatus(enabled, revision) = returned.response else {
            return Ok(());
        };
        let is = |users: &Users| (users.enabled, users.revision) == (enabled, revision);
        let was_made = doubt.take().filter(|doubt| is(&doubt.next));
        match was_made {
            // What changes nothing may have been made or not.
            Some(doubt) if !is(self.now()) => self.push(doubt, returned.stamp, None),
            _ if is(self.now()) => {}
            _ => {
                let now = (self.now().enabled, self.now().revision);
                return Err(format!("there should be {now:?}: {op}"));
            }
        }
        Ok(())
    }

    /// Of a change whose revision nobody was told, those around it say what it can have been.
    fn bound_revisions(&mut self) {
        let mut least = 1;
        for made in &mut self.changes {
            least = made.revisions.0.max(least);
            made.revisions.0 = least;
        }
        let mut greatest = i64::MAX;
        for made in self.changes.iter_mut().rev() {
            greatest = made.revisions.1.min(greatest);
            made.revisions.1 = greatest;
        }
    }
}
