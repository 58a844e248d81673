//! Something for each bucket that was touched.
#![expect(
    clippy::disallowed_types,
    reason = "its hash is the same in every process, and nobody sees its order"
)]

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// By bucket. There may be tens of thousands, and every command looks at its own; in what order they are kept
/// nobody sees. The hash is the same on every replica and in every run, and no 32-bit numbers make it slow that
/// anybody could name: of all there are, a few hundred share a place.
#[derive(Clone, PartialEq, Eq)]
pub struct Buckets<T: Eq>(HashMap<u32, T, BuildHasherDefault<DefaultHasher>>);

impl<T: Eq> Default for Buckets<T> {
    fn default() -> Self {
        Buckets(HashMap::default())
    }
}

impl<T: Eq + Copy + Default> Buckets<T> {
    /// What there is of a bucket.
    pub(super) fn get(&self, bucket: u32) -> Option<T> {
        self.0.get(&bucket).copied()
    }

    /// What there is of a bucket, to be changed.
    pub(super) fn entry(&mut self, bucket: u32) -> &mut T {
        self.0.entry(bucket).or_default()
    }

    pub(super) fn remove(&mut self, bucket: u32) {
        self.0.remove(&bucket);
    }

    /// All there is, by bucket.
    pub(super) fn ascending(&self) -> Vec<(u32, T)> {
        let mut all: Vec<(u32, T)> = self.0.iter().map(|(bucket, it)| (*bucket, *it)).collect();
        all.sort_unstable_by_key(|(bucket, _)| *bucket);
        all
    }
}

impl<T: Eq + Copy + Default> FromIterator<(u32, T)> for Buckets<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(all: I) -> Self {
        Buckets(all.into_iter().collect())
    }
}

impl<T: Eq + Copy + Default + fmt::Debug> fmt::Debug for Buckets<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_map().entries(self.ascending()).finish()
    }
}

impl<T: Eq + Copy + Default + Hash> Hash for Buckets<T> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.ascending().hash(to);
    }
}
