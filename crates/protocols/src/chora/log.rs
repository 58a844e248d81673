//! The main log behind what is committed: gap-free, and always a prefix of the log of some
//! initiator and what its view added to it.

use super::messages::Logged;
use super::pattern::{SEGMENTS_MAX, Segment, ViewInit};
use quorate_core::Slot;
use std::collections::VecDeque;

/// How far a log goes, as elections compare it: first by the view of its last entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// The view in which the last entry was proposed.
    pub eview: u64,
    /// `last_append`: the first slot behind it.
    pub end: Slot,
}

/// The main log from the first slot not committed on.
#[derive(Clone, Hash, Debug)]
pub(super) struct Log {
    first: Slot,
    entries: VecDeque<Logged>,
    /// Views of the entries, committed ones included as far as known; never empty. The first begins
    /// with the last committed slot, or before.
    lineage: VecDeque<Segment>,
}

/// What the segments of a VIEW-INIT show of an old tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comparison {
    /// Every slot before this one is as in the initiator's log.
    pub(super) same: Slot,
    /// The first slot that is proved to be another.
    pub(super) other: Option<Slot>,
}

impl Log {
    /// Nothing behind the slots before `first`, of which the last was proposed in `eview`.
    pub(super) fn behind(first: Slot, eview: u64) -> Log {
        let segment = Segment {
            eview,
            first: Slot(first.0.saturating_sub(1)),
        };
        Log {
            first,
            entries: VecDeque::new(),
            lineage: [segment].into(),
        }
    }

