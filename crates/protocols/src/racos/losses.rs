//! Who has lost its disk, as far as known.
//!
//! A member that lost its disk asks the others what they hold; each notes the loss before it answers. So
//! of any `k + f` that have acknowledged a value, the lost member among them, one knows: either it
//! acknowledged before it answered, and its answer names the value; or later, and then its acknowledgement
//! names the loss. An origin that hears of a loss asks that member anew, and counts nothing that it
//! said before. Whoever lost its own disk acknowledges nothing until it knows again what losses it had noted,
//! or who counted on that knows of its loss (`rejoin.rs`).
//!
//! Of one number there may be two losses, if the first never came to an end: each is heard of by itself.

use crate::shared::lives::{Life, Lives};
use quorate_core::{MemberIndex, MemberSet};
use std::collections::BTreeSet;

/// Losses remembered, at most; of what is forgotten acknowledgements are asked for once more.
const KNOWN_MAX: usize = 1024;

/// What an origin knows of losses: since which of its rounds what a member says counts.
#[derive(Clone, Debug, Hash)]
pub(super) struct Rounds {
    /// By member, number and boot.
    known: BTreeSet<(MemberIndex, u64, u64)>,
    /// Questions carry it.
    pub(super) now: u64,
    since: Vec<u64>,
}

impl Rounds {
    pub(super) fn new(members: usize) -> Rounds {
        Rounds {
            known: BTreeSet::new(),
            now: 0,
            since: vec![0; members],
        }
    }

    /// Whether an answer to a question of this round counts.
    pub(super) fn counts(&self, member: MemberIndex, round: u64) -> bool {
        (self.since[member]..=self.now).contains(&round)
    }

    /// Losses are heard of. Gives the members of which one is new.
    pub(super) fn hear(&mut self, losses: &Lives) -> MemberSet {
        let name = |(at, Life { number, boot }): (MemberIndex, Life)| (at, number, boot.0);
        let members = MemberSet::first(self.since.len()).iter();
        let heard = members.map(|at| (at, losses.of(at)));
        let lost = heard.filter(|(_, loss)| loss.number > 0).map(name);
        let new: Vec<_> = lost.filter(|loss| !self.known.contains(loss)).collect();
        if new.is_empty() {
            return MemberSet::EMPTY;
        }
        if self.known.len() + new.len() > KNOWN_MAX {
            self.known.clear();
        }
        self.now += 1;
        let mut members = MemberSet::EMPTY;
        for loss in new {
            self.known.insert(loss);
            self.since[loss.0] = self.now;
            members.insert(loss.0);
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::Boot;

    #[test]
    fn what_a_member_said_before_its_loss_was_heard_of_does_not_count() {
        let mut rounds = Rounds::new(3);
        let [one, two] = [1, 2].map(MemberIndex::new);
        assert!(rounds.counts(one, 0) && !rounds.counts(one, 1));
        let (number, boot) = (1, Boot(7));
        let mut losses = Lives::default();
        assert!(losses.note(one, Life { number, boot }));
        assert_eq!(rounds.hear(&losses), MemberSet::only(one));
        assert_eq!(rounds.hear(&losses), MemberSet::EMPTY);
        assert!(!rounds.counts(one, 0) && rounds.counts(one, 1) && rounds.counts(two, 0));
        let mut others = Lives::default();
        let boot = Boot(8);
        assert!(others.note(one, Life { number, boot }));
        assert_eq!(
            rounds.hear(&others),
            MemberSet::only(one),
            "another of that number"
        );
        losses.note(MemberIndex::new(9), Life { number, boot });
        assert_eq!(rounds.hear(&losses), MemberSet::EMPTY, "no member");
    }
}
