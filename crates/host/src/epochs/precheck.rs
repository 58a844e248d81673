//! What operators are kept from, beyond what is invalid.
//!
//! A seal cannot be taken back: a group whose next epoch has no quorum waits for it, perhaps for ever.
//! So a change is refused where it is asked for unless the members of the next epoch were there a
//! moment ago and have nearly all of the state. That is advice, given by the replica that was asked
//! from what it sees; safety never depends on it, and members may still fail right afterwards.

use super::change::Reconfigure;
use super::rule::{Invalid, judge};
use super::state::GroupState;
use quorate_core::{Catalogue, Epoch, Member, ReplicaId, SECONDS, Slot, Unfit};
use std::fmt;

/// What counts as ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How old the last news of a replica may be, in ns (`ready_ttl`).
    pub ready_ttl_ns: u64,
    /// How many slots it may be behind (`max_lag`): what it makes up for within one window.
    pub lag_slots_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            ready_ttl_ns: 2 * SECONDS,
            lag_slots_max: 256,
        }
    }
}

/// What was last heard of a replica, learners and this replica itself included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Which replica, in which life.
    pub member: Member,
    /// How long ago, in ns.
    pub ago_ns: u64,
    /// Its first slot not durably applied.
    pub durable: Slot,
    /// The highest feature level that its program knows.
    pub level: u32,
}

/// What the replica that is asked knows.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The applied state.
    pub state: &'a GroupState,
    /// The first slot not applied.
    pub applied: Slot,
    /// Whether the newest epoch is known to be open.
    pub is_open: bool,
    /// What was heard of each replica; of none twice.
    pub seen: &'a [Seen],
}

/// Why a member of the next epoch is not ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReady {
    /// Nothing was heard of it.
    Unheard,
    /// Another life of it was heard: this one is over, or was never begun.
    OtherLife,
    /// Nothing was heard of it for so long, in ns.
    Silent(u64),
    /// It lacks so many slots.
    Behind(u64),
    /// Its program does not know the feature level of the cluster.
    OldProgram,
}

/// Why a change is not even proposed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It would do nothing.
    Invalid(Invalid),
    /// The protocol does not work with these members and parameters; why.
    Parameters(String),
    /// The last change is not done: the newest epoch is not known to be open.
    NotOpen {
        /// That epoch.
        epoch: u64,
    },
    /// The present members that answer are too few to decide it.
    NoQuorumNow {
        /// How many answer.
        answer: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Too few of the next epoch's members are ready: the group would stand still.
    NoQuorumNext {
        /// How many are ready.
        ready: usize,
        /// How many it takes.
        needed: usize,
        /// The others, and why not.
        others: Vec<(ReplicaId, NotReady)>,
    },
    /// A new member that would have to be made up for by others.
    JoinerNotReady {
        /// Which one.
        id: ReplicaId,
        /// Why not.
        why: NotReady,
    },
    /// A member that answers would be replaced or removed while payloads are moved: what it holds
    /// may be needed.
    StillNeeded {
        /// Which one.
        id: ReplicaId,
    },
}

