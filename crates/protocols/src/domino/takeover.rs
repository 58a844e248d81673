//! Who leads a lane: suspicion, one phase 1 for all positions of the lane that are not delivered, and what a new leader
//! proposes.
//!
//! Time decides only when somebody stands, never who has won.

use super::Replica;
use super::decide::{decide, shown};
use super::lanes::{Lead, Leading, Preparing};
use super::messages::{LaneNo, Message, Placed, Promise, Stamp, Timer};
use super::mutants::Fault;
use super::replica::Written;
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, ReplicaId, Slot};
use std::collections::BTreeMap;

/// Election timers in a row at which whoever fills a lane is heard and gets nothing done.
const STRIKES_MAX: u32 = 8;

impl Replica {
    /// Whether something here waits for others.
    pub(super) fn is_waiting(&self) -> bool {
        let has_orphans = !self.is_silent && !self.gateway.orphans.is_empty();
        !self.waits.is_empty() || self.clients.are_waiting() || has_orphans
    }

    /// Whether a lane holds up what waits.
    fn is_awaited(&self, no: LaneNo) -> bool {
        let last = self.waits.keys().next_back().copied();
        last.is_some_and(|last| self.lane(no).decided < last)
    }

    /// Whether own entries wait for the own lane.
    fn wants_own_lane(&self) -> bool {
        let mut standings = self.gateway.standings.values();
        let fast = self.fast_lane();
        let is_fast = |place: Option<(LaneNo, Stamp)>| place.is_none_or(|(no, _)| Some(no) == fast);
        let has_own = standings.any(|of| of.is_own && is_fast(of.place));
        has_own || !self.gateway.orphans.is_empty()
    }

    /// Takes lanes back that are this replica's to fill, at once, and has the election timer run while it waits for
    /// others.
    pub(super) fn watch_leaders(&mut self, out: &mut Out<Self>) {
        if self.is_silent {
            return;
        }
        for no in self.lane_numbers() {
            let lane = self.lane(no);
            let is_free = matches!(lane.lead, Lead::None) && !lane.is_barred;
            let is_own = no == self.my_lane();
            let is_mine = is_own || self.leader_of(no, lane.promised) == Some(self.me());
            let is_wanted = self.is_awaited(no) || is_own && self.wants_own_lane();
            if is_free && is_mine && is_wanted {
                self.campaign(no, out);
            }
        }
        if !self.armed.election && self.is_waiting() {
            self.armed.election = true;
            let timeout_ns = self.config.delays.election_ns;
            out.arm(Timer::Election, Due::Within(timeout_ns..=2 * timeout_ns));
        }
    }

    /// The time for a sign of life is over: takes over what holds something up and is filled by nobody.
    pub(super) fn on_election(&mut self, out: &mut Out<Self>) {
        self.armed.election = false;
        for no in self.lane_numbers() {
            let is_awaited = self.is_awaited(no);
            let lane = self.lane_mut(no);
            let (was_heard, has_moved) = (lane.is_heard, lane.has_moved);
            (lane.is_heard, lane.has_moved, lane.is_barred) = (false, false, false);
            lane.strikes = if has_moved || !is_awaited {
                0
            } else {
                lane.strikes + 1
            };
            let is_patient = has_moved || was_heard && lane.strikes <= STRIKES_MAX;
            let is_free = matches!(lane.lead, Lead::None);
            if is_awaited && is_free && !is_patient && !self.is_silent {
                out.emit(Event::Branch("lane taken over"));
                self.campaign(no, out);
            }
        }
    }

    /// The group prefers a member as its leader: that one takes the fast lane.
    pub(super) fn on_prefer(&mut self, member: ReplicaId, out: &mut Out<Self>) {
        let is_me = member == self.config.seating.my_id();
        let lane = self.fast().filter(|lane| lane.leading().is_none());
        if let Some(no) = lane.map(|lane| lane.no)
            && is_me
            && !self.is_silent
        {
            self.campaign(no, out);
        }
    }

    /// Begins a ballot of this replica in a lane, higher than all heard of.
    fn campaign(&mut self, no: LaneNo, out: &mut Out<Self>) {
        let lane = self.lane(no);
        let last = lane.highest.round.max(lane.promised.round);
        let Some(round) = last.checked_add(1) else {
            return;
        };
        let node = self.config.seating.my_id();
        let ballot = Ballot { round, node };
        self.raise(no, ballot, out);
        let lane = self.lane_mut(no);
        lane.highest = ballot;
        lane.strikes = 0;
        lane.is_barred = false;
        lane.lead = Lead::Preparing(Preparing {
            ballot,
            is_written: false,
            promises: BTreeMap::new(),
        });
        let written = Written::Candidacy { lane: no, ballot };
        self.disk.push(out.persisted(), written);
        self.say_prepare(no, self.others(), out);
    }

