//! Ways to places in a tree: by position, by key, and by what says where a key is.

use super::Child;
use super::row::{Key, Row, SoughtKey};
use std::cmp::Ordering;

/// A way to a place in a tree.
pub(super) trait Seek<K: Key>: Copy {
    /// The child that it leads into, and the way from there.
    fn child<V>(self, children: &Row<Child<K, V>>) -> (usize, Self);
    /// The entry of a leaf that it leads to, or where one would be inserted.
    fn slot<V>(self, leaf: &Row<(K, V)>) -> Result<usize, usize>;
}

/// To the entry at a position.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) usize);

/// To the gap before a position.
#[derive(Clone, Copy)]
pub(super) struct Before(pub(super) usize);

/// To the key that this function calls equal: it says where a key is as seen from the one that is sought.
#[derive(Clone, Copy)]
pub(super) struct By<F>(pub(super) F);

/// To a key.
#[derive(Clone, Copy)]
pub(super) struct To<S>(pub(super) S);

impl<K: Key> Seek<K> for At {
    fn child<V>(self, children: &Row<Child<K, V>>) -> (usize, Self) {
        let mut left = self.0;
        for (at, child) in children[..children.len() - 1].iter().enumerate() {
            if left < child.len {
                return (at, At(left));
            }
            left -= child.len;
        }
        (children.len() - 1, At(left))
    }

    fn slot<V>(self, leaf: &Row<(K, V)>) -> Result<usize, usize> {
        match self.0 < leaf.len() {
            true => Ok(self.0),
            false => Err(leaf.len()),
        }
    }
}

impl<K: Key> Seek<K> for Before {
    fn child<V>(self, children: &Row<Child<K, V>>) -> (usize, Self) {
        let (at, At(left)) = At(self.0).child(children);
        (at, Before(left))
    }

    fn slot<V>(self, leaf: &Row<(K, V)>) -> Result<usize, usize> {
        Err(self.0.min(leaf.len()))
    }
}

impl<K: Key, S: SoughtKey<K>> Seek<K> for To<S> {
    fn child<V>(self, children: &Row<Child<K, V>>) -> (usize, Self) {
        (children.behind(1, self.0) - 1, self)
    }

    fn slot<V>(self, leaf: &Row<(K, V)>) -> Result<usize, usize> {
        leaf.find(self.0)
    }
}

impl<K: Key, F: Fn(&K) -> Ordering + Copy> Seek<K> for By<F> {
    fn child<V>(self, children: &Row<Child<K, V>>) -> (usize, Self) {
        let behind = children[1..].partition_point(|child| self.0(&child.low).is_le());
        (behind, self)
    }

    fn slot<V>(self, leaf: &Row<(K, V)>) -> Result<usize, usize> {
        leaf.binary_search_by(|(key, _)| self.0(key))
    }
}
