//! What a replica has the cluster do by itself when a member is gone; nothing unless it is asked to.
//!
//! The policy is the one of RS-Paxos's paper (section 6.4): a code that survives one failure costs little
//! while all are there, and after a failure the cluster goes on with one that survives the next. Members
//! stay members: one that comes back finds its place, and the operator decides when the first code is
//! worth its risk again.
//!
//! Every replica that was told to reacts, the first of those that reach each other first. Two that react at
//! once do no harm: a change names the epoch it was made for, and only the first of two is done.

use crate::core::Core;
use crate::group::GroupChange;
use quorate_core::{Catalogue, Epoch, Now, ReplicaId};
use quorate_host::Directive;
use quorate_protocols::ProtocolSet;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The time between two attempts to change the code, in ns.
const RETRY_NS: u64 = 1_000_000_000;
/// The time by which each further replica reacts later than the one before it, in ns.
const STAGGER_NS: u64 = 1_000_000_000;

/// What a replica does about members that cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reaction {
    /// Do nothing: the operator decides.
    #[default]
    Nothing,
    /// The cluster goes on with the largest code that survives a further failure.
    ShrinkCode {
        /// The time a member must have been out of reach, in ns.
        after_ns: u64,
    },
}

/// The members that are out of reach, and what was done about them.
#[derive(Debug, Default)]
pub(crate) struct AutoShrink {
    reaction: Reaction,
    /// Members that cannot be reached, and since when.
    gone: BTreeMap<ReplicaId, u64>,
    /// The earliest time of the next attempt, in ns of the monotonic clock.
    not_before: u64,
    /// Why nothing was done, as it was said last.
    said: String,
}

/// What is to be done when so many members are gone.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ShrinkDecision {
    /// Nothing: the configuration survives a further failure, or has no code.
    Enough,
    /// Go on with these parameters.
    Shrink(BTreeMap<String, String>),
    /// No code of these members survives a further failure.
    None,
}

impl AutoShrink {
    pub(crate) fn new(reaction: Reaction) -> AutoShrink {
        AutoShrink {
            reaction,
            ..AutoShrink::default()
        }
    }

    /// These members are out of reach now.
    fn watch(&mut self, now_ns: u64, gone: impl Iterator<Item = ReplicaId>) {
        let before = std::mem::take(&mut self.gone);
        let since = |id: ReplicaId| (id, before.get(&id).copied().unwrap_or(now_ns));
        self.gone = gone.map(since).collect();
    }

    /// When to react, as the replica before which so many others do.
    fn at(&self, before: usize) -> Option<u64> {
        let Reaction::ShrinkCode { after_ns } = self.reaction else {
            return None;
        };
        let first = self.gone.values().min()?;
        let at = first + after_ns + STAGGER_NS * before as u64;
        Some(at.max(self.not_before))
    }
}

/// The largest code over the same members with which the cluster survives a further failure beside
/// those that are `gone`. The present members and parameters are left as they are otherwise.
fn judge(catalogue: &dyn Catalogue, level: u32, epoch: &Epoch, gone: usize) -> ShrinkDecision {
    let failures_of = |epoch: &Epoch| catalogue.numbers(level, epoch).map_or(0, |n| n.failures);
    let code = catalogue.numbers(level, epoch).map_or(1, |n| n.code);
    if gone == 0 || code == 1 || failures_of(epoch) > gone {
        return ShrinkDecision::Enough;
    }
    let with = |code: usize| {
        let mut next = epoch.clone();
        next.params.insert(CODE.to_owned(), code.to_string());
        next
    };
    let next = (1..code).rev().map(with);
    let mut next = next.filter(|next| failures_of(next) > gone);
    next.next().map_or(ShrinkDecision::None, |next| {
        ShrinkDecision::Shrink(next.params)
    })
}

/// The command by which a cluster goes back to the protocol and the parameters of an epoch.
fn undo_command(epoch: &Epoch) -> String {
    let params = epoch.params.iter();
    let params = params.map(|(name, value)| format!(" --param {name}={value}"));
    format!(
        "quorate cluster switch {}{}",
        epoch.protocol,
        params.collect::<String>()
    )
}

/// The parameter of an epoch that says how many fragments rebuild a value.
const CODE: &str = "k";

impl<P: ProtocolSet> Core<P> {
    /// Takes note of who is out of reach.
    pub(crate) fn watch_members(&mut self, now: Now) {
        let members = self.host.look().epoch().member_ids();
        let me = self.folder.meta().replica;
        let is_gone = |id: &ReplicaId| *id != me && !self.state.links_up.contains(id);
        self.auto_shrink.watch(now.mono_ns, members.filter(is_gone));
    }

    /// When to have the cluster react.
    pub(crate) fn shrinks_at(&self) -> Option<u64> {
        let me = self.folder.meta().replica;
        let before = self.state.links_up.iter().filter(|id| {
            let is_member = self.host.look().epoch().index_of(**id).is_some();
            **id < me && is_member
        });
        let at = self.auto_shrink.at(before.count())?;
        self.host.look().is_member().then_some(at)
    }

