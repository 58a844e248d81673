//! The common coin of randomised consensus.

use crate::ids::Slot;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The common coin: the same bit on every replica for the same `(seed, epoch, slot, phase)`.
///
/// A pure function, never a stateful generator: a generator re-seeded per slot repeats its
/// sequence in every slot, and one that is not re-seeded depends on how many coins a replica has
/// tossed, which differs between replicas (Rabia, SOSP'21, section 4, asks for a seed made of the
/// slot and the configuration index).
#[must_use]
pub fn coin(seed: u64, epoch: u64, slot: Slot, phase: u32) -> bool {
    let mut key = [0u8; 20];
    key[..8].copy_from_slice(&epoch.to_le_bytes());
    key[8..16].copy_from_slice(&slot.0.to_le_bytes());
    key[16..].copy_from_slice(&phase.to_le_bytes());
    xxh3_64_with_seed(&key, seed) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coin_is_fair_across_slots_and_phases() {
        for phase in 1..=4 {
            let ones = (0..10_000).filter(|s| coin(7, 1, Slot(*s), phase)).count();
            assert!(
                (4_800..=5_200).contains(&ones),
                "phase {phase}: {ones} ones of 10000"
            );
        }
    }

    #[test]
    fn consecutive_phases_of_one_slot_are_independent() {
        let same = (0..10_000)
            .filter(|s| coin(7, 1, Slot(*s), 1) == coin(7, 1, Slot(*s), 2))
            .count();
        assert!((4_800..=5_200).contains(&same), "{same} of 10000 agree");
    }
}
