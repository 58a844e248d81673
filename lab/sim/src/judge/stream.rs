//! What one watch was told, held against the journal.

use super::eval::same;
use super::journal::{Journal, covers, revision_of};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::WatchResponse;
use quorate_etcd_api::mvccpb::Event;

/// A watch of a range of keys.
///
/// It must be told every change of its keys from its first revision on, once, in order, each
/// revision as a whole; and a notice of progress may not run ahead of what was told.
#[derive(Clone, Debug)]
pub struct Stream {
    key: Bytes,
    range_end: Bytes,
    /// The first revision it was not told of; 0 until a watch of the future has begun.
    next: i64,
    /// Events of `next` that were told, while the rest of them follows.
    told: usize,
    ended: bool,
}

impl Stream {
    /// A watch that asks for everything from a revision on; 0 for what comes after it began.
    #[must_use]
    pub fn new(key: Bytes, range_end: Bytes, start: i64) -> Stream {
        Stream {
            key,
            range_end,
            next: start,
            told: 0,
            ended: false,
        }
    }

    /// The first revision it was not told of.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Whether it was told that it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// A response arrives.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn respond(&mut self, response: &WatchResponse, journal: &Journal) -> Result<(), String> {
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        if self.ended {
            return Err(format!("it had ended, and is told {response:?}"));
        }
        if response.created && self.next == 0 {
            self.next = revision + 1;
        }
        if !response.events.is_empty() {
            return self.events(&response.events, response.fragment, journal);
        }
        if response.canceled {
            return self.cancel(response.compact_revision);
        }
        if !response.created && revision >= self.next {
            // A notice of progress: there was nothing more to tell.
            return self.advance(&[], revision + 1, journal);
        }
        Ok(())
    }

    /// It reads on by itself, is given all changes up to a revision, and will be given those from
    /// there on next.
    ///
    /// # Errors
    /// Which change is missing, or should not be there.
    pub fn advance(
        &mut self,
        events: &[Event],
        next: i64,
        journal: &Journal,
    ) -> Result<(), String> {
        if next <= self.next {
            return Err(format!("it is at {}, and is led back to {next}", self.next));
        }
        let expected = self.expected(next, journal);
        let Some(expected) = expected.get(self.told..) else {
            return Err(format!("it was told more than {expected:?}"));
        };
        let is_told = expected.len() == events.len()
            && expected
                .iter()
                .zip(events)
                .all(|(a, b)| same(std::slice::from_ref(a), std::slice::from_ref(b)));
        if !is_told {
            return Err(format!(
                "from revision {} to {next} it should be told {expected:?}, and is told {events:?}",
                self.next
            ));
        }
        (self.next, self.told) = (next, 0);
        Ok(())
    }

    /// It was told that what it wanted is compacted, and goes on from a later revision.
    pub fn skip_to(&mut self, revision: i64) {
        (self.next, self.told) = (self.next.max(revision), 0);
    }

    /// Nothing of what happened before a revision may be missing now.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(&self, end: i64, journal: &Journal) -> Result<(), String> {
        let missing = &self.expected(end, journal)[self.told..];
        match missing.first() {
            Some(event) if !self.ended => Err(format!("it was never told {event:?}")),
            _ => Ok(()),
        }
    }

    /// Events end a revision, unless the rest of it is said to follow.
    fn events(&mut self, events: &[Event], more: bool, journal: &Journal) -> Result<(), String> {
        let last = revision_of(&events[events.len() - 1])?;
        if last >= journal.end() {
            return Err(format!("nobody else was told of {:?}", events.last()));
        }
        if last < self.next {
            return Err(format!(
                "it has been told of all before {}, and is told {events:?}",
                self.next
            ));
        }
        if !more {
            return self.advance(events, last + 1, journal);
        }
        let whole = events
            .iter()
            .position(|event| revision_of(event) == Ok(last));
        let (before, part) = events.split_at(whole.unwrap_or(0));
        if self.next < last {
            self.advance(before, last, journal)?;
        }
        let expected = self.expected(last + 1, journal);
        let place = expected.get(self.told..self.told + part.len());
        if !place.is_some_and(|place| same(place, part)) {
            return Err(format!(
                "of revision {last} it is told {part:?} of {expected:?}"
            ));
        }
        self.told += part.len();
        Ok(())
    }

    fn cancel(&mut self, compact_revision: i64) -> Result<(), String> {
        self.ended = true;
        if compact_revision != 0 && compact_revision <= self.next {
            return Err(format!(
                "it wants revision {}, and is told that those before {compact_revision} are \
                 compacted",
                self.next
            ));
        }
        Ok(())
    }

    /// The changes of its keys from the next revision on and before another.
    fn expected(&self, end: i64, journal: &Journal) -> Vec<Event> {
        let is_mine = |event: &&Event| {
            let kv = event.kv.as_ref();
            kv.is_some_and(|kv| covers(&self.key, &self.range_end, &kv.key))
        };
        let revisions = journal
            .from(self.next)
            .take_while(|(revision, _)| *revision < end);
        let events = revisions.flat_map(|(_, events)| events);
        events.filter(is_mine).cloned().collect()
    }
}
