//! etcd's rules for changes of members (`--strict-reconfig-check`), by what the member asked knows of the others.
//!
//! They are stricter than what the group needs: who is added here takes no part before it has the state. Client
//! libraries and scripts know them by their texts, and try again.

use quorate_core::ReplicaId;
use quorate_etcd_api::errors::{self, Error};
use quorate_server::{MemberInfo, Status as ReplicaStatus};

/// The members that vote.
pub(crate) struct Voters<'a> {
    voters: Vec<&'a MemberInfo>,
    replica: &'a ReplicaStatus,
}

impl Voters<'_> {
    /// The voters that a replica knows of.
    pub(crate) fn of(replica: &ReplicaStatus) -> Voters<'_> {
        let voters = replica.members.iter().filter(|member| !member.is_learner);
        Voters {
            voters: voters.collect(),
            replica,
        }
    }

    /// Whether a replica may be added. It counts as one that does not run.
    pub(crate) fn may_add(&self, is_learner: bool) -> Result<(), Error> {
        let others = self.voters.len();
        let next = others + 1;
        let started = self.started(|_| true);
        // Two members may begin as one that was restored alone.
        let may_begin = started == 1 && next == 2;
        if !is_learner && !may_begin && started < quorum(next) {
            return Err(errors::MEMBER_NOT_ENOUGH_STARTED);
        }
        if others > 1 && self.reached() < quorum(next) {
            return Err(errors::UNHEALTHY);
        }
        Ok(())
    }

    /// Whether a voter may be removed.
    pub(crate) fn may_remove(&self, id: ReplicaId) -> Result<(), Error> {
        let rest = self.voters.iter().filter(|member| member.id != id).count();
        if self.started(|other| other != id) < quorum(rest) {
            return Err(errors::MEMBER_NOT_ENOUGH_STARTED);
        }
        if !self.is_reached(id) {
            // The others go on without it as it is.
            return Ok(());
        }
        match self.reached() > quorum_of_present(self.voters.len()) {
            true => Ok(()),
            false => Err(errors::UNHEALTHY),
        }
    }

    /// Whether a learner may become a voter.
    pub(crate) fn may_promote(&self) -> Result<(), Error> {
        match self.started(|_| true) + 1 < quorum(self.voters.len() + 1) {
            true => Err(errors::MEMBER_NOT_ENOUGH_STARTED),
            false => Ok(()),
        }
    }

    /// How many of these were ever started.
    fn started(&self, counts: impl Fn(ReplicaId) -> bool) -> usize {
        let voters = self.voters.iter();
        let started = voters.filter(|member| member.has_started && counts(member.id));
        started.count()
    }

    /// How many can be reached from here.
    fn reached(&self) -> usize {
        let voters = self.voters.iter();
        voters.filter(|member| self.is_reached(member.id)).count()
    }

    fn is_reached(&self, id: ReplicaId) -> bool {
        id == self.replica.me || self.replica.links_up.contains(&id)
    }
}

/// How many members decide among so many.
fn quorum(members: usize) -> usize {
    members / 2 + 1
}

/// How many have to stay, of so many that there are: etcd counts more than half of them, the leaver included.
fn quorum_of_present(members: usize) -> usize {
    1 + members.saturating_sub(1) / 2
}
