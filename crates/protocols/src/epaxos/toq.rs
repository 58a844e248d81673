//! Timestamp-ordered queueing (TOQ, *EPaxos Revisited*, NSDI'21), and whom a new entry goes to.
//!
//! With `toq_us` a coordinator names the members of a fast quorum and the time at which they keep the entry, itself
//! among them, so that all see conflicting entries in one order. Each finds dependencies of its own then: there are
//! none that the coordinator began with, to compare with those that a recovery finds. So an entry is committed on the
//! fast path if all of the named quorum found the same, and a recovery goes on with what all of it found that are
//! heard.

use super::Replica;
use super::config::Queueing;
use super::messages::{PreAccept, Said, Shown};
use super::mutants::Fault;
use super::state::{Deps, Instance, Known, Lead, Phase, PreAccepting};
use quorate_core::{Entry, EntryId, MemberIndex, MemberSet, Out};
use std::collections::{BTreeMap, BTreeSet};

/// A value that may have been committed on the fast path.
pub(super) struct Candidate {
    pub(super) entry: Entry,
    pub(super) deps: Deps,
    /// How many of those who were heard kept it so.
    pub(super) kept_by: usize,
}

impl Replica {
    /// Begins an instance of an own entry that is held everywhere. It leaves at once: what it goes behind is not known
    /// yet, and one that its coordinator forgets makes nothing void (`mod.rs`).
    pub(super) fn propose_held(
        &mut self,
        entry: Entry,
        deps: Deps,
        queueing: Queueing,
        out: &mut Out<Self>,
    ) {
        let (id, me, sent_ns) = (entry.id, self.config.seating.me, self.now.clock_ns);
        let quorum = self.nearest_quorum();
        let others = quorum - MemberSet::only(me);
        let one_way = others.iter().map(|member| self.one_way_ns(member));
        let reach_ns = one_way.max().unwrap_or(0);
        let asked = self.asked_first(quorum);
        let instance = self.instances.entry(id).or_default();
        instance.is_coordinating = true;
        instance.quorum = quorum;
        instance.unasked = self.config.seating.others() - asked;
        instance.lead = Lead::PreAccepting(PreAccepting::default());
        let keep_at_ns = sent_ns.saturating_add(reach_ns + queueing.added_ns);
        let it = PreAccept {
            entry,
            deps,
            quorum,
            keep_at_ns,
            sent_ns,
        };
        self.say(asked, Said::PreAccept(it.clone()), out);
        self.hold(me, it, out);
    }

    /// This replica and those that its messages reach first, as many as commit an entry on the fast path; members to
    /// which links are down last of all.
    pub(super) fn nearest_quorum(&self) -> MemberSet {
        let seating = &self.config.seating;
        let (n, me) = (seating.members.len(), seating.me.position());
        let distance = |member: &MemberIndex| {
            let is_down = self.down.contains(*member);
            let places = (member.position() + n - me) % n;
            (is_down, self.one_way_ns(*member), places)
        };
        let mut nearest: Vec<MemberIndex> = seating.others().iter().collect();
        nearest.sort_by_key(distance);
        nearest.truncate(self.config.thresholds.fast.saturating_sub(1));
        MemberSet::only(seating.me) | nearest.into_iter().collect()
    }

    /// How long messages take to a member, as its clock shows.
    fn one_way_ns(&self, member: MemberIndex) -> u64 {
        let default_ns = self.config.queueing.map_or(0, |it| it.one_way_ns);
        self.queue.lags.one_way_to(member, default_ns)
    }

    /// Who is asked to keep a new entry before something is said again.
    pub(super) fn asked_first(&self, quorum: MemberSet) -> MemberSet {
        let others = self.config.seating.others();
        match self.config.is_thrifty {
            true => quorum & others,
            false => others,
        }
    }

    /// Whether a coordinator may name a fast quorum.
    pub(super) fn may_name(&self, coordinator: MemberIndex, quorum: MemberSet) -> bool {
        let all = MemberSet::first(self.config.seating.members.len());
        match self.config.queueing {
            None => quorum.is_empty(),
            Some(_) => {
                let is_enough = quorum.len() == self.config.thresholds.fast;
                is_enough && quorum.is_subset(all) && quorum.contains(coordinator)
            }
        }
    }

    /// What may have been committed on the fast path, where entries are held: if all of the named quorum that are heard
    /// keep the entry behind the same. As many as are heard share a member with it.
    pub(super) fn unanimous(&self, answers: &BTreeMap<MemberIndex, Known>) -> Option<Candidate> {
        let is_kept = |shown: &Shown| shown.phase == Phase::PreAccepted;
        let mut shown = answers.values().map(|known| &known.0);
        let quorum = shown.find(|shown| is_kept(shown))?.quorum;
        let of_quorum = answers
            .iter()
            .filter(|(member, _)| quorum.contains(**member));
        let mut of_quorum: Vec<&Shown> = of_quorum.map(|(_, known)| &known.0).collect();
        let takes_any = self.fault(Fault::AnyOfQuorum);
        if takes_any {
            of_quorum.retain(|shown| is_kept(shown));
        }
        let first = *of_quorum.first()?;
        let is_same = |shown: &&Shown| is_kept(shown) && shown.deps == first.deps;
        (takes_any || of_quorum.iter().all(is_same)).then(|| {
            let entry = first.entry.clone()?;
            let (deps, kept_by) = (first.deps.clone(), of_quorum.len());
            Some(Candidate {
                entry,
                deps,
                kept_by,
            })
        })?
    }
}

impl Instance {
    /// Somebody recovers it and waits for others, with a value that goes behind these.
    pub(super) fn note_waits_behind(&mut self, behind: BTreeSet<EntryId>) {
        match &mut self.waits_behind {
            Some(all) => all.retain(|id| behind.contains(id)),
            None => self.waits_behind = Some(behind),
        }
    }

    /// Whether another entry, which does not go behind it, cannot have been committed on the fast path: somebody found
    /// that all of its own fast quorum that are heard keep it, and not behind that other one. One of them is in the
    /// other fast quorum, too, and kept one of the two first.
    pub(super) fn rules_out(&self, other: EntryId) -> bool {
        let behind = self.waits_behind.as_ref();
        behind.is_some_and(|behind| !behind.contains(&other))
    }
}
