//! A replica that lost its promises asks the others, and comes back in a new life ([`crate::shared::lives`]).
//!
//! Shared by the protocols whose members tell it a floor `F`, below which it may have promised
//! anything, and the end of the slots they know of. Why that is enough stands with each protocol.

use crate::shared::lives::Life;
use quorate_core::{Boot, Lsn, MemberIndex, MemberSet, Slot};
use std::hash::{Hash, Hasher};

/// A rejoin under way.
#[derive(Clone, Debug)]
pub(crate) struct Rejoin<F> {
    /// The number asked for.
    number: u64,
    /// Members that have noted it.
    heard: MemberSet,
    /// The highest floor they told.
    pub(crate) floor: F,
    /// The first slot behind all they know anything of.
    pub(crate) end: Slot,
    /// The record that ends the rejoin.
    pub(crate) written: Option<Lsn>,
}

impl<F: Hash> Hash for Rejoin<F> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.number, self.heard, &self.floor, self.end).hash(to);
        self.written.is_some().hash(to);
    }
}

impl<F: Copy + Default + Ord> Rejoin<F> {
    /// Asks for a life later than this one.
    pub(crate) fn after(life: Life) -> Self {
        Rejoin {
            number: life.next_number(),
            heard: MemberSet::EMPTY,
            floor: F::default(),
            end: Slot(0),
            written: None,
        }
    }

    /// The life asked for, if it still is, and the members (of `to`) to ask.
    pub(crate) fn asks(&self, to: MemberSet, boot: Boot) -> Option<(Life, MemberSet)> {
        let is_asking = self.written.is_none();
        is_asking.then_some((self.life(boot), to - self.heard))
    }

    /// The life asked for.
    pub(crate) fn life(&self, boot: Boot) -> Life {
        Life {
            number: self.number,
            boot,
        }
    }

    /// Whether as many have answered.
    pub(crate) fn is_known_by(&self, members: usize) -> bool {
        self.heard.len() >= members
    }

    /// Whether all is known and delivered that its former lives may have said: its life can be written.
    pub(crate) fn is_due(&self, members: usize, delivered: Slot) -> bool {
        self.written.is_none() && self.is_known_by(members) && delivered >= self.end
    }

    /// Whether its life is durable.
    pub(crate) fn is_over(&self, durable: Lsn) -> bool {
        self.written.is_some_and(|lsn| lsn <= durable)
    }

    /// Asks all anew.
    pub(crate) fn restart(&mut self) {
        (self.heard, self.end) = (MemberSet::EMPTY, Slot(0));
    }

    /// A member's answer to `boot`: it has noted the life `noted` of this replica. Once enough `members`
    /// have, more do not count.
    pub(crate) fn hear(
        &mut self,
        (from, members): (MemberIndex, usize),
        (boot, noted): (Boot, Life),
        (floor, end): (F, Slot),
    ) -> Heard {
        if self.written.is_some() {
            return Heard::Nothing;
        }
        if noted != self.life(boot) {
            if noted.number < self.number {
                return Heard::Nothing;
            }
            *self = Rejoin::after(noted);
            return Heard::Taken;
        }
        if !self.heard.contains(from) && !self.is_known_by(members) {
            self.heard.insert(from);
            self.floor = self.floor.max(floor);
            self.end = self.end.max(end);
        }
        Heard::Noted
    }
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// Nothing of this question.
    Nothing,
    /// The number is another life's; a later one is to be asked for.
    Taken,
    /// The member has noted the life.
    Noted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_taken_is_left_to_its_life() {
        let [first, second] = [1, 2].map(MemberIndex::new);
        let (mine, other) = (Boot(1), Boot(2));
        let mut rejoin = Rejoin::<u64>::after(Life::default());
        let said = (7, Slot(9));
        let taken = rejoin.life(other);
        assert_eq!(rejoin.hear((first, 2), (mine, taken), said), Heard::Taken);
        assert_eq!(rejoin.life(mine).number, 2);
        assert_eq!(rejoin.hear((first, 2), (mine, taken), said), Heard::Nothing);
        let noted = rejoin.life(mine);
        assert_eq!(rejoin.hear((first, 2), (mine, noted), said), Heard::Noted);
        assert!(!rejoin.is_due(2, Slot(9)));
        assert_eq!(
            rejoin.hear((second, 2), (mine, noted), (3, Slot(1))),
            Heard::Noted
        );
        assert!(!rejoin.is_due(2, Slot(8)) && rejoin.is_due(2, Slot(9)));
        assert_eq!(rejoin.floor, 7);
    }

    #[test]
    fn no_number_that_a_peer_says_ends_the_process() {
        let last = Life {
            number: u64::MAX,
            boot: Boot(2),
        };
        let mut rejoin = Rejoin::<u64>::after(Life::default());
        assert_eq!(
            rejoin.hear((MemberIndex::new(1), 2), (Boot(1), last), (0, Slot(0))),
            Heard::Taken
        );
        assert_eq!(rejoin.life(Boot(1)).number, u64::MAX);
    }
}
