//! Quorum arithmetic shared by the protocols.

use crate::ids::Slot;

/// The smallest number of replicas of which any two sets intersect: `floor(n/2) + 1`.
#[must_use]
pub fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// The end that so many members have reached, if it is beyond what is known. Every message may come by here: nothing
/// is allocated, nor sorted.
#[must_use]
pub fn reached(
    ends: impl Iterator<Item = Slot> + Clone,
    enough: usize,
    known: Slot,
) -> Option<Slot> {
    let have = |end: Slot| ends.clone().filter(|other| *other >= end).count();
    let beyond = ends.clone().filter(|end| *end > known);
    beyond.filter(|end| have(*end) >= enough).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_majorities_intersect_and_none_is_larger_than_needed() {
        for n in 1..=64 {
            assert!(2 * majority(n) > n);
            assert!(2 * (majority(n) - 1) <= n);
        }
    }

    #[test]
    fn it_is_the_end_with_as_many_at_or_beyond_it() {
        let ends = [4, 9, 7, 7, 2].map(Slot);
        for enough in 1..=5 {
            let mut sorted = ends;
            sorted.sort_unstable();
            let end = sorted[5 - enough];
            for known in (0..10).map(Slot) {
                let news = (end > known).then_some(end);
                assert_eq!(reached(ends.into_iter(), enough, known), news);
            }
        }
    }
}
