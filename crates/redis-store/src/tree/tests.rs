//! Trees against the collections of the standard library.

use super::*;
use fastrand::Rng;
use std::collections::BTreeMap;

/// Four keys have the same digest.
impl Key for u32 {
    type Digest = u32;

    fn digest(&self) -> u32 {
        self / 4
    }
}

/// Scenario: random changes to a tree and to what it should be equal to, with copies taken on the way that must
/// stay as they were.
#[test]
fn a_tree_is_a_map_and_its_copies_stay() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let mut tree = Tree::default();
        let mut map = BTreeMap::new();
        let mut copies = Vec::new();
        let keys = 1 << rng.u32(3..11);
        for step in 0..4000_u32 {
            let key = rng.u32(..keys);
            match rng.u8(..5) {
                0..3 if step % 1000 < 700 => {
                    assert_eq!(tree.insert(key, step), map.insert(key, step));
                }
                3 => {
                    let value = tree.get_mut(&key);
                    assert_eq!(value.is_some(), map.contains_key(&key));
                    if let Some(value) = value {
                        *value += 1;
                        *map.get_mut(&key).unwrap() += 1;
                    }
                }
                _ => {
                    let removed = tree.remove(&key).map(|(_, value)| value);
                    assert_eq!(removed, map.remove(&key));
                }
            }
            if step % 500 == 0 {
                copies.push((tree.clone(), map.clone()));
            }
            assert_eq!(tree.get(&key), map.get(&key));
            let less = map.range(..key).count();
            assert_eq!(tree.count_less(|k: &u32| k.cmp(&key)), less);
            assert_eq!(
                tree.rank(|k: &u32| k.cmp(&key)).is_ok(),
                map.contains_key(&key)
            );
        }
        copies.push((tree, map));
        for (tree, map) in copies {
            assert_eq!(tree.len(), map.len());
            assert!(tree.iter().eq(map.iter()), "seed {seed}");
            assert!(tree.iter_back(tree.len()).eq(map.iter().rev()));
            let from = rng.usize(..=map.len());
            assert!(tree.iter_from(from).eq(map.iter().skip(from)));
        }
    }
}

#[test]
fn a_tree_is_a_list() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let (mut tree, mut list) = (Tree::default(), Vec::new());
        for value in 0..3000_u32 {
            let at = match seed % 4 {
                0 => 0,
                1 => list.len(),
                _ => rng.usize(..=list.len()),
            };
            if rng.u8(..4) > 0 {
                tree.insert_at(at, (), value);
                list.insert(at, value);
            } else if at < list.len() {
                assert_eq!(tree.remove_at(at), Some(((), list.remove(at))));
            }
        }
        assert!(tree.iter().map(|(_, value)| value).eq(&list));
        let (from, to) = (list.len() / 3, list.len() / 2);
        tree.remove_range(from..to);
        list.drain(from..to);
        assert!(tree.iter().map(|(_, value)| value).eq(&list), "seed {seed}");
    }
}
