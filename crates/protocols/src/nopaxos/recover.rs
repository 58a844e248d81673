//! Starting: new, with everything promised before, or without.
//!
//! A follower that starts again with its disk goes on as if it had been slow. A leader does not: it may have given up
//! a slot and not know it (N-S5), and what it executed is gone; it leaves its view. Nor does a sequencer: which
//! numbers it gave it does not know (N-S4); it leaves its session.
//!
//! A replica that lost its promises writes that down first of all, for a log with nothing in it says at the next
//! start that nothing was ever promised. It learns what is decided, from hosts alone, and is one of those that may
//! fail, until an epoch replaces it.

use super::Replica;
use super::change::Change;
use super::config::Config;
use super::gaps::Gaps;
use super::gateway::Gateway;
use super::log::Log;
use super::messages::{Record, Value, View};
use super::mutants::Fault;
use super::sequencer::Sequencer;
use super::sync::Lead;
use super::waits::Waits;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::start::start_from;
use quorate_core::{Lsn, Now, Out, Past, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let is_new = matches!(past, Past::Fresh);
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut it = Replica::at(config, now, next, base, out);
        match records {
            None => it.is_silent = true,
            Some(records) => it.restore(records),
        }
        if it.is_silent {
            out.persist(Record::Lost);
        } else if is_new {
            it.write_view(out);
            it.sequencer.sealed = out.persisted();
        } else {
            it.resume(out);
        }
        it.run_to_fixpoint(out);
        it
    }

    fn at(config: &Config, now: Now, next: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        let seating = &config.seating;
        Replica {
            is_silent: false,
            view: View::FIRST,
            last_normal: View::FIRST,
            log: Log::at(next, seating.first_slot),
            done,
            early: BTreeMap::new(),
            gaps: Gaps::default(),
            lead: Lead::at(config, next),
            change: Change::default(),
            sequencer: Sequencer {
                barred: 0,
                session: View::FIRST.session,
                number: 0,
                sealed: Lsn(0),
            },
            gateway: Gateway::new(EntryNames::new(seating.my_id(), seating.boot)),
            disk: Disk::at_start(out.persisted()),
            waits: Waits::default(),
            claim: Claim::default(),
            now,
            config: Arc::new(config.clone()),
        }
    }

    /// Takes records, in whatever order. Of the log those count that are of the last view taken part in, without a gap
    /// between them.
    fn restore(&mut self, records: Vec<Record>) {
        let mut placed: Vec<(View, Slot, Value)> = Vec::new();
        for record in records {
            match record {
                Record::Place { view, slot, value } => placed.push((view, slot, value)),
                Record::Again { view, slot, entry } => placed.push((view, slot, Some(entry))),
                Record::View {
                    view,
                    last_normal,
                    stamps_from,
                } => {
                    (self.view, self.last_normal) = (view, last_normal);
                    self.log.stamps_from = stamps_from;
                }
                // Nothing was written since, and nothing before counts.
                Record::Lost => self.is_silent = true,
            }
        }
        let mut log: BTreeMap<Slot, Value> = BTreeMap::new();
        placed.retain(|(view, ..)| *view == self.last_normal && !self.is_silent);
        for (_, slot, value) in placed {
            let held = log.entry(slot).or_insert_with(|| value.clone());
            if value.is_none() {
                *held = None;
            }
        }
        for (slot, value) in log {
            if slot == self.log.end() {
                self.lead.noops.extend(value.is_none().then_some(slot));
                self.log.push(value);
            }
        }
    }

    /// Goes on in the view, or leaves it.
    fn resume(&mut self, out: &mut Out<Self>) {
        let (me, view) = (self.config.seating.me, self.view);
        let mut to = view;
        if self.leader() == me {
            to.lead = self.turn_after(view.lead);
        }
        if !self.fault(Fault::ReuseSession) {
            self.sequencer.barred = view.session;
            if self.config.sequencer(view) == me {
                to.session = self.turn_after(view.session);
            }
        } else {
            let number = self.log.number(self.log.end());
            (self.sequencer.session, self.sequencer.number) = (view.session, number);
        }
        if to != view {
            self.start_change(to, out);
        } else if !self.is_normal() {
            self.postpone_leader(out);
            self.say_change(self.others(), out);
        }
    }
}
