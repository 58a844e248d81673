//! The epochs of a group, one after the other: part of its replicated state.

use super::{Epoch, Member};
use crate::ids::Slot;
use crate::wire::{Decoder, Encoder, Wire, WireError};
use std::collections::VecDeque;
use std::fmt;

/// The last epochs of a group, whole and without gaps; the newest is the one that orders commands.
/// All replicas forget the old ones at the same slots, so that chains are equal where states are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Ascending, never empty.
    epochs: VecDeque<Epoch>,
}

/// Why an epoch cannot follow another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainError {
    /// The number of the epoch is not the next one.
    Number,
    /// The epoch begins before the end of the one it follows, which takes one slot at least: its seal.
    Slot,
    /// The epoch was made for another predecessor: its seed is not that one's digest.
    Predecessor,
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChainError::Number => "the numbers of the epochs leave a gap",
            ChainError::Slot => "an epoch begins before the one it follows has ended",
            ChainError::Predecessor => "an epoch was made to follow another one",
        })
    }
}

impl Chain {
    /// Epochs kept in a chain.
    pub const KEPT: usize = 1024;

    /// A chain that begins with this epoch.
    #[must_use]
    pub fn new(first: Epoch) -> Chain {
        Chain {
            epochs: [first].into(),
        }
    }

    /// The epoch that orders commands.
    #[must_use]
    pub fn newest(&self) -> &Epoch {
        self.epochs.back().expect("a chain is never empty")
    }

    /// The epochs kept, ascending.
    pub fn epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> + Clone {
        self.epochs.iter()
    }

    /// The epoch of this number, if it is kept.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Epoch> {
        let oldest = self.epochs[0].number;
        let place = usize::try_from(number.checked_sub(oldest)?).ok()?;
        self.epochs.get(place)
    }

    /// The slot that sealed an epoch, if it is kept and sealed.
    #[must_use]
    pub fn seal_of(&self, number: u64) -> Option<Slot> {
        self.get(number)?;
        let next = self.get(number.checked_add(1)?)?;
        Some(Slot(next.first_slot.0 - 1))
    }

    /// The epoch that ordered a slot, or would, if it is kept.
    #[must_use]
    pub fn at(&self, slot: Slot) -> Option<&Epoch> {
        self.epochs().rev().find(|epoch| epoch.first_slot <= slot)
    }

    /// The newest epoch and those before it, up to the last that was made by hand: whoever was a member
    /// before that one is none of this cluster.
    pub fn lineage(&self) -> impl Iterator<Item = &Epoch> + Clone {
        let newest_first = self.epochs.iter().rev();
        let is_forced = |number: u64| {
            let pair = self.get(number).zip(self.get(number - 1));
            pair.is_some_and(|(epoch, before)| epoch.is_forced_behind(before))
        };
        let forced = newest_first.clone().map(|epoch| epoch.number);
        let first = forced.filter(|number| *number > 1).find(|n| is_forced(*n));
        newest_first.take_while(move |epoch| first.is_none_or(|first| epoch.number >= first))
    }

    /// Whether any epoch kept lists a replica in this life.
    #[must_use]
    pub fn lists(&self, member: Member) -> bool {
        self.epochs().any(|epoch| epoch.has(member))
    }

    /// Appends an epoch, and forgets the oldest when there are too many.
    ///
    /// # Errors
    /// When it does not follow the newest.
    pub fn push(&mut self, next: Epoch) -> Result<(), ChainError> {
        let newest = self.newest();
        if newest.number.checked_add(1) != Some(next.number) {
            return Err(ChainError::Number);
        }
        if next.first_slot <= newest.first_slot {
            return Err(ChainError::Slot);
        }
        if next.seed != newest.digest() && !next.is_forced_behind(newest) {
            return Err(ChainError::Predecessor);
        }
        self.epochs.push_back(next);
        if self.epochs.len() > Chain::KEPT {
            self.epochs.pop_front();
        }
        Ok(())
    }
}

