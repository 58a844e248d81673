//! The log of a new view, of what `f + 1` replicas promised.
//!
//! Why deadlines order the survivors: within a view, what conflicts is in deadline order at every replica,
//! and an entry that was committed fast has, on its whole quorum, exactly the leader's predecessors among
//! what conflicts with it. So these pass the threshold too, and nothing else that is smaller and conflicts
//! does.

use super::Replica;
use super::digest::{Bounds, Footprint, Tup};
use super::leader::Appended;
use super::log::Item;
use super::messages::Message;
use super::messages::{Placed, Vc};
use super::mutants::Fault;
use super::replica::Status;
use crate::shared::faults::Faults;
use quorate_core::{Base, EntryId, Event, MemberIndex, Out, Peers, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// What comes of the promises, before bodies are looked at.
#[derive(Debug, PartialEq)]
pub(super) struct Merged {
    /// The longest synced log of the last view, from the first slot not delivered here on.
    base: Vec<Placed>,
    /// What enough have unsynced.
    candidates: Vec<Placed>,
}

impl Replica {
    /// Starts the view, if enough left earlier ones.
    pub(super) fn try_start(&mut self, out: &mut Out<Self>) {
        if self.status != Status::ViewChange || self.leader() != self.config.me {
            return;
        }
        let cv = &self.cv;
        let is_of_last_life =
            |from: MemberIndex, vc: &Vc| vc.cv.get(from.position()) >= cv.get(from.position());
        self.change
            .said
            .retain(|from, vc| is_of_last_life(*from, vc));
        if self.change.said.len() + 1 < self.config.thresholds.slow {
            return;
        }
        let furthest = self.change.said.iter().max_by_key(|(_, vc)| vc.first);
        if let Some((member, vc)) = furthest.filter(|(_, vc)| vc.first > self.ap) {
            // Decided, and held by that one at least.
            out.emit(Event::Branch("behind those who left"));
            return out.catch_up(self.config.members[*member], Slot(vc.first.0 - 1));
        }
        let own = self.vc();
        let survive = self.config.thresholds.survive;
        let merged = merge(
            self.ap,
            self.change.said.values().chain([&own]),
            survive,
            self.config.faults,
        );
        let named = merged.base.iter().chain(&merged.candidates);
        let missing = named.map(|placed| placed.id);
        let missing = missing.filter(|id| self.body_of(*id).is_none() && !self.done.contains(*id));
        let missing: Vec<EntryId> = missing.collect();
        if missing.is_empty() {
            self.start_view_with(&merged, out);
        } else {
            self.ask_bodies(Peers::All, missing, out);
        }
    }

    fn start_view_with(&mut self, merged: &Merged, out: &mut Out<Self>) {
        let base = self.items(&merged.base);
        let candidates = self.items(&merged.candidates);
        let items = survivors(base, candidates, self.config.faults, |id| {
            self.done.contains(id)
        });
        out.emit(Event::Branch("view started"));
        let orphans = self.enter(items, out);
        self.log.sums = Some(super::Sums::default());
        let end = self.end();
        self.lead.said = end;
        self.lead.said_cp = self.cp;
        self.lead.sealed = out.persisted();
        self.disk.append(out.persisted(), end);
        if self.config.n() > 1 {
            let start = self.start_view(0);
            out.send(Peers::All, Message::StartView(start));
        }
        for (item, slot) in self.log.items.clone().into_iter().zip(self.ap.0..) {
            self.execute(Slot(slot), Appended::new(item.tup, 0), &item.body, out);
        }
        for body in orphans {
            self.adopt(body.clone());
            self.append_late(body, out);
        }
        for body in self.bodies.drain() {
            if !self.done.contains(body.entry.id) {
                self.append_late(body, out);
            }
        }
    }
}

/// Who was in normal operation last decides: all synced logs of that view are prefixes of one.
fn merge<'a>(
    ap: Slot,
    said: impl Iterator<Item = &'a Vc>,
    survive: usize,
    faults: Faults<Fault>,
) -> Merged {
    let said: Vec<&Vc> = said.collect();
    let lnv = said.iter().map(|vc| vc.lnv).max();
    let said: Vec<&Vc> = said.into_iter().filter(|vc| Some(vc.lnv) == lnv).collect();
    let end = |vc: &&Vc| vc.first.0 + vc.log.len() as u64;
    let longest = said.iter().copied().max_by_key(end);
    let base = longest.map_or(Vec::new(), |vc| {
        let skipped = (ap.0.saturating_sub(vc.first.0) as usize).min(vc.log.len());
        vc.log[skipped..].to_vec()
    });
    let mut counts: BTreeMap<Tup, usize> = BTreeMap::new();
    for vc in &said {
        // Each sender counts once.
        let un: BTreeSet<Tup> = vc.un.iter().map(tup).collect();
        un.into_iter()
            .for_each(|tup| *counts.entry(tup).or_default() += 1);
    }
    let in_base: BTreeSet<EntryId> = base.iter().map(|placed| placed.id).collect();
    // Of two versions of one entry the one that more have, then the smaller one: with `f + 1` only one
    // can survive.
    let mut versions: BTreeMap<EntryId, (usize, u64)> = BTreeMap::new();
    for (tup, count) in counts {
        if count >= survive && (!in_base.contains(&tup.id) || faults.is(Fault::KeepOtherVersions)) {
            let best = versions.entry(tup.id).or_insert((count, tup.deadline));
            if count > best.0 {
                *best = (count, tup.deadline);
            }
        }
    }
    let candidates = versions
        .into_iter()
        .map(|(id, (_, deadline))| Placed { id, deadline });
    Merged {
        base,
        candidates: candidates.collect(),
    }
}

/// The log: the base, and behind it what survives, by deadline. What conflicts with something larger in
/// the base was not committed: per bucket, for with commutativity the base as a whole is not in order.
fn survivors(
    base: Vec<Item>,
    mut candidates: Vec<Item>,
    faults: Faults<Fault>,
    is_decided: impl Fn(EntryId) -> bool,
) -> Vec<Item> {
    let mut bounds = Bounds::default();
    for item in &base {
        bounds.raise(&item.body.footprint, item.tup);
    }
    candidates.retain(|item| match faults.is(Fault::GlobalFilter) {
        false => bounds.bound(&item.body.footprint) < item.tup,
        true => bounds.bound(&Footprint::All) < item.tup,
    });
    candidates.sort_by_key(|item| item.tup);
    let mut all: Vec<Item> = base.into_iter().chain(candidates).collect();
    all.retain(|item| !is_decided(item.tup.id));
    all
}

fn tup(placed: &Placed) -> Tup {
    Tup {
        deadline: placed.deadline,
        id: placed.id,
    }
}
