//! A walk over all ordered pairs.

/// A closed walk from 0 over `count` places that goes from each to each other exactly once
/// (Hierholzer's algorithm): where it stands after every step.
pub(super) fn circuit(count: usize) -> Vec<usize> {
    let mut next = vec![0; count];
    let (mut path, mut walk) = (vec![0], Vec::new());
    while let Some(&at) = path.last() {
        next[at] += usize::from(next[at] == at);
        if next[at] < count {
            path.push(next[at]);
            next[at] += 1;
        } else {
            walk.extend(path.pop());
        }
    }
    walk.reverse();
    walk.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_ordered_pair_is_walked_once() {
        for count in 1..6 {
            let walk = circuit(count);
            assert_eq!(walk.len(), count * (count - 1));
            let from = std::iter::once(&0).chain(&walk);
            let pairs: BTreeSet<_> = from
                .zip(&walk)
                .filter(|(one, other)| one != other)
                .collect();
            assert_eq!(pairs.len(), walk.len());
            assert_eq!(walk.last().copied().unwrap_or(0), 0);
        }
    }
}
