//! The present life of each member's promises (crash vectors: Michael et al.,
//! *Recovering Shared Objects Without Stable Storage*, DISC'17).
//!
//! A member that loses its promises begins a new life. What it promised and accepted before is
//! worth nothing once a later life may contradict it; so whoever counts promises or accepts does
//! not count those of a life that is over, as far as any of the counted ones knows.

use quorate_core::{Boot, Decoder, Encoder, Epoch, MemberIndex, MemberSet, Wire, WireError};
use std::fmt::Write;

/// One life of a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Life {
    /// Counts the lives of the member that had begun; 0 is the first.
    pub number: u64,
    /// The start of the process that began it: two that chose the same number are told apart.
    pub boot: Boot,
}

impl Life {
    /// The number of a life that follows. Numbers come from peers, too: the last has no successor, and
    /// whoever is told of it stays out.
    #[must_use]
    pub fn next_number(self) -> u64 {
        self.number.saturating_add(1)
    }
}

/// The present life of each member, as far as known; first lives at the end are left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lives(Vec<Life>);

impl Lives {
    /// The life of a member.
    #[must_use]
    pub fn of(&self, member: MemberIndex) -> Life {
        self.0.get(member.position()).copied().unwrap_or_default()
    }

    /// Formats the lives that are not the first, for people: each after a comma.
    pub(crate) fn describe_later(&self) -> String {
        let members = MemberSet::first(Epoch::MEMBERS_MAX).iter();
        let lives = members.map(|member| (member, self.of(member).number));
        let later = lives.filter(|(_, number)| *number > 0);
        later.fold(String::new(), |mut said, (member, number)| {
            let _ = write!(said, ", {member} in life {number}");
            said
        })
    }

    /// Notes a later life of a member. Says whether it is one.
    pub(crate) fn note(&mut self, member: MemberIndex, life: Life) -> bool {
        let is_later = life.number > self.of(member).number;
        if is_later {
            if self.0.len() <= member.position() {
                self.0.resize(member.position() + 1, Life::default());
            }
            self.0[member] = life;
        }
        is_later
    }

    /// Notes the later lives that another knows of `members` members. Gives the members that have one.
    pub(crate) fn merge(&mut self, other: &Lives, members: usize) -> MemberSet {
        let known = MemberSet::first(other.0.len().min(members));
        let is_news = |member: &MemberIndex| self.note(*member, other.of(*member));
        known.iter().filter(is_news).collect()
    }
}

impl Wire for Life {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.number);
        out.u64(self.boot.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Life {
            number: input.varint()?,
            boot: Boot(input.u64()?),
        })
    }
}

impl Wire for Lives {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.0.len() as u64);
        self.0.iter().for_each(|life| life.encode(out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(LIFE_BYTES_MIN)?;
        if count > Epoch::MEMBERS_MAX {
            return Err(WireError::Range("lives"));
        }
        let lives = (0..count).map(|_| Life::decode(input));
        lives.collect::<Result<_, _>>().map(Lives)
    }
}

const LIFE_BYTES_MIN: usize = 9;
