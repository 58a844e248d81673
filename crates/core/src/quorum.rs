//! Quorum arithmetic shared by the protocols.

/// The smallest number of replicas of which any two sets intersect: `floor(n/2) + 1`.
#[must_use]
pub fn majority(n: usize) -> usize {
    n / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::majority;

    #[test]
    fn any_two_majorities_intersect_and_none_is_larger_than_needed() {
        for n in 1..=64 {
            assert!(2 * majority(n) > n);
            assert!(2 * (majority(n) - 1) <= n);
        }
    }
}
