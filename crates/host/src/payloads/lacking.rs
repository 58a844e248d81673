//! Live payloads of which this replica lacks its own fragment.
//!
//! A replica may learn that an entry is decided before its fragment comes: the news is short, the
//! fragment long, and they travel on different connections. So one that is missing is waited for, as
//! long as its bytes and those of the others that are missing may take, before it is rebuilt from what
//! the others have, which costs them as many bytes again.

use quorate_core::{MILLIS, Payload, PayloadId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// How long a fragment may come behind the news of its decision, however short it is, in ns.
const WAIT_NS: u64 = 500 * MILLIS;
/// Bytes of fragments that the links of who sends them move in a millisecond at least.
const BYTES_PER_MS: u64 = 10_000;

/// What is to be rebuilt, and from when on.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    payloads: BTreeMap<PayloadId, (Since, Payload)>,
    /// By the time from which they are to be rebuilt, on the replica's clock in ns.
    due: BTreeSet<(u64, PayloadId)>,
    /// Those of earlier epochs.
    moving: BTreeSet<PayloadId>,
    moving_bytes: u64,
    /// When all that may be on its way has come, without [`WAIT_NS`].
    through_ns: u64,
}

/// Why a payload is lacking, and with that from when on it is to be rebuilt.
#[derive(Clone, Copy, Debug)]
enum Since {
    /// Its fragment may come until then.
    Due(u64),
    /// Another epoch began: it is rebuilt when it is its turn.
    Moving,
}

impl Lacking {
    /// A payload of which nobody may send the fragment any more: to be rebuilt at once.
    pub(crate) fn insert(&mut self, id: PayloadId, payload: Payload) {
        self.insert_due(id, payload, 0);
    }

    /// A payload that an earlier epoch left: to be rebuilt under the code of the present one.
    pub(crate) fn insert_moving(&mut self, id: PayloadId, payload: Payload) {
        if !self.moving.contains(&id) {
            self.remove(id);
            self.moving.insert(id);
            self.moving_bytes += u64::from(payload.len);
            self.payloads.insert(id, (Since::Moving, payload));
        }
    }

    /// A payload that was decided just now: its fragment may be on its way, behind so many bytes that
    /// are sent to others.
    pub(crate) fn expect(&mut self, now_ns: u64, id: PayloadId, payload: Payload, sent: u64) {
        let travels_ns = sent / BYTES_PER_MS * MILLIS;
        self.through_ns = self.through_ns.max(now_ns) + travels_ns;
        self.insert_due(id, payload, self.through_ns + WAIT_NS);
    }

    fn insert_due(&mut self, id: PayloadId, payload: Payload, due_ns: u64) {
        // Who is waited for already does not get more time.
        if let Entry::Vacant(free) = self.payloads.entry(id) {
            free.insert((Since::Due(due_ns), payload));
            self.due.insert((due_ns, id));
        }
    }

    /// It is here, or dead. Gives it, if it was lacking.
    pub(crate) fn remove(&mut self, id: PayloadId) -> Option<Payload> {
        let (since, payload) = self.payloads.remove(&id)?;
        match since {
            Since::Due(due_ns) => {
                self.due.remove(&(due_ns, id));
            }
            Since::Moving => {
                self.moving.remove(&id);
                self.moving_bytes -= u64::from(payload.len);
            }
        }
        Some(payload)
    }

    /// Nobody has a use for the others any more.
    pub(crate) fn retain(&mut self, is_live: impl Fn(PayloadId) -> bool) {
        let all = self.payloads.keys().copied();
        let dead: Vec<PayloadId> = all.filter(|id| !is_live(*id)).collect();
        for id in dead {
            self.remove(id);
        }
    }

    /// Whether this payload is lacking.
    pub(crate) fn is(&self, id: PayloadId, payload: &Payload) -> bool {
        let lacks = self.payloads.get(&id);
        lacks.is_some_and(|(_, lacked)| lacked == payload)
    }