/// The least that an epoch takes in an encoding, in bytes.
const EPOCH_BYTES_MIN: usize = 14;

impl Wire for Chain {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.epochs.len() as u64);
        self.epochs.iter().for_each(|epoch| epoch.encode(out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(EPOCH_BYTES_MIN)?;
        if !(1..=Chain::KEPT).contains(&count) {
            return Err(WireError::Range("epochs in a chain"));
        }
        let mut chain = Chain::new(Epoch::decode(input)?);
        for _ in 1..count {
            let next = chain.push(Epoch::decode(input)?);
            next.map_err(|_| WireError::Range("order of epochs"))?;
        }
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::tests::epoch;

    fn following(chain: &Chain, first_slot: u64) -> Epoch {
        let newest = chain.newest();
        Epoch {
            number: newest.number + 1,
            first_slot: Slot(first_slot),
            seed: newest.digest(),
            ..newest.clone()
        }
    }

    fn chain(epochs: u64) -> Chain {
        let mut chain = Chain::new(epoch());
        for count in 1..epochs {
            let next = following(&chain, 10 * count);
            chain.push(next).unwrap();
        }
        chain
    }

    #[test]
    fn every_slot_belongs_to_one_epoch_and_every_epoch_but_the_last_has_a_seal() {
        let chain = chain(3);
        let epochs = [0, 9, 10, 19, 20, 1 << 40].map(|slot| chain.at(Slot(slot)).unwrap().number);
        assert_eq!(epochs, [1, 1, 2, 2, 3, 3]);
        let seals = [0, 1, 2, 3, 4].map(|number| chain.seal_of(number));
        assert_eq!(seals, [None, Some(Slot(9)), Some(Slot(19)), None, None]);
    }

    #[test]
    fn an_epoch_follows_only_what_it_was_made_for() {
        let chain = chain(2);
        let right = following(&chain, 20);
        let push = |epoch: Epoch| chain.clone().push(epoch);
        assert_eq!(push(right.clone()), Ok(()));
        let wrong = [
            (
                Epoch {
                    number: 4,
                    ..right.clone()
                },
                ChainError::Number,
            ),
            (
                Epoch {
                    first_slot: Slot(10),
                    ..right.clone()
                },
                ChainError::Slot,
            ),
            (
                Epoch {
                    seed: right.seed + 1,
                    ..right.clone()
                },
                ChainError::Predecessor,
            ),
        ];
        for (epoch, why) in wrong {
            assert_eq!(push(epoch), Err(why));
        }
    }

    #[test]
    fn an_epoch_made_by_hand_follows_and_ends_the_lineage() {
        let mut chain = chain(3);
        assert_eq!(chain.lineage().count(), 3);
        let alone = chain.newest().members[1];
        let forced = chain.newest().forced(Slot(30), alone);
        assert!(forced.is_forced_behind(chain.newest()));
        assert!(!chain.newest().is_forced_behind(chain.get(2).unwrap()));
        assert_eq!((forced.number, forced.first_slot), (4, Slot(31)));
        chain.push(forced).unwrap();
        chain.push(following(&chain, 40)).unwrap();
        let numbers: Vec<u64> = chain.lineage().map(|epoch| epoch.number).collect();
        assert_eq!(numbers, [5, 4]);
        assert_eq!(Chain::from_bytes(chain.to_bytes()), Ok(chain));
    }

    #[test]
    fn the_last_epochs_stay_and_come_back_from_their_encoding() {
        let chain = chain(Chain::KEPT as u64 + 5);
        assert_eq!(chain.epochs().count(), Chain::KEPT);
        assert_eq!((chain.get(5), chain.at(Slot(49))), (None, None));
        assert_eq!(chain.get(6).unwrap().first_slot, Slot(50));
        assert_eq!(chain.newest().number, Chain::KEPT as u64 + 5);
        assert_eq!(Chain::from_bytes(chain.to_bytes()), Ok(chain));
    }
}