    /// Has the cluster react to members that are gone, when it is time.
    pub(crate) fn shrink_code(&mut self, now: Now) {
        if self.shrinks_at().is_none_or(|at| at > now.mono_ns) {
            return;
        }
        self.auto_shrink.not_before = now.mono_ns + RETRY_NS;
        let (epoch, level) = (self.host.look().epoch(), self.host.look().epochs().level);
        let gone = self.auto_shrink.gone.len();
        let params = match judge(self.host.look().catalogue(), level, epoch, gone) {
            ShrinkDecision::Enough => return,
            ShrinkDecision::None => {
                let why = "no code of these members survives a further failure: replace those that \
                           are gone";
                return self.log_not_shrunk(why.to_owned());
            }
            ShrinkDecision::Shrink(params) => params,
        };
        let change = GroupChange::Protocol {
            name: epoch.protocol.clone(),
            params,
            may_measure: true,
        };
        if let Err(why) = self.order_of(&change) {
            self.host.direct(now, Directive::AskAround);
            return self.log_not_shrunk(why.to_string());
        }
        tracing::warn!(
            gone = ?self.auto_shrink.gone.keys().map(|id| id.0).collect::<Vec<_>>(), ?change,
            "members cannot be reached, and one more failure would stop the cluster: it goes on with a \
             code that survives that. Once all are back, undo it with: {}",
            undo_command(epoch)
        );
        self.auto_shrink.said.clear();
        self.metrics.reactions.increment(1);
        let (reply, _) = oneshot::channel();
        self.change(now, change, reply);
    }

    fn log_not_shrunk(&mut self, why: String) {
        if self.auto_shrink.said != why {
            tracing::warn!("members cannot be reached, and the cluster stays as it is: {why}");
            self.auto_shrink.said = why;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Durability, Incarnation, Member, Slot};
    use quorate_protocols::Registered;

    fn epoch(protocol: &str, n: u16, params: &[(&str, &str)]) -> Epoch {
        let member = |id| Member {
            id: ReplicaId(id),
            incarnation: Incarnation(1),
        };
        let param = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (1..=n).map(member).collect(),
            protocol: protocol.to_owned(),
            durability: Durability::Disk,
            seed: 7,
            params: params.iter().map(param).collect(),
        }
    }

    /// The code that follows, or why there is none.
    fn shrunk(epoch: &Epoch, gone: usize) -> String {
        match judge(&Registered, 1, epoch, gone) {
            ShrinkDecision::Enough => "enough".to_owned(),
            ShrinkDecision::None => "none".to_owned(),
            ShrinkDecision::Shrink(params) => params[CODE].clone(),
        }
    }

    /// Table 1 of RS-Paxos's paper, walked down: N, k, members gone, and the code that survives one more.
    #[test]
    fn the_largest_code_that_survives_one_more_failure_is_chosen() {
        let rows = [
            (5, "3", 0, "enough"),
            (5, "3", 1, "1"),
            (5, "1", 1, "enough"),
            (5, "1", 2, "enough"),
            (7, "5", 1, "3"),
            (7, "3", 1, "enough"),
            (7, "3", 2, "1"),
            (7, "5", 3, "none"),
            (9, "7", 1, "5"),
            (9, "7", 2, "3"),
            (9, "5", 3, "1"),
            (4, "2", 1, "none"),
            (3, "1", 1, "enough"),
        ];
        for (n, k, gone, expected) in rows {
            let epoch = epoch("rs-paxos", n, &[("k", k)]);
            assert_eq!(shrunk(&epoch, gone), expected, "{n},{k} without {gone}");
        }
        assert_eq!(
            shrunk(&epoch("rs-paxos", 5, &[]), 1),
            "1",
            "by default k = 3"
        );
    }

    /// The quorums of the profile flex are majorities whatever the code; other protocols have none.
    #[test]
    fn what_survives_one_more_failure_or_has_no_code_is_left_alone() {
        let flex = epoch("rs-paxos", 5, &[("profile", "flex")]);
        assert_eq!(shrunk(&flex, 1), "enough");
        for protocol in ["multi-paxos", "rabia"] {
            assert_eq!(shrunk(&epoch(protocol, 3, &[]), 1), "enough");
        }
    }

    #[test]
    fn a_member_is_gone_since_it_was_missed_first_and_the_next_replica_waits_longer() {
        let [two, three] = [2, 3].map(ReplicaId);
        let mut auto_shrink = AutoShrink::new(Reaction::ShrinkCode { after_ns: 500 });
        assert_eq!(auto_shrink.at(0), None);
        auto_shrink.watch(100, [three].into_iter());
        auto_shrink.watch(300, [two, three].into_iter());
        assert_eq!(
            (auto_shrink.at(0), auto_shrink.at(1)),
            (Some(600), Some(600 + STAGGER_NS))
        );
        auto_shrink.watch(400, [two].into_iter());
        assert_eq!(auto_shrink.at(0), Some(800));
        auto_shrink.watch(500, std::iter::empty());
        assert_eq!(auto_shrink.at(0), None);
        let mut asleep = AutoShrink::new(Reaction::Nothing);
        asleep.watch(100, [two].into_iter());
        assert_eq!(asleep.at(0), None);
    }
}
