//! When a replica without data may speak, and as whom. Decision record 0005 has the argument.
//!
//! - *Nobody has begun, all were told that the cluster is new*: every replica learns all
//!   incarnations, agrees durably to begin with exactly those, and begins once all have agreed to
//!   the same. So two beginnings need the loss of every data folder.
//! - *A peer has begun with this replica's very incarnation*: then all had agreed, this one too.
//! - *Peers have begun with another incarnation of this replica*: a former incarnation may have spoken. It
//!   comes back in a new incarnation, as a new member that the group takes in the place of the former one; or,
//!   if it is told to, as itself without its promises, by the protocol's own rule.
//! - *Peers run in an epoch that does not list this replica*: it is new, and takes no part before an
//!   epoch lists it in the incarnation it draws now.
//!
//! Where any peer runs, the members are those of the newest epoch that was told of, whatever list of addresses this
//! replica was given.

use crate::meta::{Meta, ReplicaState};
use crate::peer::incarnations::{is_possible, number};
use crate::peer::join_question::Stage;
use quorate_core::{
    Catalogue, ClusterId, Durability, Epoch, Group, Incarnation, ReplicaId, majority,
};
use quorate_host::SupportedVersions;
use std::collections::BTreeMap;
use std::fmt;

/// How a replica comes back that has lost its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rejoin {
    /// As a new member: the group replaces its former incarnation by the new one, with a change of epoch.
    #[default]
    NewMember,
    /// As itself: within the epoch, by the protocol's own rule for lost promises.
    Protocol,
}

/// What a replica without promises knows.
#[derive(Clone, Debug)]
pub(super) struct Joiner {
    pub(super) me: ReplicaId,
    pub(super) cluster: ClusterId,
    pub(super) rejoin: Rejoin,
    /// Written before; `None` without leave to begin a new cluster.
    pub(super) mine: Option<Meta>,
    /// What the other replicas of this replica's list, and of the newest epoch, have said in this round of questions;
    /// `None` for those that said nothing.
    pub(super) heard: BTreeMap<ReplicaId, Option<Stage>>,
    /// The newest epoch that any of them told of.
    pub(super) newest: Option<Epoch>,
    /// The protocols of this program.
    pub(super) catalogue: &'static dyn Catalogue,
}

/// What a replica without promises does after a round of questions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum JoinStep {
    /// Ask again, for this is missing.
    Wait(JoinWait),
    /// Write this down, say it, and go on asking.
    Agree(Meta),
    /// Write this down and begin.
    Begin(Meta),
}

/// What is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum JoinWait {
    /// All must be there when a cluster begins.
    First { silent: Vec<ReplicaId> },
    /// Others have agreed to begin with an incarnation of this replica, or of another, that is gone.
    Interrupted { with: Vec<ReplicaId> },
    /// A quorum of others must tell what a former incarnation may have done.
    Return {
        begun: usize,
        needed: usize,
        silent: Vec<ReplicaId>,
    },
    /// The cluster knows a replica of this number, and not at the address of this one.
    Elsewhere {
        me: ReplicaId,
        cluster: ClusterId,
        /// Where, if any of those that were asked knows that.
        known: Option<String>,
        /// The URL of this one, by its flags.
        own: String,
    },
}

/// Why it will never begin like this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// What the cluster knew is gone with too many folders.
    TooManyLost {
        /// The replicas without data, this one included.
        empty: Vec<ReplicaId>,
        /// Replicas there are.
        n: usize,
        /// The number of replicas that a quorum takes.
        quorum: usize,
    },
    /// Replicas of a new cluster were started with different options.
    Differs {
        /// The replica with other options.
        peer: ReplicaId,
    },
    /// A peer's address leads to another cluster.
    OtherCluster {
        /// The peer whose address leads to another cluster.
        peer: ReplicaId,
        /// The cluster that answers at the address.
        found: ClusterId,
        /// The cluster that was expected.
        expected: ClusterId,
    },
    /// Peers run in clusters that were begun separately.
    TwoClusters {
        /// Two of them.
        peers: [ReplicaId; 2],
        /// The cluster of each of the two peers.
        found: [ClusterId; 2],
    },
    /// Another replica runs under this one's number.
    NumberInUse {
        /// The number that both have.
        me: ReplicaId,
        /// The cluster of the other replica.
        cluster: ClusterId,
        /// The address at which the other replica answers.
        address: String,
    },
}

