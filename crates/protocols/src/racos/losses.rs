//! Who has lost its disk, as far as known (section 6: ids announced but undecided count on lost segments).
//!
//! A member that lost its disk asks the others what they hold; each notes the loss before it answers. So
//! of any `k + f` that have acknowledged a value, the lost member among them, one knows: either it
//! acknowledged before it answered, and its answer names the value; or later, and then its acknowledgement
//! names the loss. An origin that hears of a loss asks that member anew, and counts nothing that it
//! said before.

use quorate_core::{Boot, Decoder, Encoder, Wire, WireError};
use std::collections::{BTreeMap, BTreeSet};

/// Losses remembered, at most; of what is forgotten acknowledgements are asked for once more.
const KNOWN_MAX: usize = 1024;
const MEMBERS_MAX: usize = 64;
const LOSS_BYTES: usize = 9;

/// The last loss heard of, by member.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Losses(BTreeMap<u8, Boot>);

impl Losses {
    /// Notes the loss of a member. Says whether it is another than the last one heard of.
    pub(super) fn note(&mut self, member: u8, loss: Boot) -> bool {
        self.0.insert(member, loss) != Some(loss)
    }

    fn iter(&self) -> impl Iterator<Item = (u8, Boot)> + '_ {
        self.0.iter().map(|(member, loss)| (*member, *loss))
    }
}

/// What an origin knows of losses: since which of its rounds what a member says counts.
#[derive(Clone, Debug, Hash)]
pub(super) struct Rounds {
    known: BTreeSet<(u8, Boot)>,
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
    pub(super) fn counts(&self, member: usize, round: u64) -> bool {
        (self.since[member]..=self.now).contains(&round)
    }

    /// Losses are heard of. Gives the members, as a mask, of which one is new.
    pub(super) fn hear(&mut self, losses: &Losses) -> u64 {
        let members = self.since.len();
        let heard = losses.iter().filter(|(at, _)| usize::from(*at) < members);
        let new: Vec<(u8, Boot)> = heard.filter(|loss| !self.known.contains(loss)).collect();
        if new.is_empty() {
            return 0;
        }
        if self.known.len() + new.len() > KNOWN_MAX {
            self.known.clear();
        }
        self.now += 1;
        let mut mask = 0;
        for (member, loss) in new {
            self.known.insert((member, loss));
            self.since[usize::from(member)] = self.now;
            mask |= 1 << member;
        }
        mask
    }
}

impl Wire for Losses {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.0.len() as u64);
        for (member, loss) in self.iter() {
            out.u8(member);
            out.u64(loss.0);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(LOSS_BYTES)?;
        let mut losses = BTreeMap::new();
        for _ in 0..count {
            let member = input.u8()?;
            let is_next = losses
                .last_key_value()
                .is_none_or(|(last, _)| *last < member);
            if !is_next || usize::from(member) >= MEMBERS_MAX {
                return Err(WireError::Range("losses"));
            }
            losses.insert(member, Boot(input.u64()?));
        }
        Ok(Losses(losses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_said_before_its_loss_was_heard_of_does_not_count() {
        let mut rounds = Rounds::new(3);
        assert!(rounds.counts(1, 0) && !rounds.counts(1, 1));
        let mut losses = Losses::default();
        assert!(losses.note(1, Boot(7)) && !losses.note(1, Boot(7)));
        assert_eq!((rounds.hear(&losses), rounds.hear(&losses)), (0b10, 0));
        assert!(!rounds.counts(1, 0) && rounds.counts(1, 1) && rounds.counts(2, 0));
        losses.note(9, Boot(8));
        assert_eq!(rounds.hear(&losses), 0, "no member");
        assert_eq!(Losses::from_bytes(losses.to_bytes()), Ok(losses));
    }
}
