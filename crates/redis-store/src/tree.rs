//! A counted B-tree that is copied at no cost: what a copy shares is copied when it changes.
//!
//! It serves as a map (searched by key), as a list (by position), and as a ranking (both). Copies make snapshots,
//! commands that are taken back, and `COPY` of long values cheap.

mod row;
mod seek;

pub(crate) use row::{Key, SoughtKey};

use row::{Keyed, Row};
use seek::{At, Before, By, Seek, To};
use std::cmp::Ordering;
use std::sync::Arc;

/// Entries of a leaf and children of an inner node, at most.
const WIDTH_MAX: usize = 48;
/// A node that has fewer after a removal is joined with a neighbour.
const WIDTH_MIN: usize = 12;

/// A sequence of entries, by position and, if their keys ascend, by key.
#[derive(Clone, Debug)]
pub(crate) struct Tree<K: Key, V> {
    root: Option<Arc<Node<K, V>>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<K: Key, V> {
    Leaf(Row<(K, V)>),
    Inner(Row<Child<K, V>>),
}

#[derive(Clone, Debug)]
struct Child<K: Key, V> {
    /// No key of this child is below it, and all keys of the children before it are. That of a first child says
    /// nothing.
    low: K,
    len: usize,
    node: Arc<Node<K, V>>,
}

impl<K: Key, V> Keyed for (K, V) {
    type Key = K;

    fn key(&self) -> &K {
        &self.0
    }
}

impl<K: Key, V> Keyed for Child<K, V> {
    type Key = K;

    fn key(&self) -> &K {
        &self.low
    }
}

impl<K: Key, V> Default for Tree<K, V> {
    fn default() -> Self {
        Tree { root: None, len: 0 }
    }
}

impl<K: Key, V> Tree<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: impl SoughtKey<K>) -> Option<&V> {
        self.entry(To(key)).map(|(_, value)| value)
    }

    /// The entry at a position.
    pub(crate) fn at(&self, rank: usize) -> Option<(&K, &V)> {
        self.entry(At(rank))
    }

    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        self.at(0)
    }

    fn entry<S: Seek<K>>(&self, mut seek: S) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => {
                    let (at, next) = seek.child(children);
                    (node, seek) = (&children[at].node, next);
                }
                Node::Leaf(slots) => {
                    let (key, value) = &slots[seek.slot(slots).ok()?];
                    return Some((key, value));
                }
            }
        }
    }

    /// The position of the key that this function calls equal, or the one that it would have.
    pub(crate) fn rank(&self, place_of: impl Fn(&K) -> Ordering + Copy) -> Result<usize, usize> {
        self.rank_of(By(place_of))
    }

    fn rank_of<S: Seek<K>>(&self, seek: S) -> Result<usize, usize> {
        let mut before = 0;
        let mut node = self.root.as_deref().ok_or(0_usize)?;
        loop {
            match node {
                Node::Inner(children) => {
                    let (at, _) = seek.child(children);
                    before += children[..at].iter().map(|child| child.len).sum::<usize>();
                    node = &children[at].node;
                }
                Node::Leaf(slots) => {
                    let slot = seek.slot(slots);
                    return slot.map(|at| before + at).map_err(|at| before + at);
                }
            }
        }
    }

    /// The number of keys that this function, which ascends, calls less.
    pub(crate) fn count_less(&self, place_of: impl Fn(&K) -> Ordering + Copy) -> usize {
        // Nothing is equal: the place found is the one behind all that is less.
        let strictly = |key: &K| match place_of(key) {
            Ordering::Less => Ordering::Less,
            _ => Ordering::Greater,
        };
        self.rank(strictly).unwrap_or_else(|at| at)
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        self.iter_from(0)
    }

    /// The entries from a position on, in order.
    pub(crate) fn iter_from(&self, rank: usize) -> Iter<'_, K, V> {
        let mut path = Vec::new();
        let mut seek = At(rank);
        let mut next = self.root.as_deref().filter(|_| rank < self.len);
        while let Some(node) = next {
            let at = match node {
                Node::Leaf(_) => {
                    next = None;
                    seek.0
                }
                Node::Inner(children) => {
                    let at;
                    (at, seek) = seek.child(children);
                    next = Some(&children[at].node);
                    at
                }
            };
            path.push((node, at));
        }
        Iter { path }
    }

    /// The entries before a position, backwards.
    pub(crate) fn iter_back(&self, end: usize) -> impl Iterator<Item = (&K, &V)> {
        let ranks = (0..end.min(self.len)).rev();
        ranks.filter_map(|rank| self.at(rank))
    }
}

