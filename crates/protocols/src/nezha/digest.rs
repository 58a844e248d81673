//! What conflicts with what, and digests of what comes before (paper, sections 7.1 and 7.2).

use super::buckets::Buckets;
use super::prf::Prf;
use quorate_core::{Decoder, Encoder, EntryId, Wire, WireError};
use std::sync::Arc;

/// A deadline and whose: compared like this everywhere, it is "the deadline order".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tup {
    /// In synchronised time, ns since the Unix epoch.
    pub deadline: u64,
    /// Of which entry.
    pub id: EntryId,
}

/// What an entry touches. Two conflict if they share a bucket, or either touches all.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Footprint {
    /// Everything there is.
    All,
    /// These buckets, ascending, and at least one.
    Buckets(Arc<[u32]>),
}

/// Buckets that one entry may touch without touching all.
pub const BUCKETS_MAX: usize = 1024;

impl Footprint {
    /// Of the buckets of an entry's commands; of many of them, all.
    #[must_use]
    pub fn of(mut buckets: Vec<u32>) -> Footprint {
        buckets.sort_unstable();
        buckets.dedup();
        match buckets.len() {
            1..=BUCKETS_MAX => Footprint::Buckets(buckets.into()),
            _ => Footprint::All,
        }
    }

    /// Whether the order of the two matters.
    #[must_use]
    pub fn conflicts(&self, other: &Footprint) -> bool {
        match (self, other) {
            (Footprint::Buckets(mine), Footprint::Buckets(its)) => {
                mine.iter().any(|bucket| its.binary_search(bucket).is_ok())
            }
            _ => true,
        }
    }
}

impl Wire for Footprint {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Footprint::All => out.varint(0),
            Footprint::Buckets(buckets) => {
                out.varint(buckets.len() as u64);
                buckets.iter().for_each(|bucket| out.u32(*bucket));
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(4)?;
        if count > BUCKETS_MAX {
            return Err(WireError::Range("buckets"));
        }
        if count == 0 {
            return Ok(Footprint::All);
        }
        let buckets: Result<Vec<u32>, _> = (0..count).map(|_| input.u32()).collect();
        let buckets = buckets?;
        if buckets.is_sorted_by(|one, next| one < next) {
            Ok(Footprint::Buckets(buckets.into()))
        } else {
            Err(WireError::Range("order of buckets"))
        }
    }
}

/// Sums of the hashes of the entries of a view, those still unsynced included: equal sums are equal
/// sets. Sums of several buckets are never added up: that would cancel what touches both.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sums {
    /// Of every entry, once.
    pub total: u128,
    /// Of those that touch all.
    pub all: u128,
    /// Of those that touch a bucket; only where that is not zero.
    pub buckets: Buckets<u128>,
}

impl Sums {
    pub(super) fn add(&mut self, footprint: &Footprint, hash: u128) {
        self.total = self.total.wrapping_add(hash);
        match footprint {
            Footprint::All => self.all = self.all.wrapping_add(hash),
            Footprint::Buckets(buckets) => {
                for bucket in buckets.iter() {
                    let sum = self.buckets.entry(*bucket);
                    *sum = sum.wrapping_add(hash);
                    if *sum == 0 {
                        self.buckets.remove(*bucket);
                    }
                }
            }
        }
    }

    pub(super) fn remove(&mut self, footprint: &Footprint, hash: u128) {
        self.add(footprint, hash.wrapping_neg());
    }

    /// The digest of a reply: everything that conflicts with the entry, itself included, under a view
    /// and a crash vector.
    pub(super) fn digest(&self, prf: &Prf, view: u64, cv: &[u64], footprint: &Footprint) -> u128 {
        let halves = |sum: u128| [sum as u64, (sum >> 64) as u64];
        let head = [REPLY, view, cv.len() as u64].into_iter();
        let head = head.chain(cv.iter().copied());
        match footprint {
            Footprint::All => prf.of(head.chain(halves(self.total))),
            Footprint::Buckets(buckets) => {
                let sums = buckets.iter().flat_map(|bucket| {
                    let sum = self.buckets.get(*bucket).unwrap_or_default();
                    halves((*bucket).into()).into_iter().chain(halves(sum))
                });
                prf.of(head.chain(halves(self.all)).chain(sums))
            }
        }
    }
}

