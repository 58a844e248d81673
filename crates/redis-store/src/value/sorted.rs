//! Sorted sets: members by name, and by score.

use crate::text::{Name, Sought, Text};
use crate::tree::{Key, Tree};
use std::cmp::Ordering;

/// Members of a sorted set that counts as small, at most.
const SMALL_MAX: usize = 128;
/// Bytes of a member of a sorted set that counts as small, at most.
const SMALL_MEMBER_BYTES_MAX: usize = 64;

/// Members, each with a score.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    scores: Tree<Name, f64>,
    ranking: Tree<Ranked, ()>,
    /// Whether it once held more, or longer members, than a small one.
    pub(crate) is_large: bool,
}

/// A member and its score, which comes first in their order.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) score: f64,
    pub(crate) member: Text,
}

impl Ranked {
    /// Where this is as seen from a score and a member.
    pub(crate) fn place(&self, score: f64, member: &[u8]) -> Ordering {
        let by_score = self.score.partial_cmp(&score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| (*self.member).cmp(member))
    }
}

impl Key for Ranked {
    type Digest = ();

    fn digest(&self) {}
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place(other.score, &other.member)
    }
}

impl Sorted {
    /// Takes the last leaf off one of the trees of a set that nobody looks at any more. Whether there was one.
    pub(crate) fn shed(&mut self) -> bool {
        self.scores.shed().is_some() || self.ranking.shed().is_some()
    }

    /// One without members that counts as large.
    pub(crate) fn large() -> Self {
        Sorted {
            is_large: true,
            ..Sorted::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ranking.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        let sought = Sought::new(member);
        self.scores.get(sought).copied()
    }

    /// Gives a member a score, which is a number. The one it had.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let name = Name::new(member);
        let member = name.text().clone();
        self.is_large |= member.len() > SMALL_MEMBER_BYTES_MAX;
        let before = self.scores.insert(name, score);
        if let Some(before) = before {
            self.ranking
                .remove_by(|ranked| ranked.place(before, &member));
        }
        self.ranking.insert(Ranked { score, member }, ());
        self.is_large |= self.len() > SMALL_MAX;
        before
    }

    /// The score that a member is given for this one: a small sorted set has no negative zero.
    pub(crate) fn kept(&self, score: f64) -> f64 {
        match self.is_large {
            true => score,
            false => score + 0.0,
        }
    }

    /// Makes negative zeros positive if it is small.
    pub(crate) fn drop_signs(&mut self) {
        let zeros = self.count_less(|ranked| ranked.score.total_cmp(&-0.0));
        let zeros = self
            .iter_from(zeros)
            .take_while(|ranked| ranked.score == 0.0);
        let negative = zeros.filter(|ranked| ranked.score.is_sign_negative());
        let negative: Vec<Text> = negative.map(|ranked| ranked.member.clone()).collect();
        for member in negative {
            self.set(&member, self.kept(-0.0));
        }
    }

    /// Takes a member out. The score it had.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let sought = Sought::new(member);
        let (_, score) = self.scores.remove(sought)?;
        self.ranking.remove_by(|ranked| ranked.place(score, member));
        Some(score)
    }

    /// Takes out the member at a position of the ranking.
    pub(crate) fn remove_at(&mut self, rank: usize) -> Option<Ranked> {
        let (ranked, ()) = self.ranking.remove_at(rank)?;
        let sought = Sought::new(&ranked.member);
        self.scores.remove(sought);
        Some(ranked)
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        self.ranking.rank(|ranked| ranked.place(score, member)).ok()
    }

    pub(crate) fn at(&self, rank: usize) -> Option<&Ranked> {
        self.ranking.at(rank).map(|(ranked, ())| ranked)
    }

    /// The number of members that this function calls less; it ascends along the ranking.
    pub(crate) fn count_less(&self, place_of: impl Fn(&Ranked) -> Ordering + Copy) -> usize {
        self.ranking.count_less(place_of)
    }

    /// The members in the order of their scores, from a position on.
    pub(crate) fn iter_from(&self, rank: usize) -> impl Iterator<Item = &Ranked> {
        self.ranking.iter_from(rank).map(|(ranked, ())| ranked)
    }

    /// The members before a position, from the highest on.
    pub(crate) fn iter_back(&self, end: usize) -> impl Iterator<Item = &Ranked> {
        self.ranking.iter_back(end).map(|(ranked, ())| ranked)
    }

    /// The members in the order of their hashes, from a position on.
    pub(crate) fn names_from(&self, rank: usize) -> impl Iterator<Item = (&Name, f64)> {
        self.scores
            .iter_from(rank)
            .map(|(name, score)| (name, *score))
    }

    /// The number of members whose hash is less.
    pub(crate) fn names_before(&self, hash: u64) -> usize {
        self.scores.count_less(|name| name.hash().cmp(&hash))
    }
}
