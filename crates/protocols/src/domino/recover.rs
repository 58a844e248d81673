//! Starting: new, with everything promised before, or without.
//!
//! A replica that starts again with its disk leads nothing: it may have asked for more, by ballots and at stamps of its
//! own, than its records show. It uses neither again: its own lane, too, it takes by a phase 1. Nor does it vote up to
//! what it had reserved. Which time its first undelivered slot has it asks the others. Where nobody knows, lanes are
//! decided anew from the beginning: entries that are delivered may be missing in what is shown then, which changes
//! nothing for those that have delivered them, and leaders wait until they have.
//!
//! A replica that lost its promises writes that down first of all, and then learns, and is one of those that may fail,
//! until an epoch replaces it.

use super::Replica;
use super::config::Config;
use super::gateway::Gateway;
use super::lanes::{Lane, Lead, Leading};
use super::messages::{Held, LaneNo, Mark, Place, Record, Round, Stamp};
use super::mutants::Fault;
use super::owner::Own;
use super::replica::Armed;
use crate::shared::ballot::Ballot;
use crate::shared::claim::Fetcher;
use crate::shared::clients::Clients;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::start::start_from;
use crate::shared::timers::Backoff;
use quorate_core::{Entry, MemberSet, Now, Out, Past, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let is_new = matches!(past, Past::Fresh);
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::beginning_at(next, base, config, out);
        (replica.now_ns, replica.clock_ns) = (now.mono_ns, now.clock_ns);
        match records {
            Some(records) => replica.restore_all(records),
            None => {
                replica.is_silent = true;
                out.persist(Record::Lost);
            }
        }
        if is_new || replica.fault(Fault::ReuseLane) {
            replica.lead_first();
        } else {
            replica.ask_for_time(out);
        }
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn beginning_at(next: Slot, done: DecidedSet, config: &Config, out: &Out<Self>) -> Replica {
        let members = config.seating.members.len();
        let count = members + usize::from(config.has_fast_lane());
        let lanes = (0..count as u8).map(|no| Lane::new(LaneNo(no), config.seating.first_slot));
        let mut replica = Replica {
            is_silent: false,
            lanes: lanes.collect(),
            next,
            done,
            walk: Stamp(0),
            ahead: Mark::default(),
            fetcher: Fetcher::default(),
            waits: BTreeMap::new(),
            filled: Stamp(0),
            said: None,
            forced: Stamp(0),
            own: Own::default(),
            reserved: Stamp(0),
            reserved_durable: Stamp(0),
            latest: Stamp(0),
            clients: Clients::new(&config.seating),
            gateway: Gateway::default(),
            counted: BTreeMap::new(),
            down: MemberSet::EMPTY,
            disk: Disk::at_start(out.persisted()),
            armed: Armed::default(),
            backoff: Backoff::default(),
            inbox: Vec::new(),
            now_ns: 0,
            clock_ns: 0,
            config: Arc::new(config.clone()),
        };
        if let Some(no) = replica.fast_lane() {
            replica.lane_mut(no).round = Some(Round {
                ballot: Ballot::default(),
                nat: Stamp(0),
            });
        }
        replica
    }

    /// In a new epoch, lanes have leaders that need no promises.
    fn lead_first(&mut self) {
        for no in self.lane_numbers() {
            let is_unused = self.lane(no).promised == Ballot::default();
            if self.first_leader(no) == self.me() && is_unused {
                let leading = Leading::new(Ballot::default(), Stamp(0));
                self.lane_mut(no).lead = Lead::Leading(leading);
            }
        }
    }

    fn restore_all(&mut self, records: Vec<Record>) {
        let mut entries = Vec::new();
        for record in records {
            match record {
                Record::Entry(entry, places) => entries.push((entry, places)),
                Record::Reserve(until) => self.reserved = self.reserved.max(until),
                Record::Lane(record) if usize::from(record.lane.0) < self.lanes.len() => {
                    let lane = self.lane_mut(record.lane);
                    (lane.promised, lane.highest) = (record.promised, record.promised);
                    (lane.steps, lane.round) = (record.steps, record.round);
                }
                Record::Lane(_) => {}
                // It wrote nothing since, and nothing before counts.
                Record::Lost => self.is_silent = true,
            }
        }
        if self.is_silent {
            return self.forget_promises();
        }
        self.reserved_durable = self.reserved;
        (self.own.from, self.own.last) = (self.reserved, self.reserved);
        if self.fault(Fault::ReuseLane) {
            self.own = Own::default();
        }
        for (entry, places) in entries {
            places
                .into_iter()
                .for_each(|place| self.restore(&entry, place));
        }
        let reserved = self.reserved;
        for lane in &mut self.lanes {
            if let Some(round) = &mut lane.round {
                round.nat = round.nat.max(reserved);
            }
        }
        let ends = self.lanes.iter().map(Lane::end);
        self.latest = ends.max().unwrap_or_default().max(reserved);
    }

    /// Nothing of what was promised counts.
    fn forget_promises(&mut self) {
        let first = self.config.seating.first_slot;
        for lane in &mut self.lanes {
            let round = lane.round.map(|_| Round {
                ballot: Ballot::default(),
                nat: Stamp(0),
            });
            *lane = Lane::new(lane.no, first);
            lane.round = round;
        }
        self.reserved = Stamp(0);
    }

    /// Takes one vote for an entry, in whatever order they come: hosts write old ones again, behind newer ones. What a
    /// leader had accepted later, by the same ballot or a higher one, has replaced it.
    fn restore(&mut self, entry: &Entry, place: Place) {
        if usize::from(place.lane.0) >= self.lanes.len() {
            return;
        }
        let (stamp, id) = (place.stamp, entry.id);
        let held = Held {
            ballot: place.ballot,
            is_classic: place.is_classic,
            id,
        };
        let lane = self.lane_mut(place.lane);
        let step = lane.steps.iter().find(|step| step.through >= stamp);
        let rank = |held: &Held| (held.ballot, held.is_classic);
        let is_void = step.is_some_and(|step| rank(&held) < (step.ballot, true));
        let is_outdone = lane
            .held
            .get(&stamp)
            .is_some_and(|known| rank(known) > rank(&held));
        let is_old = lane
            .round
            .is_some_and(|round| !held.is_classic && held.ballot < round.ballot);
        if is_void || is_outdone || is_old {
            return;
        }
        lane.held.insert(stamp, held);
        lane.bodies.insert((stamp, id), entry.clone());
        self.note_wait(stamp);
    }
}
