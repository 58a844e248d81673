//! The leader as far as a replica knows it, and what the replica knows of who else would lead.
//!
//! Shared by the protocols in which one replica leads at a time. `B` is what tells one leadership from
//! another: a ballot, or a term.

use quorate_core::MemberIndex;

/// Whether there seems to be a leader. Decays with the election timer, so that its last sign of
/// life is one to two timeouts old when it is given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Trust {
    /// None is known.
    #[default]
    None,
    /// The last sign of life was before the last timeout.
    Stale,
    /// There was a sign of life since the last timeout.
    Fresh,
}

/// The leader as far as this replica knows it.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(crate) struct Leadership<B> {
    /// Whether there seems to be a leader, or somebody becoming one.
    pub(crate) trust: Trust,
    /// Who takes entries: the leader that was heard last, unless given up, or who hears it.
    pub(crate) leader: Option<MemberIndex>,
    /// The leader's ballot.
    pub(crate) ballot: B,
    /// The highest round heard of.
    pub(crate) round_seen: u64,
    /// Counts own campaigns, to tell their answers apart.
    pub(crate) campaign: u64,
    /// A peer waits for a leader.
    pub(crate) is_wanted: bool,
    /// The member that the group prefers as its leader, until it leads or an election timer comes due. A leader
    /// orders nothing new meanwhile, and others would vote for that member though they hear of a leader.
    pub(crate) preferred: Option<MemberIndex>,
}

impl<B: Copy + PartialEq> Leadership<B> {
    /// Whether a leader is known that may still be alive.
    pub(crate) fn is_led(&self) -> bool {
        self.leader.is_some() && self.trust != Trust::None
    }

    /// The leader of a ballot gave a sign of life. Says whether that is news.
    pub(crate) fn follow(&mut self, leader: MemberIndex, ballot: B) -> bool {
        let is_new = self.leader != Some(leader) || self.ballot != ballot;
        self.preferred.take_if(|member| *member == leader);
        self.trust = Trust::Fresh;
        self.is_wanted = false;
        self.hear_of(leader, ballot);
        is_new
    }

    /// A member hears the leader of a ballot: what is given to that member gets there.
    pub(crate) fn hear_of(&mut self, member: MemberIndex, ballot: B) {
        (self.leader, self.ballot) = (Some(member), ballot);
    }

    /// No leader is known any more.
    pub(crate) fn give_up(&mut self) {
        (self.leader, self.trust) = (None, Trust::None);
    }

    /// A member leads no more, if it did.
    pub(crate) fn give_up_on(&mut self, member: MemberIndex) {
        if self.leader == Some(member) {
            self.give_up();
        }
    }

    /// This replica leads: it follows nobody.
    pub(crate) fn lead(&mut self) {
        self.give_up();
        (self.is_wanted, self.preferred) = (false, None);
    }

    /// An election timer came due. Says whether nobody is trusted any more.
    pub(crate) fn decay(&mut self) -> bool {
        self.trust = match self.trust {
            Trust::Fresh => Trust::Stale,
            Trust::Stale | Trust::None => Trust::None,
        };
        self.trust == Trust::None
    }

    /// A round was heard of.
    pub(crate) fn see_round(&mut self, round: u64) {
        self.round_seen = self.round_seen.max(round);
    }
}