impl Sums {
    /// What the technical report makes a digest of: one number for all buckets. A mutant uses it.
    pub(super) fn combined(&self, footprint: &Footprint) -> Sums {
        let Footprint::Buckets(buckets) = footprint else {
            return self.clone();
        };
        let sums = buckets
            .iter()
            .filter_map(|bucket| self.buckets.get(*bucket));
        let sum = sums.fold(0, |all, sum| all ^ sum);
        Sums {
            buckets: Buckets::from_iter([(buckets[0], sum)]),
            ..self.clone()
        }
    }
}

const ENTRY: u64 = 1;
const REPLY: u64 = 2;

/// The hash of an entry at its deadline. Its name stands for its content, which never changes.
pub(super) fn hash(prf: &Prf, tup: Tup) -> u128 {
    let EntryId { origin, boot, seq } = tup.id;
    prf.of([ENTRY, u64::from(origin.0), boot.0, seq, tup.deadline])
}

/// The largest deadlines taken so far: what is not above them is late.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Bounds {
    any: Tup,
    all: Tup,
    buckets: Buckets<Tup>,
}

impl Bounds {
    pub(super) fn raise(&mut self, footprint: &Footprint, tup: Tup) {
        self.any = self.any.max(tup);
        match footprint {
            Footprint::All => self.all = self.all.max(tup),
            Footprint::Buckets(buckets) => {
                for bucket in buckets.iter() {
                    let bound = self.buckets.entry(*bucket);
                    *bound = tup.max(*bound);
                }
            }
        }
    }

    /// What a deadline has to be above.
    pub(super) fn bound(&self, footprint: &Footprint) -> Tup {
        match footprint {
            Footprint::All => self.any,
            Footprint::Buckets(buckets) => {
                let of = |bucket: &u32| self.buckets.get(*bucket);
                buckets.iter().filter_map(of).fold(self.all, Tup::max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tup(deadline: u64) -> Tup {
        let id = EntryId {
            seq: deadline,
            ..EntryId::default()
        };
        Tup { deadline, id }
    }

    /// S2: what touches both of two buckets cancels in the sum of their XORs, as in the technical
    /// report; in the list of their sums it does not.
    #[test]
    fn what_touches_two_buckets_is_seen_in_the_digest_of_both() {
        let prf = Prf::new(1, 2);
        let both = Footprint::of(vec![3, 7]);
        let (first, second) = (hash(&prf, tup(10)), hash(&prf, tup(20)));
        let (mut with, mut without) = (Sums::default(), Sums::default());
        with.add(&both, first);
        for sums in [&mut with, &mut without] {
            sums.add(&both, second);
        }
        let sums_of = |sums: &Sums| sums.buckets.ascending().into_iter();
        let xor = |sums: &Sums| sums_of(sums).fold(0, |all, (_, sum)| all ^ sum);
        assert_eq!(xor(&with), xor(&without), "the flaw");
        let digest = |sums: &Sums| sums.digest(&prf, 1, &[0; 3], &both);
        assert_ne!(digest(&with), digest(&without));
        with.remove(&both, first);
        assert_eq!((digest(&with), &with), (digest(&without), &without));
    }

    #[test]
    fn a_digest_is_of_one_view_one_crash_vector_and_what_conflicts() {
        let prf = Prf::new(1, 2);
        let (x, y) = (Footprint::of(vec![1]), Footprint::of(vec![2]));
        let mut sums = Sums::default();
        sums.add(&x, hash(&prf, tup(10)));
        let before = sums.digest(&prf, 1, &[0; 3], &x);
        assert_ne!(before, sums.digest(&prf, 2, &[0; 3], &x));
        assert_ne!(before, sums.digest(&prf, 1, &[0, 1, 0], &x));
        sums.add(&y, hash(&prf, tup(20)));
        assert_eq!(before, sums.digest(&prf, 1, &[0; 3], &x));
        sums.add(&Footprint::All, hash(&prf, tup(30)));
        assert_ne!(before, sums.digest(&prf, 1, &[0; 3], &x));
    }

    #[test]
    fn a_deadline_has_to_be_above_those_that_conflict() {
        let mut bounds = Bounds::default();
        let (x, y) = (Footprint::of(vec![1]), Footprint::of(vec![2]));
        bounds.raise(&x, tup(10));
        assert_eq!(
            (bounds.bound(&x), bounds.bound(&y)),
            (tup(10), Tup::default())
        );
        assert_eq!(bounds.bound(&Footprint::All), tup(10));
        bounds.raise(&Footprint::All, tup(20));
        assert_eq!((bounds.bound(&x), bounds.bound(&y)), (tup(20), tup(20)));
    }
}