/// Whether a change may be proposed now.
///
/// # Errors
/// [`Refused`], the first reason found. Asking again later may be answered otherwise.
pub fn may_propose(
    view: &View<'_>,
    change: &Reconfigure,
    limits: &Limits,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<(), Refused> {
    let state = view.state;
    let newest = state.chain.newest();
    let next = judged(view, change, catalogue)?;
    if !view.is_open {
        let epoch = newest.number;
        return Err(Refused::NotOpen { epoch });
    }
    let level = state.level.max(catalogue.level_of(&next.protocol));
    let watch = Watch {
        view,
        limits,
        level,
    };
    let needed = quorum(state, newest, catalogue)?;
    let present = newest.members.iter().filter(|m| watch.answers(**m));
    let answer = present.count();
    if answer < needed {
        return Err(Refused::NoQuorumNow { answer, needed });
    }
    if state.unsettled.is_some() {
        let gone = newest.members.iter().filter(|m| !next.has(**m));
        if let Some(needed) = gone.copied().find(|member| watch.answers(*member)) {
            return Err(Refused::StillNeeded { id: needed.id });
        }
    }
    let needed = quorum(state, &next, catalogue)?;
    check_next(&watch, newest, &next, needed)
}

/// The epoch that the change would begin.
fn judged(
    view: &View<'_>,
    change: &Reconfigure,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<Epoch, Refused> {
    judge(view.state, view.applied, change, catalogue).map_err(|invalid| {
        let newest = view.state.chain.newest();
        let next = change.configuration.behind(newest, view.applied);
        match (invalid, catalogue.numbers(view.state.level, &next)) {
            (Invalid::Parameters, Err(Unfit::Parameters(why))) => Refused::Parameters(why),
            (invalid, _) => Refused::Invalid(invalid),
        }
    })
}

fn quorum(
    state: &GroupState,
    epoch: &Epoch,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<usize, Refused> {
    let numbers = catalogue.numbers(state.level, epoch);
    let numbers = numbers.map_err(|_| Refused::Invalid(Invalid::Parameters))?;
    Ok(numbers.quorum())
}

fn check_next(
    watch: &Watch<'_>,
    newest: &Epoch,
    next: &Epoch,
    needed: usize,
) -> Result<(), Refused> {
    let state_of = |member: &Member| (*member, watch.not_ready(*member));
    let members: Vec<_> = next.members.iter().map(state_of).collect();
    let others = members.iter().filter_map(|(m, why)| Some((m.id, (*why)?)));
    let others: Vec<_> = others.collect();
    let ready = members.len() - others.len();
    if ready < needed {
        return Err(Refused::NoQuorumNext {
            ready,
            needed,
            others,
        });
    }
    let joiners = members.iter().filter(|(member, _)| !newest.has(*member));
    for (member, why) in joiners {
        if let Some(why) = *why {
            return Err(Refused::JoinerNotReady { id: member.id, why });
        }
    }
    Ok(())
}

/// What was seen, held against the limits.
struct Watch<'a> {
    view: &'a View<'a>,
    limits: &'a Limits,
    /// The feature level that members of the next epoch have to know.
    level: u32,
}

impl Watch<'_> {
    fn seen(&self, id: ReplicaId) -> Option<&Seen> {
        self.view.seen.iter().find(|seen| seen.member.id == id)
    }

    /// Whether a member was heard a moment ago, in this very life.
    fn answers(&self, member: Member) -> bool {
        self.seen(member.id)
            .is_some_and(|seen| seen.member == member && seen.ago_ns <= self.limits.ready_ttl_ns)
    }

    fn not_ready(&self, member: Member) -> Option<NotReady> {
        let Some(seen) = self.seen(member.id) else {
            return Some(NotReady::Unheard);
        };
        let lag = self.view.applied.0.saturating_sub(seen.durable.0);
        if seen.member != member {
            Some(NotReady::OtherLife)
        } else if seen.ago_ns > self.limits.ready_ttl_ns {
            Some(NotReady::Silent(seen.ago_ns))
        } else if lag > self.limits.lag_slots_max {
            Some(NotReady::Behind(lag))
        } else if seen.level < self.level {
            Some(NotReady::OldProgram)
        } else {
            None
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::Unheard => {
                f.write_str("was never heard: is it running, and is its address right?")
            }
            NotReady::OtherLife => f.write_str("runs with another incarnation"),
            NotReady::Silent(ns) => write!(f, "is silent for {} ms", ns / 1_000_000),
            NotReady::Behind(slots) => write!(f, "is {slots} slots behind"),
            NotReady::OldProgram => {
                f.write_str("runs a program that is too old for the feature level of the cluster")
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Invalid(invalid) => invalid.fmt(f),
            Refused::Parameters(why) => f.write_str(why),
            Refused::NotOpen { epoch } => write!(
                f,
                "the last change is not done: too few members of epoch {epoch} are known to have its \
                 state. Ask again"
            ),
            Refused::NoQuorumNow { answer, needed } => write!(
                f,
                "{answer} of the present members answer, and it takes {needed} to decide a change"
            ),
            Refused::NoQuorumNext {
                ready,
                needed,
                others,
            } => {
                write!(
                    f,
                    "the group would stand still: {ready} of the next members are ready, and it takes \
                     {needed}"
                )?;
                others
                    .iter()
                    .try_for_each(|(id, why)| write!(f, "; replica {id} {why}"))
            }
            Refused::JoinerNotReady { id, why } => {
                write!(f, "replica {id} is to become a member, and {why}")
            }
            Refused::StillNeeded { id } => write!(
                f,
                "replica {id} answers, and may hold payloads that are being moved: wait until they are \
                 safe"
            ),
        }
    }
}

impl std::error::Error for Refused {}
