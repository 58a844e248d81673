//! Owners of slots: a view deals its slots to its proposers in turn.

use quorate_core::{MemberIndex, MemberSet, Slot};

/// Slots that an initiator's log has of one view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    /// The view in which they were proposed.
    pub eview: u64,
    /// The first of them, as far as known.
    pub first: Slot,
}

/// Segments in a VIEW-INIT, at most: the newest.
pub(super) const SEGMENTS_MAX: usize = 64;

/// The first entry of a view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewInit {
    /// The view that it begins.
    pub view: u64,
    /// Who was elected.
    pub initiator: MemberIndex,
    /// `view_base`: the slot it has.
    pub at: Slot,
    /// The proposers; slots are dealt to them in this order.
    pub pattern: Vec<MemberIndex>,
    /// The initiator's log before it.
    pub segments: Vec<Segment>,
}

impl ViewInit {
    /// The first slot that is dealt. View 0 has no VIEW-INIT: its `at` is not a slot.
    pub(super) fn start(&self) -> Slot {
        match self.view {
            0 => self.at,
            _ => self.at.next(),
        }
    }

    /// Who proposes in a slot; nobody before the first one dealt.
    pub(super) fn owner(&self, slot: Slot) -> Option<MemberIndex> {
        let behind = slot.0.checked_sub(self.start().0)?;
        Some(self.pattern[(behind % self.pattern.len() as u64) as usize])
    }

    /// Whether a member proposes.
    pub(super) fn has(&self, member: MemberIndex) -> bool {
        self.pattern.contains(&member)
    }

    /// The set of the proposers.
    pub(super) fn proposers(&self) -> MemberSet {
        self.pattern.iter().copied().collect()
    }

    /// The first slot from one on that is a member's.
    pub(super) fn next_of(&self, member: MemberIndex, from: Slot) -> Option<Slot> {
        let from = from.max(self.start()).0;
        let row = from..from.saturating_add(self.pattern.len() as u64);
        row.map(Slot).find(|slot| self.owner(*slot) == Some(member))
    }

    /// The view in which the initiator's log was proposed at a slot before VIEW-INIT; `None` for slots
    /// older than the listed segments.
    pub(super) fn eview_at(&self, slot: Slot) -> Option<u64> {
        let before = slot < self.at;
        let segment = self.segments.iter().rfind(|segment| segment.first <= slot);
        segment.filter(|_| before).map(|segment| segment.eview)
    }

    /// Whether it makes sense among so many members.
    pub(super) fn is_valid(&self, members: usize) -> bool {
        let is_member = |member: &MemberIndex| member.position() < members;
        self.view > 0
            && is_member(&self.initiator)
            && !self.pattern.is_empty()
            && self.pattern.iter().all(is_member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(view: u64, at: u64, pattern: &[usize]) -> ViewInit {
        ViewInit {
            view,
            initiator: MemberIndex::new(pattern[0]),
            at: Slot(at),
            pattern: pattern.iter().copied().map(MemberIndex::new).collect(),
            segments: vec![
                Segment {
                    eview: 0,
                    first: Slot(3),
                },
                Segment {
                    eview: 2,
                    first: Slot(6),
                },
            ],
        }
    }

    fn owner(init: &ViewInit, slot: u64) -> Option<usize> {
        init.owner(Slot(slot)).map(MemberIndex::position)
    }

    #[test]
    fn slots_are_dealt_in_turn_from_behind_view_init() {
        let init = init(3, 9, &[2, 0]);
        let owners: Vec<_> = (8..14).map(|slot| owner(&init, slot)).collect();
        assert_eq!(owners, [None, None, Some(2), Some(0), Some(2), Some(0)]);
        assert_eq!(init.next_of(MemberIndex::new(0), Slot(0)), Some(Slot(11)));
        assert_eq!(init.next_of(MemberIndex::new(0), Slot(11)), Some(Slot(11)));
        assert_eq!(init.next_of(MemberIndex::new(0), Slot(12)), Some(Slot(13)));
        assert_eq!(init.next_of(MemberIndex::new(1), Slot(12)), None);
    }

    #[test]
    fn view_0_begins_with_the_first_slot() {
        let init = init(0, 9, &[0, 1]);
        assert_eq!((owner(&init, 8), owner(&init, 9)), (None, Some(0)));
    }

    #[test]
    fn a_list_of_segments_tells_of_no_slot_outside_it() {
        let init = init(3, 9, &[1]);
        let eviews: Vec<_> = [2, 3, 5, 6, 8, 9]
            .map(|slot| init.eview_at(Slot(slot)))
            .into();
        assert_eq!(eviews, [None, Some(0), Some(0), Some(2), Some(2), None]);
    }
}