impl Joiner {
    /// Decides on what was heard. A later incarnation is numbered `now_ms` (of the wall clock) or more, and
    /// made unique by `random`.
    pub(super) fn next(&self, now_ms: u64, random: u64) -> Result<JoinStep, JoinError> {
        if let Some(next) = self.begun_with_me() {
            return Ok(next);
        }
        if let Some(next) = self.comes_back(now_ms, random)? {
            return Ok(next);
        }
        match &self.mine {
            Some(mine) => self.begins(mine),
            None => Ok(JoinStep::Wait(JoinWait::Return {
                begun: 0,
                needed: majority(self.heard.len() + 1),
                silent: self.silent(),
            })),
        }
    }

    /// Whether some peer runs in the epoch this replica has agreed to.
    fn begun_with_me(&self) -> Option<JoinStep> {
        let mine = self.mine.as_ref()?;
        let runs =
            |stage: &Stage| matches!(stage, Stage::Begun { epoch, .. } if *epoch == mine.epoch);
        (mine.state == ReplicaState::Confirmed && self.said().any(|(_, stage)| runs(stage)))
            .then(|| JoinStep::Begin(with_state(mine, ReplicaState::Bootstrapped)))
    }

    /// The way back of a replica that others have known, or into a cluster that runs, or `None` if nobody runs.
    fn comes_back(&self, now_ms: u64, random: u64) -> Result<Option<JoinStep>, JoinError> {
        let begun: Vec<Begun<'_>> = self
            .said()
            .filter_map(|(_, stage)| match stage {
                Stage::Begun { epoch, later, .. } => Some((epoch, *later)),
                _ => None,
            })
            .collect();
        let Some((first, _)) = begun.first().copied() else {
            // Without leave, whoever has no data has lost it.
            return match self.mine {
                None => self
                    .too_many_lost(self.heard.len() + 1, None)
                    .map_or(Ok(None), Err),
                Some(_) => Ok(None),
            };
        };
        let newest = self.newest.as_ref().unwrap_or(first);
        let listed = newest.members.iter().find(|member| member.id == self.me);
        if let Some(lost) = self
            .too_many_lost(newest.n(), Some(newest))
            .filter(|_| listed.is_some())
        {
            return Err(lost);
        }
        // Of the members: one that was removed, or follows, decides nothing.
        let is_member = |id: &ReplicaId| newest.index_of(*id).is_some();
        let runs = |(id, stage): &(ReplicaId, &Stage)| {
            is_member(id) && matches!(stage, Stage::Begun { .. })
        };
        let running = self.said().filter(runs).count();
        if running < majority(newest.n()) {
            let silent = self.silent().into_iter().filter(is_member);
            return Ok(Some(JoinStep::Wait(JoinWait::Return {
                begun: running,
                needed: majority(newest.n()),
                silent: silent.collect(),
            })));
        }
        // An incarnation that a change of the group drew is numbered like those that peers have seen.
        let is_later = |life: &Incarnation| {
            let of_first = first
                .index_of(self.me)
                .map(|index| first.members[index].incarnation);
            of_first != Some(*life)
        };
        let listed = listed.map(|member| member.incarnation);
        let incarnation = later_incarnation(&begun, listed.filter(is_later), now_ms, random);
        // In memory nobody keeps who it is: there the former incarnation's place is all there is.
        let in_place = self.rejoin == Rejoin::Protocol || first.durability == Durability::Memory;
        let (listed_as, state) = match listed {
            Some(listed) if in_place => {
                let is_of_first = newest.number == first.number;
                (Some(listed).filter(|_| !is_of_first), ReplicaState::Lost)
            }
            _ => (Some(incarnation), ReplicaState::Bootstrapped),
        };
        Ok(Some(JoinStep::Begin(Meta {
            cluster: self.cluster,
            replica: self.me,
            incarnation,
            listed_as,
            state,
            group: Group(0),
            epoch: first.clone(),
        })))
    }

