//! The set of entries decided so far, as intervals of sequence numbers.

use crate::ids::{Boot, EntryId, ReplicaId};
use crate::wire::{Decoder, Encoder, Wire, WireError};
use std::collections::BTreeMap;

/// A set of entry ids that stays small when the ids of each origin fill up without gaps, as those
/// of decided entries do (`Done` in Rabia).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntrySet {
    /// Per boot of an origin: first to last sequence number of each run, runs apart by at least 2.
    runs: BTreeMap<(ReplicaId, Boot), BTreeMap<u64, u64>>,
}

impl EntrySet {
    /// Whether `id` was inserted.
    #[must_use]
    pub fn contains(&self, id: EntryId) -> bool {
        let runs = self.runs.get(&(id.origin, id.boot));
        let run = runs.and_then(|runs| runs.range(..=id.seq).next_back());
        run.is_some_and(|(_, last)| id.seq <= *last)
    }

    /// Adds `id`; says whether it is new.
    pub fn insert(&mut self, id: EntryId) -> bool {
        let runs = self.runs.entry((id.origin, id.boot)).or_default();
        // Nearly always the next one of its origin.
        if let Some(mut run) = runs.last_entry()
            && run.get().checked_add(1) == Some(id.seq)
        {
            *run.get_mut() = id.seq;
            return true;
        }
        let run = runs.range(..=id.seq).next_back();
        if run.is_some_and(|(_, last)| id.seq <= *last) {
            return false;
        }
        let last = match id.seq.checked_add(1).and_then(|next| runs.remove(&next)) {
            Some(last) => last,
            None => id.seq,
        };
        match runs.range_mut(..id.seq).next_back() {
            Some((_, before)) if *before + 1 == id.seq => *before = last,
            _ => {
                runs.insert(id.seq, last);
            }
        }
        true
    }

    /// The highest sequence number inserted for a boot of an origin.
    #[must_use]
    pub fn last(&self, origin: ReplicaId, boot: Boot) -> Option<u64> {
        let runs = self.runs.get(&(origin, boot))?;
        runs.last_key_value().map(|(_, last)| *last)
    }

    /// Number of runs held: the memory this set takes.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.values().map(BTreeMap::len).sum()
    }
}

impl Wire for EntrySet {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.run_count() as u64);
        for ((origin, boot), runs) in &self.runs {
            for (first, last) in runs {
                EntryId {
                    origin: *origin,
                    boot: *boot,
                    seq: *first,
                }
                .encode(out);
                out.varint(last - first);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let mut set = EntrySet::default();
        let mut before: Option<((ReplicaId, Boot), u64)> = None;
        for _ in 0..input.count(11)? {
            let first = EntryId::decode(input)?;
            let origin = (first.origin, first.boot);
            let last = first.seq.checked_add(input.varint()?);
            let last = last.ok_or(WireError::Range("entry run"))?;
            let follows = match before {
                Some((its, end)) if its == origin => first.seq > end && first.seq - end > 1,
                Some((its, _)) => its < origin,
                None => true,
            };
            if !follows {
                return Err(WireError::Range("order of entry runs"));
            }
            before = Some((origin, last));
            set.runs.entry(origin).or_default().insert(first.seq, last);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn id(origin: u16, seq: u64) -> EntryId {
        EntryId {
            origin: ReplicaId(origin),
            boot: Boot(1),
            seq,
        }
    }

    #[test]
    fn it_agrees_with_a_plain_set_in_any_order_of_insertion() {
        let mut model = BTreeSet::new();
        let mut set = EntrySet::default();
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let id = id((state >> 60) as u16 % 3, (state >> 33) % 200);
            assert_eq!(set.insert(id), model.insert(id));
        }
        for origin in 0..3 {
            for seq in 0..202 {
                assert_eq!(
                    set.contains(id(origin, seq)),
                    model.contains(&id(origin, seq))
                );
            }
        }
        assert_eq!(EntrySet::from_bytes(set.to_bytes()), Ok(set));
    }

    #[test]
    fn ids_without_gaps_are_one_run() {
        let mut set = EntrySet::default();
        for seq in [3, 1, 2, 5, 4] {
            assert!(set.insert(id(1, seq)));
        }
        assert_eq!(set.run_count(), 1);
    }

    #[test]
    fn the_last_of_a_boot_is_that_of_its_last_run() {
        let mut set = EntrySet::default();
        for seq in [3, 9, 4] {
            set.insert(id(1, seq));
        }
        set.insert(id(2, 12));
        assert_eq!(set.last(ReplicaId(1), Boot(1)), Some(9));
        assert_eq!(set.last(ReplicaId(1), Boot(2)), None);
    }
}