impl<K: Key, V> Tree<K, V> {
    /// Takes the last leaf off a tree that nobody looks at any more; `None` if there is none left that is not also
    /// another tree's. Its length is no longer right then.
    pub(crate) fn shed(&mut self) -> Option<Vec<(K, V)>> {
        loop {
            let root = Arc::get_mut(self.root.as_mut()?);
            let (leaf, is_empty) = root.map_or((None, true), shed_from);
            if is_empty {
                self.root = None;
            }
            if leaf.is_some() {
                return leaf;
            }
        }
    }
}

/// Takes the last leaf off a node, with what is shared behind it. Whether the node is empty then.
fn shed_from<K: Key, V>(node: &mut Node<K, V>) -> (Option<Vec<(K, V)>>, bool) {
    match node {
        Node::Leaf(entries) => (Some(entries.take_items()), true),
        Node::Inner(children) => {
            let last = children.items_mut().last_mut();
            let own = last.and_then(|last| Arc::get_mut(&mut last.node));
            let (leaf, is_empty) = own.map_or((None, true), shed_from);
            if is_empty {
                children.remove(children.len() - 1);
            }
            (leaf, children.is_empty())
        }
    }
}

impl<K: Key, V: Clone> Tree<K, V> {
    /// The value of a key, to be changed.
    pub(crate) fn get_mut(&mut self, key: impl SoughtKey<K>) -> Option<&mut V> {
        self.entry_mut(To(key))
    }

    /// The value at a position, to be changed.
    pub(crate) fn at_mut(&mut self, rank: usize) -> Option<&mut V> {
        self.entry_mut(At(rank))
    }

    fn entry_mut<S: Seek<K>>(&mut self, mut seek: S) -> Option<&mut V> {
        let mut node = Arc::make_mut(self.root.as_mut()?);
        loop {
            match node {
                Node::Inner(children) => {
                    let (at, next) = seek.child(children);
                    seek = next;
                    node = Arc::make_mut(&mut children.items_mut()[at].node);
                }
                Node::Leaf(slots) => {
                    let at = seek.slot(slots).ok()?;
                    return Some(&mut slots.items_mut()[at].1);
                }
            }
        }
    }

    /// Adds an entry to a tree whose keys ascend, and gives the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V>
    where
        K: Ord,
    {
        let sought = key.clone();
        self.insert_by(To(&sought), key, value)
    }

    /// Adds an entry before a position.
    pub(crate) fn insert_at(&mut self, rank: usize, key: K, value: V) {
        self.insert_by(Before(rank), key, value);
    }

    /// Adds an entry at the end.
    pub(crate) fn push(&mut self, key: K, value: V) {
        self.insert_at(self.len, key, value);
    }

    fn insert_by<S: Seek<K>>(&mut self, seek: S, key: K, value: V) -> Option<V> {
        let root = self
            .root
            .get_or_insert_with(|| Arc::new(Node::Leaf(Row::default())));
        let low = key.clone();
        let (old, right) = insert_into(root, seek, key, value);
        self.len += usize::from(old.is_none());
        if let Some(right) = right {
            let left = Child {
                low,
                len: self.len - right.len,
                node: root.clone(),
            };
            let mut both = Row::default();
            both.push(left);
            both.push(right);
            *root = Arc::new(Node::Inner(both));
        }
        old
    }

    /// Takes out the entry of a key.
    pub(crate) fn remove(&mut self, key: impl SoughtKey<K>) -> Option<(K, V)> {
        let rank = self.rank_of(To(key)).ok()?;
        self.remove_at(rank)
    }

    /// Takes out the entry whose key this function calls equal.
    pub(crate) fn remove_by(&mut self, place_of: impl Fn(&K) -> Ordering + Copy) -> Option<(K, V)> {
        let rank = self.rank(place_of).ok()?;
        self.remove_at(rank)
    }

    /// Takes out the entry at a position.
    pub(crate) fn remove_at(&mut self, rank: usize) -> Option<(K, V)> {
        if rank >= self.len {
            return None;
        }
        let root = self.root.as_mut()?;
        let removed = remove_from(root, At(rank));
        self.len -= 1;
        let only = match &**root {
            Node::Inner(children) if children.len() == 1 => Some(children[0].node.clone()),
            _ => None,
        };
        match only {
            _ if self.len == 0 => self.root = None,
            Some(only) => self.root = Some(only),
            None => {}
        }
        Some(removed)
    }

    /// Takes out the entries in a range of positions.
    pub(crate) fn remove_range(&mut self, range: std::ops::Range<usize>) {
        for _ in range.clone() {
            self.remove_at(range.start);
        }
    }
}