    /// That so many of `n` replicas have no data that no quorum can be left: by the numbers of the protocol, where
    /// these are the members of an epoch.
    fn too_many_lost(&self, n: usize, newest: Option<&Epoch>) -> Option<JoinError> {
        let is_one = |id: &ReplicaId| newest.is_none_or(|epoch| epoch.index_of(*id).is_some());
        let lacks = |stage: &Stage| matches!(stage, Stage::Empty | Stage::Joining { .. });
        let lacking = self.said().filter(|(id, stage)| is_one(id) && lacks(stage));
        let mut empty: Vec<ReplicaId> = lacking.map(|(id, _)| id).chain([self.me]).collect();
        let quorum = newest.map_or(majority(n), |epoch| {
            let numbers = self
                .catalogue
                .numbers(SupportedVersions::SHIPPED.level(), epoch);
            n - numbers.map_or(0, |numbers| numbers.failures)
        });
        empty.sort();
        (n - empty.len() < quorum).then_some(JoinError::TooManyLost { empty, n, quorum })
    }

    /// The way into a new cluster.
    fn begins(&self, mine: &Meta) -> Result<JoinStep, JoinError> {
        let silent = self.silent();
        let mut vector = BTreeMap::from([(self.me, mine.incarnation)]);
        let mut confirmed = 0;
        let mut other = Vec::new();
        for (peer, stage) in self.said() {
            match stage {
                Stage::Joining {
                    incarnation,
                    config,
                } => {
                    if mine.state == ReplicaState::Joining && *config != mine.epoch.digest() {
                        return Err(JoinError::Differs { peer });
                    }
                    vector.insert(peer, *incarnation);
                    let index = mine.epoch.index_of(peer);
                    let agreed = index.map(|index| mine.epoch.members[index].incarnation);
                    if mine.state == ReplicaState::Confirmed && agreed != Some(*incarnation) {
                        other.push(peer);
                    }
                }
                Stage::Confirmed {
                    incarnation,
                    digest,
                } => {
                    vector.insert(peer, *incarnation);
                    if *digest == mine.epoch.digest() {
                        confirmed += 1;
                    } else if mine.state == ReplicaState::Confirmed {
                        other.push(peer);
                    }
                }
                Stage::Empty | Stage::Begun { .. } => {}
            }
        }
        if !other.is_empty() {
            return Ok(JoinStep::Wait(JoinWait::Interrupted { with: other }));
        }
        if mine.state == ReplicaState::Confirmed {
            return Ok(if confirmed == self.heard.len() {
                JoinStep::Begin(with_state(mine, ReplicaState::Bootstrapped))
            } else {
                JoinStep::Wait(JoinWait::First { silent })
            });
        }
        if vector.len() <= self.heard.len() {
            return Ok(JoinStep::Wait(JoinWait::First { silent }));
        }
        let mut agreed = with_state(mine, ReplicaState::Confirmed);
        for member in &mut agreed.epoch.members {
            member.incarnation = vector[&member.id];
        }
        Ok(JoinStep::Agree(agreed))
    }

    fn said(&self) -> impl Iterator<Item = (ReplicaId, &Stage)> {
        let heard = self.heard.iter();
        heard.filter_map(|(id, stage)| Some((*id, stage.as_ref()?)))
    }

    fn silent(&self) -> Vec<ReplicaId> {
        let silent = self.heard.iter().filter(|(_, stage)| stage.is_none());
        silent.map(|(id, _)| *id).collect()
    }
}

/// The first epoch of a peer that runs, and the latest incarnation in which it knew this replica.
pub(super) type Begun<'a> = (&'a Epoch, Option<Incarnation>);

