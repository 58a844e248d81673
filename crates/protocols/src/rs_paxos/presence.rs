//! Members that answer, and members that do not.

use quorate_core::{MemberIndex, MemberSet};

/// Members that answer a leader, as far as it can tell.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct Presence {
    /// Members whose link is not known to be down.
    up: MemberSet,
    /// Members that did not answer when a value went out again and again.
    silent: MemberSet,
    /// Members that answered a proposal since the last retransmission timer.
    heard: MemberSet,
}

impl Presence {
    /// At a start, all these members are expected to answer.
    pub(super) fn of(members: MemberSet) -> Presence {
        Presence {
            up: members,
            silent: MemberSet::EMPTY,
            heard: MemberSet::EMPTY,
        }
    }

    /// Members whose link is not known to be down.
    pub(super) fn up(&self) -> MemberSet {
        self.up
    }

    /// Members that can be expected to accept.
    pub(super) fn alive(&self) -> MemberSet {
        self.up - self.silent
    }

    /// A member answered.
    pub(super) fn hear(&mut self, member: MemberIndex) {
        self.heard.insert(member);
        self.silent.remove(member);
    }

    /// Takes those for silent that have not answered.
    pub(super) fn mark_silent(&mut self, members: MemberSet) {
        self.silent = members;
    }

    /// Members that answered since this was last asked.
    pub(super) fn take_heard(&mut self) -> MemberSet {
        std::mem::take(&mut self.heard)
    }

    /// A member's link went down.
    pub(super) fn lose(&mut self, member: MemberIndex) {
        self.up.remove(member);
    }

    /// A member's link came up.
    pub(super) fn regain(&mut self, member: MemberIndex) {
        self.up.insert(member);
        self.silent.remove(member);
    }
}
