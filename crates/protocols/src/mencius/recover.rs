//! Starting: new, with everything promised before, or without.
//!
//! A replica that starts again with its disk has its promises and what it accepted. Its own slots of earlier starts
//! it leaves to a phase 1 (`Replica::has_doubtful_slots`): something may have been suggested in each, even where
//! it has no record of it, for suggestions leave before records are durable. And it may have skipped each. It
//! neither suggests nor skips anything before the slots that were reserved.
//!
//! A replica that lost its promises writes that down first of all, for a log with nothing in it says at the next start
//! that nothing was ever promised. It learns what is decided, answers no question but by the decided log, and is one of
//! those that may fail, until an epoch replaces it.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use super::mutants::Fault;
use super::replica::Armed;
use super::state::{Lane, OwnLane};
use crate::shared::backlog::Backlog;
use crate::shared::ballot::Ballot;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::reads::ReadQueries;
use crate::shared::start::start_from;
use crate::shared::timers::Backoff;
use quorate_core::{MemberIndex, MemberSet, Now, Out, Past, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::empty(config, now, next, base, out);
        match records {
            Some(records) => replica.restore(records),
            None => {
                replica.is_silent = true;
                out.persist(Record::Lost);
            }
        }
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn empty(config: &Config, now: Now, next: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        let seating = &config.seating;
        let first_own = config.lanes().first_from(seating.me, next);
        Replica {
            is_silent: false,
            next,
            done,
            seen: next,
            lanes: seating.members.iter().map(|_| Lane::new()).collect(),
            slots: BTreeMap::new(),
            proposals: BTreeMap::new(),
            own: own_lane(first_own),
            untold: BTreeMap::new(),
            tells_noops: false,
            claim: Claim::default(),
            backlog: Backlog::default(),
            offers: Vec::new(),
            names: EntryNames::new(seating.my_id(), seating.boot),
            reads: ReadQueries::default(),
            disk: Disk::at_start(out.persisted()),
            patience: Default::default(),
            armed: Armed::default(),
            backoff: Backoff::default(),
            heard: MemberSet::EMPTY,
            has_moved: false,
            down: MemberSet::EMPTY,
            told_until_ns: vec![0; seating.members.len()],
            heard_until: next,
            told_skips: vec![next; seating.members.len()],
            now_ns: now.mono_ns,
            config: Arc::new(config.clone()),
        }
    }

    /// Takes records, in whatever order: of each slot that of the highest ballot counts, and so it is with promises
    /// and reservations.
    fn restore(&mut self, records: Vec<Record>) {
        let (mut reserved, end) = (self.own.from, self.horizon());
        for record in records {
            match record {
                Record::Accept {
                    slot,
                    ballot,
                    entry,
                } => {
                    self.restore_promise(self.lanes().owner(slot), ballot);
                    self.restore_accepted(slot, ballot, Some(entry));
                }
                Record::Noops { span, ballot } => {
                    self.restore_promise(self.lanes().owner(span.first), ballot);
                    for slot in self.lanes().slots_of(span, self.next, end) {
                        self.restore_accepted(slot, ballot, None);
                    }
                }
                Record::Promise { lane, ballot } => self.restore_promise(lane, ballot),
                Record::Reserve { until } => reserved = reserved.max(until),
                // It wrote nothing since, and nothing before counts.
                Record::Lost => self.is_silent = true,
            }
        }
        let mut held = self.slots.iter().rev();
        if let Some((last, _)) = held.find(|(_, held)| held.has_entry()) {
            // What was accepted may be decided: this replica asks.
            self.seen = last.next();
        }
        if !self.fault(Fault::NoReserve) {
            self.own = own_lane(self.first_own(reserved));
        }
    }

    fn restore_accepted(&mut self, slot: Slot, ballot: Ballot, value: super::state::Value) {
        if slot < self.next {
            return;
        }
        let held = self.slots.entry(slot).or_default();
        if held
            .accepted
            .as_ref()
            .is_none_or(|(known, _)| *known < ballot)
        {
            held.accepted = Some((ballot, value));
        }
    }

    fn restore_promise(&mut self, lane: MemberIndex, ballot: Ballot) {
        if let Some(lane) = self.lanes.get_mut(lane.position()) {
            lane.promised = lane.promised.max(ballot);
            lane.highest = lane.highest.max(ballot);
        }
    }
}

/// The own lane at a start: nothing of it was used, and nothing before `from` will be.
fn own_lane(from: Slot) -> OwnLane {
    OwnLane {
        from,
        next: from,
        suggested: BTreeSet::new(),
        reserved: from,
        reserved_durable: from,
        settled: from,
        announced: from,
    }
}
