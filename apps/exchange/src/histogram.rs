//! Counts of durations, within three percent of each.

/// How many buckets there are for each power of two.
const PARTS: u64 = 32;
/// The bits of a place among these buckets.
const PART_BITS: u32 = PARTS.ilog2();

/// Durations, counted by size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// How many durations were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The duration, in ns, that so many of a thousand have at most; 0 where there are none.
    #[must_use]
    pub fn per_mille(&self, per_mille: u64) -> u64 {
        let wanted = (self.total * per_mille.min(1000)).div_ceil(1000).max(1);
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted {
                return highest(at);
            }
        }
        0
    }

    /// Counts what another histogram has counted.
    pub fn add(&mut self, other: &Histogram) {
        let buckets = self.counts.len().max(other.counts.len());
        self.counts.resize(buckets, 0);
        for (ours, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *ours += theirs;
        }
        self.total += other.total;
    }
}

fn bucket(ns: u64) -> usize {
    let place = match ns.checked_ilog2() {
        Some(power) if power >= PART_BITS => {
            let shift = power - PART_BITS;
            u64::from(shift + 1) * PARTS + (ns >> shift) % PARTS
        }
        _ => ns,
    };
    place as usize
}

/// The longest duration of a bucket.
fn highest(bucket: usize) -> u64 {
    let (group, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    match group.checked_sub(1) {
        None => part,
        Some(shift) => {
            let above = (u128::from(PARTS + part) + 1) << shift;
            u64::try_from(above - 1).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_is_hardly_longer() {
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn = (0..2000).map(|_| rng.u64(..) >> rng.u32(0..64));
        for ns in (0..5000).chain(drawn) {
            let at = highest(bucket(ns));
            assert!(at >= ns && at - ns <= ns / PARTS, "{ns}: {at}");
        }
        assert!((0..5000).map(bucket).is_sorted());
        assert_eq!(highest(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn shares_are_of_all_that_was_counted() {
        let mut one = Histogram::default();
        assert_eq!(one.per_mille(500), 0);
        (1..=10).for_each(|ns| one.record(ns));
        let mut other = Histogram::default();
        (11..=20).for_each(|ns| other.record(ns));
        one.add(&other);
        let shares = [0, 500, 950, 1000].map(|share| one.per_mille(share));
        assert_eq!((shares, one.total()), ([1, 10, 19, 20], 20));
    }
}