impl<K: Key, V: Clone> Node<K, V> {
    fn width(&self) -> usize {
        match self {
            Node::Leaf(slots) => slots.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// Takes everything from this place on to a node of its own.
    fn split(&mut self, at: usize) -> Child<K, V> {
        match self {
            Node::Leaf(slots) => {
                let right = slots.split_off(at);
                Child {
                    low: right[0].0.clone(),
                    len: right.len(),
                    node: Arc::new(Node::Leaf(right)),
                }
            }
            Node::Inner(children) => {
                let right = children.split_off(at);
                Child {
                    low: right[0].low.clone(),
                    len: right.iter().map(|child| child.len).sum(),
                    node: Arc::new(Node::Inner(right)),
                }
            }
        }
    }

    /// Splits a node that has become too wide by an entry at this place. What grows at an end leaves full nodes
    /// behind it.
    fn split_wide(&mut self, grown_at: usize) -> Option<Child<K, V>> {
        let width = self.width();
        if width <= WIDTH_MAX {
            return None;
        }
        let at = match grown_at {
            0 => 1,
            at if at + 1 == width => at,
            _ => width / 2,
        };
        Some(self.split(at))
    }
}

fn insert_into<K: Key, V: Clone, S: Seek<K>>(
    node: &mut Arc<Node<K, V>>,
    seek: S,
    key: K,
    value: V,
) -> (Option<V>, Option<Child<K, V>>) {
    let node = Arc::make_mut(node);
    let (old, grown_at) = match node {
        Node::Leaf(slots) => match seek.slot(slots) {
            Ok(at) => {
                let slot = &mut slots.items_mut()[at];
                return (Some(std::mem::replace(&mut slot.1, value)), None);
            }
            Err(at) => {
                slots.insert(at, (key, value));
                (None, at)
            }
        },
        Node::Inner(children) => {
            let (at, next) = seek.child(children);
            let child = &mut children.items_mut()[at];
            let (old, right) = insert_into(&mut child.node, next, key, value);
            child.len += usize::from(old.is_none());
            let Some(right) = right else {
                return (old, None);
            };
            child.len -= right.len;
            children.insert(at + 1, right);
            // The first child may have grown at its front.
            (old, if at == 0 { 0 } else { at + 1 })
        }
    };
    (old, node.split_wide(grown_at))
}

fn remove_from<K: Key, V: Clone>(node: &mut Arc<Node<K, V>>, seek: At) -> (K, V) {
    match Arc::make_mut(node) {
        Node::Leaf(slots) => slots.remove(seek.0),
        Node::Inner(children) => {
            let (at, next) = Seek::<K>::child(seek, children);
            let child = &mut children.items_mut()[at];
            let removed = remove_from(&mut child.node, next);
            child.len -= 1;
            if child.node.width() < WIDTH_MIN {
                join(children, at);
            }
            removed
        }
    }
}

/// Joins a narrow child with a neighbour, or takes entries from it.
fn join<K: Key, V: Clone>(children: &mut Row<Child<K, V>>, narrow: usize) {
    if children.len() == 1 {
        return;
    }
    let at = narrow.min(children.len() - 2);
    let right = children.remove(at + 1);
    let left = &mut children.items_mut()[at];
    left.len += right.len;
    let node = Arc::make_mut(&mut left.node);
    match (&mut *node, Arc::unwrap_or_clone(right.node)) {
        (Node::Leaf(slots), Node::Leaf(more)) => slots.append(more),
        (Node::Inner(inner), Node::Inner(mut more)) => {
            more.change(0, |first| first.low = right.low);
            inner.append(more);
        }
        _ => unreachable!("all leaves are equally deep"),
    }
    if node.width() > WIDTH_MAX {
        let right = node.split(node.width() / 2);
        left.len -= right.len;
        children.insert(at + 1, right);
    }
}

/// Entries of a tree, in order.
pub(crate) struct Iter<'a, K: Key, V> {
    /// The nodes that lead to the next entry, and the place in each.
    path: Vec<(&'a Node<K, V>, usize)>,
}

impl<'a, K: Key, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (node, at) = self.path.last_mut()?;
            match node {
                Node::Leaf(slots) => {
                    if let Some((key, value)) = slots.get(*at) {
                        *at += 1;
                        return Some((key, value));
                    }
                    self.path.pop();
                    if let Some((_, at)) = self.path.last_mut() {
                        *at += 1;
                    }
                }
                Node::Inner(children) => match children.get(*at) {
                    Some(child) => {
                        self.path.push((&child.node, 0));
                    }
                    None => {
                        self.path.pop();
                        if let Some((_, at)) = self.path.last_mut() {
                            *at += 1;
                        }
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
