//! Which of many keys a request is about.

/// How keys are chosen.
#[derive(Debug, Clone)]
pub enum Keys {
    /// Each as often as any other.
    Even(u64),
    /// The first most often: how often one of the first `i + 1` is chosen, of all.
    Skewed(Vec<f64>),
}

impl Keys {
    /// A choice among `count` keys; with a skew, the `i`-th is chosen as often as `1 / i^skew` of all such shares says
    /// (Zipf's law).
    #[must_use]
    pub fn new(count: u64, skew: f64) -> Keys {
        if skew == 0.0 {
            return Keys::Even(count);
        }
        let shares = (1..=count).map(|rank| (rank as f64).powf(-skew));
        let mut below: Vec<f64> = shares
            .scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .collect();
        let all = below.last().copied().unwrap_or(1.0);
        below.iter_mut().for_each(|share| *share /= all);
        Keys::Skewed(below)
    }

    /// One of them.
    pub fn choose(&self, random: &mut fastrand::Rng) -> u64 {
        match self {
            Keys::Even(count) => random.u64(..*count),
            Keys::Skewed(below) => {
                let drawn = random.f64();
                let index = below.partition_point(|share| *share <= drawn);
                index.min(below.len() - 1) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_key_is_chosen_half_as_often_as_the_first() {
        let keys = Keys::new(100, 1.0);
        let mut random = fastrand::Rng::with_seed(1);
        let mut chosen = [0u32; 100];
        (0..100_000).for_each(|_| chosen[keys.choose(&mut random) as usize] += 1);
        let ratio = f64::from(chosen[0]) / f64::from(chosen[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        assert!(chosen.iter().all(|count| *count > 0));
    }

    #[test]
    fn without_a_skew_all_are_chosen_alike() {
        let keys = Keys::new(10, 0.0);
        let mut random = fastrand::Rng::with_seed(2);
        let mut chosen = [0u32; 10];
        (0..100_000).for_each(|_| chosen[keys.choose(&mut random) as usize] += 1);
        assert!(chosen.iter().all(|count| (9_000..11_000).contains(count)));
    }
}
