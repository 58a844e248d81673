//! Lanes: which member owns which slot.

use quorate_core::{MemberIndex, Slot};

/// How the slots of an epoch are dealt to its members: one after the other, in the order of their positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lanes {
    /// The first slot of the epoch, which the first member owns.
    pub(super) first: Slot,
    /// How many members there are: the distance between two slots of a lane.
    pub(super) members: u64,
}

impl Lanes {
    /// The owner of a slot.
    pub(super) fn owner(self, slot: Slot) -> MemberIndex {
        let position = slot.0.saturating_sub(self.first.0) % self.members;
        MemberIndex::new(position as usize)
    }

    /// The first slot of a lane that is not before `from`.
    pub(super) fn first_from(self, lane: MemberIndex, from: Slot) -> Slot {
        let from = from.max(self.first);
        let wanted = lane.position() as u64;
        let position = (from.0 - self.first.0) % self.members;
        let ahead = (wanted + self.members - position) % self.members;
        Slot(from.0.saturating_add(ahead))
    }

    /// The slot of the same lane behind `slot`.
    pub(super) fn behind(self, slot: Slot) -> Slot {
        Slot(slot.0.saturating_add(self.members))
    }

    /// The slots of a lane from `from` on, before `end`.
    pub(super) fn slots(
        self,
        lane: MemberIndex,
        from: Slot,
        end: Slot,
    ) -> impl Iterator<Item = Slot> {
        let first = self.first_from(lane, from).0;
        (first..end.0.max(first))
            .step_by(self.members as usize)
            .map(Slot)
    }

    /// The slots of a span that are not before `from` and before `end`.
    pub(super) fn slots_of(self, span: Span, from: Slot, end: Slot) -> impl Iterator<Item = Slot> {
        let end = end.min(Slot(span.last.0.saturating_add(1)));
        self.slots(self.owner(span.first), span.first.max(from), end)
    }
}

/// Slots of one lane, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
}

impl Span {
    /// The span of this slot alone.
    pub(super) fn only(slot: Slot) -> Span {
        let (first, last) = (slot, slot);
        Span { first, last }
    }
}

/// Spans that hold exactly these slots; the slots of each lane come in ascending order.
pub(super) fn spans(slots: impl IntoIterator<Item = Slot>, lanes: Lanes) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for slot in slots {
        let before = spans
            .iter_mut()
            .rev()
            .find(|span| lanes.owner(span.first) == lanes.owner(slot));
        match before {
            Some(span) if lanes.behind(span.last) == slot => span.last = slot,
            _ => spans.push(Span::only(slot)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: Lanes = Lanes {
        first: Slot(10),
        members: 3,
    };

    #[test]
    fn slots_are_dealt_in_turn_from_the_first_of_the_epoch() {
        let owners = (10..16).map(|slot| LANES.owner(Slot(slot)).position());
        assert_eq!(owners.collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        let lane = MemberIndex::new(1);
        let firsts = [9, 10, 11, 12, 14, 15].map(|from| LANES.first_from(lane, Slot(from)).0);
        assert_eq!(firsts, [11, 11, 11, 14, 14, 17]);
        let slots = LANES.slots(lane, Slot(12), Slot(18)).map(|slot| slot.0);
        assert_eq!(slots.collect::<Vec<_>>(), [14, 17]);
    }

    #[test]
    fn spans_join_what_is_contiguous_in_a_lane() {
        let all = [10, 11, 13, 16, 17, 20].map(Slot);
        let joined = spans(all, LANES);
        let ends = joined.iter().map(|span| (span.first.0, span.last.0));
        assert_eq!(ends.collect::<Vec<_>>(), [(10, 16), (11, 11), (17, 20)]);
        let back = joined
            .iter()
            .flat_map(|span| LANES.slots_of(*span, Slot(0), Slot(99)));
        assert_eq!(back.count(), all.len());
        let cut = LANES.slots_of(joined[0], Slot(11), Slot(16)).map(|s| s.0);
        assert_eq!(cut.collect::<Vec<_>>(), [13]);
    }

    #[test]
    fn the_end_of_all_slots_is_no_trouble() {
        let last = Slot(u64::MAX);
        let span = Span {
            first: Slot(0),
            last,
        };
        assert_eq!(LANES.slots_of(span, Slot(10), Slot(14)).count(), 2);
        assert_eq!(
            LANES.slots_of(Span::only(last), Slot(10), Slot(14)).count(),
            0
        );
        assert_eq!(LANES.behind(last), last);
    }
}