    /// All of them.
    pub(crate) fn ids(&self) -> impl ExactSizeIterator<Item = PayloadId> {
        self.payloads.keys().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// Bytes of those that earlier epochs left, whole.
    pub(crate) fn moving_bytes(&self) -> u64 {
        self.moving_bytes
    }

    /// The first to be rebuilt by now that nothing is done about yet; those of the present epoch before those of
    /// earlier ones.
    pub(crate) fn next(
        &self,
        now_ns: u64,
        is_under_way: impl Fn(PayloadId) -> bool,
    ) -> Option<(PayloadId, Payload)> {
        let due = self
            .due
            .iter()
            .take_while(|(due_ns, _)| *due_ns <= now_ns)
            .map(|(_, id)| id);
        let id = due
            .chain(&self.moving)
            .find(|id| !is_under_way(**id))
            .copied()?;
        Some((id, self.payloads[&id].1.clone()))
    }

    /// When the next of those is to be rebuilt that are still waited for.
    pub(crate) fn next_due(&self, now_ns: u64) -> Option<u64> {
        let later = (now_ns + 1, PayloadId::default())..;
        self.due.range(later).next().map(|(due_ns, _)| *due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn what_may_be_on_its_way_is_waited_for_as_long_as_its_bytes_take() {
        let id = |part| PayloadId {
            part,
            ..PayloadId::default()
        };
        let payload = |len| Payload::of(Bytes::from(vec![1; len]));
        let none = |_| false;
        let mut lacking = Lacking::default();
        lacking.expect(5, id(1), payload(10), 10);
        lacking.expect(5, id(2), payload(10), 1_000_000);
        lacking.expect(50 * MILLIS, id(1), payload(10), 10);
        assert_eq!(lacking.next_due(0), Some(5 + 500 * MILLIS));
        assert!(lacking.next(5 + 499 * MILLIS, none).is_none());
        let first = lacking.next(5 + 500 * MILLIS, none);
        assert_eq!(first, Some((id(1), payload(10))));
        assert!(lacking.next(5 + 500 * MILLIS, |_| true).is_none());
        assert_eq!(
            lacking.next_due(5 + 500 * MILLIS),
            Some(5 + (500 + 100) * MILLIS)
        );
        lacking.insert(id(3), payload(20));
        assert_eq!(lacking.next(0, none), Some((id(3), payload(20))));
        assert!(lacking.is(id(2), &payload(10)) && !lacking.is(id(2), &payload(3)));
        for part in 1..4 {
            assert!(lacking.remove(id(part)).is_some());
            assert!(lacking.remove(id(part)).is_none());
        }
        assert!(lacking.is_empty() && lacking.due.is_empty());
    }
    #[test]
    fn what_earlier_epochs_left_is_counted_and_does_not_wait_for_anything_on_its_way() {
        let id = |part| PayloadId {
            part,
            ..PayloadId::default()
        };
        let payload = |len| Payload::of(Bytes::from(vec![1; len]));
        let mut lacking = Lacking::default();
        lacking.expect(5, id(1), payload(10), 10);
        for _ in 0..2 {
            lacking.insert_moving(id(1), payload(10));
            lacking.insert_moving(id(2), payload(20));
        }
        // It is not mixed with what is lacking for another reason.
        lacking.insert(id(2), payload(20));
        lacking.insert(id(3), payload(40));
        assert_eq!((lacking.ids().len(), lacking.moving_bytes()), (3, 30));
        let none = |_| false;
        assert_eq!(lacking.next(u64::MAX, none), Some((id(3), payload(40))));
        assert_eq!(lacking.next_due(0), None);
        let second = lacking.next(u64::MAX, |under_way| under_way == id(3));
        assert_eq!(second, Some((id(1), payload(10))));
        let third = lacking.next(0, |under_way| under_way != id(2));
        assert_eq!(third, Some((id(2), payload(20))));
        assert_eq!(lacking.remove(id(1)), Some(payload(10)));
        assert_eq!(lacking.moving_bytes(), 20);
        lacking.retain(|live| live == id(2));
        assert_eq!((lacking.ids().len(), lacking.moving_bytes()), (1, 20));
        lacking.retain(|_| false);
        assert!(lacking.is_empty());
        let left = (lacking.moving_bytes(), lacking.next(u64::MAX, none));
        assert_eq!(left, (0, None));
    }
}
