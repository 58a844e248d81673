//! Members of an epoch by position, and sets of them.

use crate::epoch::Epoch;
use crate::wire::{Decoder, Encoder, Wire, WireError};
use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Index, IndexMut, Sub, SubAssign};

/// The position of a member among the members of its epoch, in the order of their ids, from 0. People
/// are shown positions from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemberIndex(u8);

impl MemberIndex {
    /// The member at a position below [`Epoch::MEMBERS_MAX`].
    #[must_use]
    pub const fn new(position: usize) -> MemberIndex {
        debug_assert!(position < Epoch::MEMBERS_MAX, "an epoch has fewer members");
        MemberIndex(position as u8)
    }

    /// The position, from 0.
    #[must_use]
    pub const fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for MemberIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.position() + 1)
    }
}

impl fmt::Debug for MemberIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A position is one byte.
impl Wire for MemberIndex {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let position = usize::from(input.u8()?);
        (position < Epoch::MEMBERS_MAX)
            .then(|| MemberIndex::new(position))
            .ok_or(WireError::Range("member"))
    }
}

/// Lists with an element for each member are indexed by member.
impl<T> Index<MemberIndex> for Vec<T> {
    type Output = T;

    fn index(&self, member: MemberIndex) -> &T {
        &self[member.position()]
    }
}

impl<T> IndexMut<MemberIndex> for Vec<T> {
    fn index_mut(&mut self, member: MemberIndex) -> &mut T {
        &mut self[member.position()]
    }
}

/// A set of members of one epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemberSet(u64);

impl MemberSet {
    /// The set without members.
    pub const EMPTY: MemberSet = MemberSet(0);

    /// The set whose members are the bits that are set, the lowest for position 0.
    #[must_use]
    pub const fn from_bits(bits: u64) -> MemberSet {
        MemberSet(bits)
    }

    /// The set as bits, the lowest for position 0.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of one member.
    #[must_use]
    pub const fn only(member: MemberIndex) -> MemberSet {
        MemberSet(1 << member.0)
    }

    /// The first `n` members: all members of an epoch with `n` of them.
    #[must_use]
    pub const fn first(n: usize) -> MemberSet {
        match n {
            0 => MemberSet::EMPTY,
            _ => MemberSet(u64::MAX >> (u64::BITS as usize - n)),
        }
    }

    /// Whether a member is in the set.
    #[must_use]
    pub const fn contains(self, member: MemberIndex) -> bool {
        self.0 & MemberSet::only(member).0 != 0
    }

    /// Adds a member. Says whether it was not in the set before.
    pub fn insert(&mut self, member: MemberIndex) -> bool {
        let is_new = !self.contains(member);
        self.0 |= MemberSet::only(member).0;
        is_new
    }

    /// Takes a member out. Says whether it was in the set.
    pub fn remove(&mut self, member: MemberIndex) -> bool {
        let was_there = self.contains(member);
        self.0 &= !MemberSet::only(member).0;
        was_there
    }

    /// Adds a member where a condition holds.
    pub fn insert_if(&mut self, member: MemberIndex, condition: bool) {
        self.0 |= u64::from(condition) << member.0;
    }

    /// How many members are in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no members.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set and another have a member in common.
    #[must_use]
    pub const fn intersects(self, other: MemberSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether every member of the set is in another.
    #[must_use]
    pub const fn is_subset(self, other: MemberSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// The members of either set.
    #[must_use]
    pub const fn union(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 | other.0)
    }

    /// Whether more than half of the `n` members of an epoch are in the set.
    #[must_use]
    pub const fn is_majority(self, n: usize) -> bool {
        self.len() > n / 2
    }

    /// The member with the lowest position.
    #[must_use]
    pub fn lowest(self) -> Option<MemberIndex> {
        self.iter().next()
    }

    /// The members in the order of their positions.
    pub fn iter(self) -> Members {
        Members(self.0)
    }
}

/// Shown as `[1 3]`: positions from 1.
impl fmt::Display for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (count, member) in self.iter().enumerate() {
            let space = if count > 0 { " " } else { "" };
            write!(f, "{space}{member}")?;
        }
        write!(f, "]")
    }
}

