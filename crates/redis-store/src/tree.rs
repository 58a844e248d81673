//! A counted B-tree that is copied at no cost: what a copy shares is copied when it changes.
//!
//! It serves as a map (searched by key), as a list (by position), and as a ranking (both). Copies make snapshots,
//! commands that are taken back, and `COPY` of long values cheap.

use std::cmp::Ordering;
use std::sync::Arc;

/// Entries of a leaf and children of an inner node, at most.
const WIDTH_MAX: usize = 48;
/// A node that has fewer after a removal is joined with a neighbour.
const WIDTH_MIN: usize = 12;

/// A sequence of entries, by position and, if their keys ascend, by key.
#[derive(Clone, Debug)]
pub(crate) struct Tree<K, V> {
    root: Option<Arc<Node<K, V>>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Child<K, V>>),
}

#[derive(Clone, Debug)]
struct Child<K, V> {
    /// No key of this child is below it, and all keys of the children before it are. That of a first child says
    /// nothing.
    low: K,
    len: usize,
    node: Arc<Node<K, V>>,
}

/// A way to a place in a tree.
trait Seek<K>: Copy {
    /// The child that it leads into, and the way from there.
    fn child<V>(self, children: &[Child<K, V>]) -> (usize, Self);
    /// The entry of a leaf that it leads to, or where one would be inserted.
    fn slot<V>(self, leaf: &[(K, V)]) -> Result<usize, usize>;
}

/// To the entry at a position.
#[derive(Clone, Copy)]
struct At(usize);

/// To the gap before a position.
#[derive(Clone, Copy)]
struct Before(usize);

/// To the key that this function calls equal: it says where a key is as seen from the one that is sought.
#[derive(Clone, Copy)]
struct By<F>(F);

impl<K> Seek<K> for At {
    fn child<V>(self, children: &[Child<K, V>]) -> (usize, Self) {
        let mut left = self.0;
        for (at, child) in children[..children.len() - 1].iter().enumerate() {
            if left < child.len {
                return (at, At(left));
            }
            left -= child.len;
        }
        (children.len() - 1, At(left))
    }

    fn slot<V>(self, leaf: &[(K, V)]) -> Result<usize, usize> {
        match self.0 < leaf.len() {
            true => Ok(self.0),
            false => Err(leaf.len()),
        }
    }
}

impl<K> Seek<K> for Before {
    fn child<V>(self, children: &[Child<K, V>]) -> (usize, Self) {
        let (at, At(left)) = At(self.0).child(children);
        (at, Before(left))
    }

    fn slot<V>(self, leaf: &[(K, V)]) -> Result<usize, usize> {
        Err(self.0.min(leaf.len()))
    }
}

impl<K, F: Fn(&K) -> Ordering + Copy> Seek<K> for By<F> {
    fn child<V>(self, children: &[Child<K, V>]) -> (usize, Self) {
        let behind = children[1..].partition_point(|child| self.0(&child.low).is_le());
        (behind, self)
    }

    fn slot<V>(self, leaf: &[(K, V)]) -> Result<usize, usize> {
        leaf.binary_search_by(|(key, _)| self.0(key))
    }
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Tree { root: None, len: 0 }
    }
}

