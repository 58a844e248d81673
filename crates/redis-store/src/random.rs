//! Chance that every replica draws alike.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { seed, drawn: 0 }
    }

    /// A number below this one, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.drawn += 1;
        let number = xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.seed);
        ((u128::from(number) * end as u128) >> 64) as usize
    }

    /// As many different numbers below `end`, in the order in which they were drawn.
    pub(crate) fn distinct(&mut self, count: usize, end: usize) -> Vec<usize> {
        let mut swapped = std::collections::BTreeMap::new();
        let draws = (0..count.min(end)).map(|at| {
            let other = at + self.below(end - at);
            let drawn = swapped.get(&other).copied().unwrap_or(other);
            let here = swapped.get(&at).copied().unwrap_or(at);
            swapped.insert(other, here);
            drawn
        });
        draws.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_in_range() {
        let mut random = Random::new(7);
        for (count, end) in [(0, 0), (3, 3), (10, 1000), (9, 4)] {
            let mut drawn = random.distinct(count, end);
            assert!(drawn.iter().all(|number| *number < end));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count.min(end));
        }
    }
}