impl fmt::Debug for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The members of a set in the order of their positions.
#[derive(Clone, Debug)]
pub struct Members(u64);

impl Iterator for Members {
    type Item = MemberIndex;

    fn next(&mut self) -> Option<MemberIndex> {
        let position = self.0.trailing_zeros() as usize;
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            MemberIndex::new(position)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.0.count_ones() as usize;
        (count, Some(count))
    }
}

impl IntoIterator for MemberSet {
    type Item = MemberIndex;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        self.iter()
    }
}

impl FromIterator<MemberIndex> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberIndex>>(members: I) -> MemberSet {
        let members = members.into_iter();
        members.fold(MemberSet::EMPTY, |set, member| {
            set | MemberSet::only(member)
        })
    }
}

impl BitOr for MemberSet {
    type Output = MemberSet;

    /// The members of either set.
    fn bitor(self, other: MemberSet) -> MemberSet {
        self.union(other)
    }
}

impl BitOrAssign for MemberSet {
    fn bitor_assign(&mut self, other: MemberSet) {
        *self = *self | other;
    }
}

impl BitAnd for MemberSet {
    type Output = MemberSet;

    /// The members of both sets.
    fn bitand(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & other.0)
    }
}

impl BitAndAssign for MemberSet {
    fn bitand_assign(&mut self, other: MemberSet) {
        *self = *self & other;
    }
}

impl Sub for MemberSet {
    type Output = MemberSet;

    /// The members of the first set that are not in the second.
    fn sub(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & !other.0)
    }
}

impl SubAssign for MemberSet {
    fn sub_assign(&mut self, other: MemberSet) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_the_bits_that_are_set() {
        for bits in [0, 1, 0b1010_0110, u64::MAX, 1 << 63] {
            let set = MemberSet::from_bits(bits);
            let of_bits: Vec<usize> = (0..64).filter(|bit| bits & 1 << bit != 0).collect();
            let members: Vec<usize> = set.iter().map(MemberIndex::position).collect();
            assert_eq!(members, of_bits);
            assert_eq!((set.len(), set.is_empty()), (members.len(), bits == 0));
            assert_eq!(set.iter().collect::<MemberSet>(), set);
        }
        assert_eq!(MemberSet::from_bits(0b101).to_string(), "[1 3]");
    }

    #[test]
    fn sets_are_joined_cut_and_taken_from_each_other() {
        let [low, high] = [0b0011, 0b0110].map(MemberSet::from_bits);
        assert_eq!((low | high).bits(), 0b0111);
        assert_eq!((low & high).bits(), 0b0010);
        assert_eq!((low - high).bits(), 0b0001);
        assert!(low.intersects(high) && !low.is_subset(high) && (low & high).is_subset(high));
    }

    #[test]
    fn a_member_is_added_and_taken_out_once() {
        let (mut set, member) = (MemberSet::EMPTY, MemberIndex::new(63));
        assert_eq!((set.insert(member), set.insert(member)), (true, false));
        assert_eq!(set.lowest(), Some(member));
        assert_eq!((set.remove(member), set.remove(member)), (true, false));
        set.insert_if(member, false);
        assert!(set.is_empty());
    }

    #[test]
    fn a_majority_is_more_than_half() {
        for n in 1..=64 {
            assert_eq!(MemberSet::first(n).len(), n);
            for count in 0..=n {
                assert_eq!(
                    MemberSet::first(count).is_majority(n),
                    count >= crate::majority(n)
                );
            }
        }
    }

    #[test]
    fn a_position_that_no_epoch_has_is_refused() {
        let last = MemberIndex::new(63);
        assert_eq!(MemberIndex::from_bytes(last.to_bytes()).unwrap(), last);
        assert!(MemberIndex::from_bytes(bytes::Bytes::from_static(&[64])).is_err());
    }
}