impl<K, V> Tree<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry whose key this function calls equal.
    pub(crate) fn get(&self, place_of: impl Fn(&K) -> Ordering + Copy) -> Option<&V> {
        self.entry(By(place_of)).map(|(_, value)| value)
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
        let (mut before, seek) = (0, By(place_of));
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

impl<K, V> Tree<K, V> {
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
fn shed_from<K, V>(node: &mut Node<K, V>) -> (Option<Vec<(K, V)>>, bool) {
    match node {
        Node::Leaf(entries) => (Some(std::mem::take(entries)), true),
        Node::Inner(children) => {
            let last = children.last_mut();
            let own = last.and_then(|last| Arc::get_mut(&mut last.node));
            let (leaf, is_empty) = own.map_or((None, true), shed_from);
            if is_empty {
                children.pop();
            }
            (leaf, children.is_empty())
        }
    }
}

impl<K: Clone, V: Clone> Tree<K, V> {
    /// The value whose key this function calls equal, to be changed.
    pub(crate) fn get_mut(&mut self, place_of: impl Fn(&K) -> Ordering + Copy) -> Option<&mut V> {
        self.entry_mut(By(place_of))
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
                    node = Arc::make_mut(&mut children[at].node);
                }
                Node::Leaf(slots) => {
                    let at = seek.slot(slots).ok()?;
                    return Some(&mut slots[at].1);
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
        self.insert_by(By(|key: &K| key.cmp(&sought)), key, value)
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
            .get_or_insert_with(|| Arc::new(Node::Leaf(Vec::new())));
        let low = key.clone();
        let (old, right) = insert_into(root, seek, key, value);
        self.len += usize::from(old.is_none());
        if let Some(right) = right {
            let left = Child {
                low,
                len: self.len - right.len,
                node: root.clone(),
            };
            *root = Arc::new(Node::Inner(vec![left, right]));
        }
        old
    }

    /// Takes out the entry whose key this function calls equal.
    pub(crate) fn remove(&mut self, place_of: impl Fn(&K) -> Ordering + Copy) -> Option<(K, V)> {
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

impl<K: Clone, V: Clone> Node<K, V> {
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

fn insert_into<K: Clone, V: Clone, S: Seek<K>>(
    node: &mut Arc<Node<K, V>>,
    seek: S,
    key: K,
    value: V,
) -> (Option<V>, Option<Child<K, V>>) {
    let node = Arc::make_mut(node);
    let (old, grown_at) = match node {
        Node::Leaf(slots) => match seek.slot(slots) {
            Ok(at) => return (Some(std::mem::replace(&mut slots[at].1, value)), None),
            Err(at) => {
                slots.insert(at, (key, value));
                (None, at)
            }
        },
        Node::Inner(children) => {
            let (at, next) = seek.child(children);
            let (old, right) = insert_into(&mut children[at].node, next, key, value);
            children[at].len += usize::from(old.is_none());
            let Some(right) = right else {
                return (old, None);
            };
            children[at].len -= right.len;
            children.insert(at + 1, right);
            // The first child may have grown at its front.
            (old, if at == 0 { 0 } else { at + 1 })
        }
    };
    (old, node.split_wide(grown_at))
}

fn remove_from<K: Clone, V: Clone>(node: &mut Arc<Node<K, V>>, seek: At) -> (K, V) {
    match Arc::make_mut(node) {
        Node::Leaf(slots) => slots.remove(seek.0),
        Node::Inner(children) => {
            let (at, next) = Seek::<K>::child(seek, children);
            let removed = remove_from(&mut children[at].node, next);
            children[at].len -= 1;
            if children[at].node.width() < WIDTH_MIN {
                join(children, at);
            }
            removed
        }
    }
}

/// Joins a narrow child with a neighbour, or takes entries from it.
fn join<K: Clone, V: Clone>(children: &mut Vec<Child<K, V>>, narrow: usize) {
    if children.len() == 1 {
        return;
    }
    let at = narrow.min(children.len() - 2);
    let right = children.remove(at + 1);
    let left = &mut children[at];
    left.len += right.len;
    let node = Arc::make_mut(&mut left.node);
    match (&mut *node, Arc::unwrap_or_clone(right.node)) {
        (Node::Leaf(slots), Node::Leaf(more)) => slots.extend(more),
        (Node::Inner(inner), Node::Inner(mut more)) => {
            more[0].low = right.low;
            inner.extend(more);
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
pub(crate) struct Iter<'a, K, V> {
    /// The nodes that lead to the next entry, and the place in each.
    path: Vec<(&'a Node<K, V>, usize)>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
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