    /// Asks members for promises that have not given them.
    pub(super) fn say_prepare(&self, no: LaneNo, to: MemberSet, out: &mut Out<Self>) {
        if let Lead::Preparing(phase) = &self.lane(no).lead {
            let message = Message::Prepare(no, phase.ballot);
            let lacks = |member: &MemberIndex| !phase.promises.contains_key(member);
            for member in to.iter().filter(lacks) {
                out.send(self.peer(member), message.clone());
            }
        }
    }

    /// A promise of a member.
    pub(super) fn on_promise(&mut self, from: MemberIndex, promise: Promise, out: &mut Out<Self>) {
        let no = promise.lane;
        let is_fit = promise.shown.iter().all(|shown| self.is_fit(&shown.entry));
        if usize::from(no.0) >= self.lanes.len() || !is_fit {
            return self.misbehaved(from, "a promise about what cannot be", out);
        }
        if let Lead::Preparing(phase) = &mut self.lane_mut(no).lead
            && phase.ballot == promise.ballot
        {
            phase.promises.insert(from, promise);
            self.lead_if_elected(no, out);
        }
    }

    /// Leads a lane if a majority, this replica included, has promised, and this replica has delivered all that they
    /// have.
    pub(super) fn lead_if_elected(&mut self, no: LaneNo, out: &mut Out<Self>) {
        let Lead::Preparing(phase) = &self.lane(no).lead else {
            return;
        };
        let count = phase.promises.len() + usize::from(phase.is_written);
        if !phase.is_written || count < self.config.thresholds.promise {
            return;
        }
        let ahead = phase.promises.iter().max_by_key(|(_, of)| of.mark.next);
        if let Some((member, next)) = ahead.map(|(member, of)| (*member, of.mark.next))
            && next > self.next
        {
            out.emit(Event::Branch("candidate behind"));
            let from = self.config.seating.members[member];
            return out.catch_up(from, Slot(next.0 - 1));
        }
        let walks = phase.promises.values().map(|of| of.mark.walk);
        let walk = walks.max().unwrap_or_default();
        self.jump(walk);
        self.lead(no, out);
    }

    /// Leads a lane: proposes what promises showed, and nothing elsewhere.
    fn lead(&mut self, no: LaneNo, out: &mut Out<Self>) {
        let lead = std::mem::replace(&mut self.lane_mut(no).lead, Lead::None);
        let Lead::Preparing(phase) = lead else {
            return;
        };
        let own = self.promise_of(no, phase.ballot);
        let me = self.me();
        let promises: BTreeMap<MemberIndex, &Promise> = phase
            .promises
            .iter()
            .map(|(at, promise)| (*at, promise))
            .chain([(me, &own)])
            .collect();
        let n = self.config.seating.members.len();
        let enough = self.config.thresholds.shown(promises.len(), n);
        let mut placed = Vec::new();
        for (stamp, entries) in shown(&promises, self.walk) {
            let value = decide(&promises, stamp, |of| self.leader_of(no, of), enough);
            let value = value.filter(|_| !self.fault(Fault::IgnoreShown));
            let entry = entries.into_iter().find(|entry| Some(entry.id) == value);
            if let Some(entry) = entry.cloned() {
                out.emit(Event::Branch("position proposed again"));
                placed.push(Placed { stamp, entry });
            }
        }
        let ends = promises.values().map(|promise| end_of(promise));
        let behind = if no == self.my_lane() {
            self.own.from.max(self.own.last)
        } else {
            Stamp(0)
        };
        let through = ends.max().unwrap_or_default().max(behind).max(self.walk);
        for one in &placed {
            // What is shown is kept, whatever room there is: it may be chosen.
            let key = (one.stamp, one.entry.id);
            self.lane_mut(no).bodies.insert(key, one.entry.clone());
            self.note_wait(one.stamp);
        }
        let next = self.next;
        let lane = self.lane_mut(no);
        lane.since = lane.since.max(next);
        lane.lead = Lead::Leading(Leading::new(phase.ballot, through));
        if no == self.my_lane() {
            self.own.last = self.own.last.max(through);
        }
        self.want(no, self.walk, through, placed, out);
    }

    /// A member says up to where positions are delivered with which slots: what is before its slot is here.
    pub(super) fn jump(&mut self, walk: Stamp) {
        if walk > self.walk {
            self.note_orphans(walk);
            self.walk = walk;
            for lane in &mut self.lanes {
                lane.jump(walk);
                lane.trim(walk);
            }
            self.waits = self.waits.split_off(&walk.next());
            self.backoff.moved();
        }
    }
}

/// The last position of which a promise shows anything.
fn end_of(promise: &Promise) -> Stamp {
    let steps = promise.steps.last().map(|step| step.through);
    let nat = promise.round.map(|round| round.nat);
    let shown = promise.shown.iter().map(|shown| shown.stamp).max();
    let all = [steps, nat, shown, Some(promise.mark.walk)];
    all.into_iter().flatten().max().unwrap_or_default()
}
