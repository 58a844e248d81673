//! The replicas that a replica without promises asks, and what it makes of the answers.
//!
//! Its list of addresses is where it begins to ask. Replicas that run say who the members are and where, and those are
//! asked as well before anything is decided.

use super::Rejoin;
use super::cluster::{Claim, FoundCluster};
use super::rule::{JoinError, JoinStep, Joiner};
use crate::meta::{Meta, ReplicaState};
use crate::peer::join_question::{JoinAnswer, Stage};
use quorate_core::{Catalogue, ClusterId, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses beyond its list that a replica asks, at most.
const FOLLOWED_MAX: usize = 256;

/// What a replica answered, and at which address.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) address: String,
    pub(super) answer: JoinAnswer,
}

/// The answers of a round, by the numbers of those that gave them.
pub(super) type Answers = BTreeMap<ReplicaId, Answered>;

/// A replica that asks its peers what it may begin.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    pub(super) me: ReplicaId,
    /// The address at which the others reach the replica, by its own flags: `host:port`.
    pub(super) address: String,
    /// What URLs of peer ports begin with.
    pub(super) scheme: &'static str,
    /// The replica's cluster, by its flags or its folder.
    pub(super) cluster: ClusterId,
    /// Whether that is only derived from a token and an address list.
    pub(super) is_guess: bool,
    /// Whether it was told that the cluster is new.
    pub(super) is_new: bool,
    pub(super) rejoin: Rejoin,
    /// Other replicas and their addresses, by this replica's flags.
    pub(super) list: Vec<(ReplicaId, String)>,
    /// The protocols of this program.
    pub(super) catalogue: &'static dyn Catalogue,
    /// Addresses that running replicas told of, and that are not in the list.
    pub(super) followed: BTreeSet<(ReplicaId, String)>,
}

/// What follows from a round of answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum InquiryStep {
    /// Ask at once: there are more to ask.
    AskMore,
    /// This, by what was found.
    Decided(JoinStep, Box<FoundCluster>),
}

impl Inquiry {
    /// The URL at which the others reach the replica.
    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Everybody to ask.
    pub(super) fn targets(&self) -> impl Iterator<Item = &(ReplicaId, String)> {
        self.list.iter().chain(&self.followed)
    }

    /// Decides on the answers of a round. `mine` is what this replica wrote before, and `hears_itself` says whether a
    /// question to an address of its number came back to it. A later incarnation is numbered `now_ms` (of the wall
    /// clock) or more, and made unique by `random`.
    ///
    /// # Errors
    /// Why it will never begin like this.
    pub(super) fn decide(
        &mut self,
        mine: Option<&Meta>,
        hears_itself: bool,
        answers: &Answers,
        now_ms: u64,
        random: u64,
    ) -> Result<InquiryStep, JoinError> {
        let claim = Claim {
            me: self.me,
            address: self.address.clone(),
            url: self.url(),
            hears_itself,
            cluster: self.cluster,
            is_guess: self.is_guess && mine.is_none_or(|meta| meta.state == ReplicaState::Joining),
            is_new: self.is_new,
        };
        let found = claim.judge(answers)?;
        if self.follow(&found) {
            return Ok(InquiryStep::AskMore);
        }
        let next = match found.doubt.clone() {
            Some(doubt) => JoinStep::Wait(doubt),
            None => self.joiner(mine, &found, answers).next(now_ms, random)?,
        };
        Ok(InquiryStep::Decided(next, Box::new(found)))
    }

    /// Takes up the addresses that were told and are not asked yet. Whether there are any.
    fn follow(&mut self, found: &FoundCluster) -> bool {
        let before = self.followed.len();
        let new = found
            .addresses
            .iter()
            .filter(|told| !self.list.contains(told));
        let room = FOLLOWED_MAX.saturating_sub(before);
        let new: Vec<_> = new
            .filter(|told| !self.followed.contains(told))
            .take(room)
            .cloned()
            .collect();
        self.followed.extend(new);
        self.followed.len() > before
    }

    /// What is known of the replicas of its list and of the members, by those of one cluster.
    fn joiner(&self, mine: Option<&Meta>, found: &FoundCluster, answers: &Answers) -> Joiner {
        let members = found.newest.iter().flat_map(|epoch| &epoch.members);
        let members = members.map(|member| member.id);
        let others = self.list.iter().map(|(id, _)| *id).chain(members);
        let stage = |id: ReplicaId| {
            let answer = &answers.get(&id)?.answer;
            // Who has agreed to nothing may be of any cluster, and has no data of this one.
            let is_of_it = answer.cluster == found.cluster
                || matches!(answer.stage, Stage::Empty | Stage::Joining { .. });
            is_of_it.then(|| answer.stage.clone())
        };
        let heard = others.filter(|id| *id != self.me).map(|id| (id, stage(id)));
        Joiner {
            me: self.me,
            cluster: found.cluster,
            rejoin: self.rejoin,
            mine: mine.cloned(),
            heard: heard.collect(),
            newest: found.newest.clone(),
            catalogue: self.catalogue,
        }
    }

    /// Where the others are: where they answered, or else by its list, or else by what was told.
    pub(super) fn places(
        &self,
        found: &FoundCluster,
        answers: &Answers,
    ) -> Vec<(ReplicaId, String)> {
        let of_it = |answered: &&Answered| answered.answer.cluster == found.cluster;
        let answered = answers.iter().filter(|(_, answered)| of_it(answered));
        let answered = answered.map(|(id, answered)| (*id, answered.address.clone()));
        let known = found.addresses.iter().chain(&self.list).cloned();
        // The last one of a number counts.
        let mut places: BTreeMap<ReplicaId, String> = known.chain(answered).collect();
        places.remove(&self.me);
        places.into_iter().collect()
    }

    /// Whether the cluster that was found has no member of this number.
    pub(super) fn is_no_member(&self, found: &FoundCluster) -> bool {
        let newest = found.newest.as_ref();
        newest.is_some_and(|epoch| epoch.index_of(self.me).is_none())
    }
}

#[cfg(test)]
mod tests;
