//! The cluster that the peers belong to, and whether this replica is the one that the cluster knows by its number.
//!
//! The address list of a replica says where to ask, and its token what a new cluster would be called. What a running
//! cluster is and who its members are, only those say that run.

use super::inquiry::Answers;
use super::rule::{JoinError, JoinWait};
use crate::peer::join_question::{JoinAnswer, Stage};
use quorate_core::{ClusterId, Epoch, ReplicaId};
use std::collections::BTreeSet;

/// What a replica without promises claims to be.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) me: ReplicaId,
    /// The address at which the others reach the replica, by its own flags: `host:port`.
    pub(super) address: String,
    /// The URL with this address.
    pub(super) url: String,
    /// Whether a question that it sent to an address of its number came back to it.
    pub(super) hears_itself: bool,
    pub(super) cluster: ClusterId,
    /// Whether the cluster is only derived from the token and the address list.
    pub(super) is_guess: bool,
    /// Whether it was told that the cluster is new.
    pub(super) is_new: bool,
}

/// What the answers of one round say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FoundCluster {
    /// The cluster to begin or to come back to.
    pub(super) cluster: ClusterId,
    /// The newest epoch of the cluster, if any replica runs in it.
    pub(super) newest: Option<Epoch>,
    /// The addresses of that epoch's members and of this replica, as running replicas tell them.
    pub(super) addresses: BTreeSet<(ReplicaId, String)>,
    /// Why this replica may not be the one that the cluster knows by its number.
    pub(super) doubt: Option<JoinWait>,
}

/// A replica that runs, by what it said.
struct RunningReplica<'a> {
    peer: ReplicaId,
    cluster: ClusterId,
    first: &'a Epoch,
    newest: &'a Epoch,
    /// `None` if it does not say where others are: its program is an older one.
    addresses: Option<&'a [(ReplicaId, String)]>,
}

impl<'a> RunningReplica<'a> {
    fn of(peer: ReplicaId, answer: &'a JoinAnswer) -> Option<RunningReplica<'a>> {
        let Stage::Begun {
            epoch, addresses, ..
        } = &answer.stage
        else {
            return None;
        };
        Some(RunningReplica {
            peer,
            cluster: answer.cluster,
            first: epoch,
            newest: answer.newest.as_ref().unwrap_or(epoch),
            addresses: addresses.as_ref().map(|addresses| &addresses.0[..]),
        })
    }
}

impl Claim {
    /// What the answers say, and whether this replica may go by it.
    ///
    /// # Errors
    /// Addresses that lead elsewhere or to two clusters, and a number that another replica has.
    pub(super) fn judge(&self, answers: &Answers) -> Result<FoundCluster, JoinError> {
        let said = || answers.iter().map(|(peer, found)| (peer, &found.answer));
        let running: Vec<RunningReplica<'_>> = said()
            .filter_map(|(peer, answer)| RunningReplica::of(*peer, answer))
            .collect();
        // A cluster that was made from this very token and list is none that was only come across.
        let is_proven = !self.is_guess || running.iter().any(|one| one.cluster == self.cluster);
        let Some(cluster) = (match is_proven {
            true => Some(self.cluster),
            false => running.first().map(|one| one.cluster),
        }) else {
            return self.before_any_runs(answers);
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            running.iter().partition(|one| one.cluster == cluster);
        let Some(first) = ours.first() else {
            // It was told which cluster it is of, and nobody there has begun.
            return self.before_any_runs(answers);
        };
        let is_another = |one: &&&RunningReplica<'_>| one.first.digest() != first.first.digest();
        let second = match is_proven {
            true => ours.iter().find(is_another).copied(),
            false => others.first().or(ours.iter().find(is_another)).copied(),
        };
        if let Some(second) = second {
            return Err(JoinError::TwoClusters {
                peers: [first.peer, second.peer],
                found: [first.cluster, second.cluster],
            });
        }
        if let Some(own) = answers
            .get(&self.me)
            .filter(|_| ours.iter().any(|one| one.peer == self.me))
        {
            return Err(JoinError::NumberInUse {
                me: self.me,
                cluster,
                address: own.address.clone(),
            });
        }
        self.among(cluster, &ours, is_proven)
    }

    /// What replicas say that run in one cluster.
    fn among(
        &self,
        cluster: ClusterId,
        ours: &[&RunningReplica<'_>],
        is_proven: bool,
    ) -> Result<FoundCluster, JoinError> {
        let newest = ours.iter().map(|one| one.newest);
        let newest = newest.max_by_key(|epoch| epoch.number);
        let is_listed = |id: ReplicaId| newest.is_some_and(|epoch| epoch.index_of(id).is_some());
        let told = ours.iter().filter_map(|one| one.addresses).flatten();
        let told = told.filter(|(id, _)| *id == self.me || is_listed(*id));
        let addresses: BTreeSet<(ReplicaId, String)> = told.cloned().collect();
        let known = addresses.iter().find(|(id, _)| *id == self.me);
        let is_here = self.hears_itself || addresses.contains(&(self.me, self.address.clone()));
        let is_known = is_listed(self.me) || known.is_some();
        // Older programs do not say where others are.
        let is_said = ours.iter().any(|one| one.addresses.is_some());
        let is_accepted = is_proven || is_here || !(is_known || self.is_new);
        let may_become_clear = is_known && is_said;
        if !is_accepted && !may_become_clear {
            return Err(JoinError::OtherCluster {
                peer: ours.first().map_or(self.me, |one| one.peer),
                found: cluster,
                expected: self.cluster,
            });
        }
        let doubt = (!is_accepted).then(|| JoinWait::Elsewhere {
            me: self.me,
            cluster,
            known: known.map(|(_, address)| address.clone()),
            own: self.url.clone(),
        });
        Ok(FoundCluster {
            cluster,
            newest: newest.cloned(),
            addresses,
            doubt,
        })
    }

    /// What the cluster is where nobody runs in it. Those that are told that it is new must mean the same one; what
    /// others without data are told may be of any time.
    fn before_any_runs(&self, answers: &Answers) -> Result<FoundCluster, JoinError> {
        let says_which = |answer: &JoinAnswer| match answer.stage {
            Stage::Empty => false,
            Stage::Joining { .. } | Stage::Confirmed { .. } => self.is_new,
            Stage::Begun { .. } => true,
        };
        let mut said = answers.iter().map(|(peer, found)| (*peer, &found.answer));
        match said.find(|(_, answer)| says_which(answer) && answer.cluster != self.cluster) {
            None => Ok(FoundCluster::nobody(self.cluster)),
            Some((peer, answer)) => Err(JoinError::OtherCluster {
                peer,
                found: answer.cluster,
                expected: self.cluster,
            }),
        }
    }
}

impl FoundCluster {
    /// A cluster in which nobody runs.
    fn nobody(cluster: ClusterId) -> FoundCluster {
        FoundCluster {
            cluster,
            newest: None,
            addresses: BTreeSet::new(),
            doubt: None,
        }
    }
}

#[cfg(test)]
mod tests;