/// An incarnation later than any that peers have known and than the one `listed`, made unique by `random`. One that no
/// replica can be in is only what a stranger told an older program.
pub(super) fn later_incarnation(
    begun: &[Begun<'_>],
    listed: Option<Incarnation>,
    now_ms: u64,
    random: u64,
) -> Incarnation {
    let known = begun.iter().filter_map(|(_, later)| *later).chain(listed);
    let last = known.filter(|life| is_possible(*life, now_ms)).max();
    let number = last.map_or(0, |last| number(last) + 1).max(now_ms);
    Incarnation(u128::from(number) << 64 | u128::from(random))
}

fn with_state(meta: &Meta, state: ReplicaState) -> Meta {
    Meta {
        state,
        ..meta.clone()
    }
}

/// `replicas 2 and 3`.
fn list(ids: &[ReplicaId]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match names.split_last() {
        None => "no replica".to_owned(),
        Some((only, [])) => format!("replica {only}"),
        Some((last, rest)) => format!("replicas {} and {last}", rest.join(", ")),
    }
}

impl fmt::Display for JoinWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinWait::First { silent } if silent.is_empty() => {
                f.write_str("the cluster is new: waiting until all replicas have agreed to begin")
            }
            JoinWait::First { silent } => write!(
                f,
                "the cluster is new and begins once all are there: waiting for {}",
                list(silent)
            ),
            JoinWait::Interrupted { with } => write!(
                f,
                "the first start was interrupted: a data folder was replaced between the agreement \
                 and the beginning, and {} cannot begin with this one; if no replica ever served, \
                 delete all data folders and start again",
                list(with)
            ),
            JoinWait::Return {
                begun,
                needed,
                silent,
            } => write!(
                f,
                "the data folder is empty: to come back safely, this replica asks the others what it \
                 may have promised; {begun} of the {needed} needed run, nothing heard of {}",
                list(silent)
            ),
            JoinWait::Elsewhere {
                me,
                cluster,
                known: Some(known),
                own,
            } => write!(
                f,
                "cluster {cluster} knows replica {me} at {known}, and this one is at {own} by its \
                 --initial-cluster: if replica {me} has moved, tell the cluster (etcdctl member update {me:x} \
                 --peer-urls={own}); if not, check --id and --initial-cluster",
                me = me.0
            ),
            JoinWait::Elsewhere {
                me, cluster, own, ..
            } => write!(
                f,
                "cluster {cluster} has a replica {me}, and nobody that was asked knows its address: if that is this \
                 one, say so with --cluster-id {cluster}, and tell the cluster where it is (etcdctl member update \
                 {me:x} --peer-urls={own})",
                me = me.0
            ),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::TooManyLost { empty, n, quorum } => write!(
                f,
                "{} of {n} have empty data folders: none was told to begin a new cluster, and too few \
                are left to know what the cluster had promised; restore the folders of all but {} from \
                where they went, make a cluster of what is left (quorate cluster force-new), or begin \
                a new one with --initial-cluster-state new on empty folders",
                list(empty),
                n - quorum
            ),
            JoinError::Differs { peer } => write!(
                f,
                "this replica and replica {peer} are told to begin different clusters: check that \
                 --protocol, --durability, --param and --initial-cluster are the same on all"
            ),
            JoinError::OtherCluster {
                peer,
                found,
                expected,
            } => write!(
                f,
                "the address of replica {peer} leads to cluster {found}, not to cluster {expected}: \
                 check --initial-cluster and --initial-cluster-token; if this replica is of cluster {found}, say so \
                 with --cluster-id {found} and without --initial-cluster-state new"
            ),
            JoinError::TwoClusters {
                peers: [one, other],
                found: [cluster, second],
            } if cluster == second => write!(
                f,
                "replicas {one} and {other} both run as members of cluster {cluster}, and were begun separately with \
                 the same --initial-cluster-token: leave the one that is not wanted out of --initial-cluster"
            ),
            JoinError::TwoClusters {
                peers: [one, other],
                found: [cluster, second],
            } => write!(
                f,
                "the addresses in --initial-cluster lead to two clusters, replica {one} to {cluster} and replica \
                 {other} to {second}: correct them, or say which with --cluster-id"
            ),
            JoinError::NumberInUse {
                me,
                cluster,
                address,
            } => write!(
                f,
                "replica {me} of cluster {cluster} runs at {address}: check --id; a new replica gets a number of \
                 its own from quorate cluster add"
            ),
        }
    }
}

impl std::error::Error for JoinError {}

#[cfg(test)]
mod tests;