    /// The first slot not committed.
    pub(super) fn first(&self) -> Slot {
        self.first
    }

    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.first.0 + self.entries.len() as u64)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Logged> {
        let offset = slot.0.checked_sub(self.first.0)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }

    /// The entries, from the first slot not committed on.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Logged> {
        self.entries.iter()
    }

    /// How far it goes.
    pub(super) fn position(&self) -> Position {
        Position {
            eview: self.lineage.back().map_or(0, |segment| segment.eview),
            end: self.end(),
        }
    }

    /// Adds the next entry.
    pub(super) fn append(&mut self, logged: Logged) {
        debug_assert_eq!(logged.slot, self.end());
        let Logged { slot, eview, .. } = logged;
        if self.position().eview != eview {
            self.lineage.push_back(Segment { eview, first: slot });
        }
        self.entries.push_back(logged);
    }

    /// Takes away everything from a slot on that is not committed.
    pub(super) fn truncate(&mut self, from: Slot) {
        let kept = from.0.saturating_sub(self.first.0);
        self.entries
            .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        let end = self.end();
        while self.lineage.len() > 1 && self.lineage.back().is_some_and(|last| last.first >= end) {
            self.lineage.pop_back();
        }
    }

    /// Takes the first entry, which is committed.
    pub(super) fn commit(&mut self) -> Option<Logged> {
        let logged = self.entries.pop_front()?;
        self.first = self.first.next();
        if self.lineage.len() > SEGMENTS_MAX
            && self
                .lineage
                .get(1)
                .is_some_and(|next| next.first < self.first)
        {
            self.lineage.pop_front();
        }
        Some(logged)
    }

    /// Every slot before `next` is committed, the last in view `eview`. What lies behind stays if this
    /// log had the same entry there: then it continues it (J4).
    pub(super) fn install(&mut self, next: Slot, eview: u64) {
        let last = next.0.checked_sub(1).map(Slot);
        let is_same = last.and_then(|last| self.get(last)).map(|last| last.eview) == Some(eview);
        if is_same {
            while self.first < next && self.commit().is_some() {}
        } else {
            *self = Log::behind(next, eview);
        }
    }

    /// Holds the uncommitted entries from a slot on against an initiator's segments.
    pub(super) fn compare(&self, from: Slot, init: &ViewInit) -> Comparison {
        let mut comparison = Comparison {
            same: from,
            other: None,
        };
        for logged in self.entries.iter().filter(|logged| logged.slot >= from) {
            if logged.slot >= init.at {
                if logged.eview != init.view {
                    comparison.other = comparison.other.or(Some(logged.slot));
                }
                continue;
            }
            match init.eview_at(logged.slot) {
                Some(eview) if eview == logged.eview => {
                    // The same entry, and so is everything before it (J4).
                    comparison = Comparison {
                        same: logged.slot.next(),
                        other: None,
                    };
                }
                Some(_) => comparison.other = comparison.other.or(Some(logged.slot)),
                None => {}
            }
        }
        comparison
    }

    /// The newest segments, for a VIEW-INIT.
    pub(super) fn segments(&self, most: usize) -> Vec<Segment> {
        let skipped = self.lineage.len().saturating_sub(most);
        self.lineage.iter().skip(skipped).copied().collect()
    }

    /// J3: gap-free, and views do not decrease.
    pub(super) fn check(&self) {
        let mut eview = 0;
        for (slot, logged) in (self.first.0..).map(Slot).zip(&self.entries) {
            assert_eq!(logged.slot, slot, "the main log has no gaps (J3)");
            assert!(eview <= logged.eview, "views do not decrease (J3)");
            eview = logged.eview;
        }
        let mut firsts = self.lineage.iter().map(|segment| segment.first);
        assert!(firsts.by_ref().is_sorted(), "segments are in order");
        assert!(!self.lineage.is_empty(), "a log ends in some view");
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::Value;
    use super::*;
    use quorate_core::MemberIndex;

    fn log(first: u64, eview: u64, eviews: &[u64]) -> Log {
        let mut log = Log::behind(Slot(first), eview);
        for eview in eviews {
            log.append(Logged {
                slot: log.end(),
                eview: *eview,
                value: Value::Noop,
            });
        }
        log.check();
        log
    }

    fn init(at: u64, segments: &[(u64, u64)]) -> ViewInit {
        ViewInit {
            view: 9,
            initiator: MemberIndex::new(0),
            at: Slot(at),
            pattern: vec![MemberIndex::new(0)],
            segments: segments
                .iter()
                .map(|(eview, first)| Segment {
                    eview: *eview,
                    first: Slot(*first),
                })
                .collect(),
        }
    }

    fn compared(log: &Log, init: &ViewInit) -> (u64, Option<u64>) {
        let Comparison { same, other } = log.compare(log.first(), init);
        (same.0, other.map(|slot| slot.0))
    }

    #[test]
    fn a_tail_is_the_same_up_to_the_last_slot_of_an_equal_view() {
        let log = log(3, 0, &[0, 0, 2, 2]);
        assert_eq!(compared(&log, &init(9, &[(0, 0), (2, 5)])), (7, None));
        assert_eq!(compared(&log, &init(9, &[(0, 0), (3, 6)])), (5, Some(5)));
        assert_eq!(compared(&log, &init(9, &[(3, 4)])), (3, Some(4)));
        assert_eq!(compared(&log, &init(4, &[(0, 0)])), (4, Some(4)));
    }

    /// U15: what lies below the listed segments is unverified, not wrong.
    #[test]
    fn a_tail_older_than_the_list_is_neither_the_same_nor_another() {
        let log = log(3, 0, &[0, 0, 2, 2]);
        assert_eq!(compared(&log, &init(20, &[(7, 12)])), (3, None));
    }

    #[test]
    fn state_that_ends_in_another_view_takes_the_tail_along() {
        let mut same = log(3, 0, &[0, 0, 2, 2]);
        same.install(Slot(5), 0);
        assert_eq!((same.first(), same.end()), (Slot(5), Slot(7)));
        let mut other = log(3, 0, &[0, 0, 2, 2]);
        other.install(Slot(5), 1);
        let behind = Position {
            eview: 1,
            end: Slot(5),
        };
        assert_eq!(other.position(), behind);
        same.truncate(Slot(0));
        assert_eq!((same.end(), same.position().eview), (Slot(5), 0));
        [same, other].iter().for_each(Log::check);
    }
}
