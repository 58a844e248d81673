//! The acceptor: what leaders of lanes want, and promises.

use super::Replica;
use super::messages::{
    Accept, Accepted, LaneNo, LaneRecord, Message, Place, Promise, Record, Shown, Stamp,
};
use super::mutants::Fault;
use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use crate::shared::peers::Member;
use quorate_core::{ENTRY_BYTES_MAX, Entry, EntryId, Event, MemberIndex, Out};

impl Replica {
    /// Whether an entry can be ordered.
    pub(super) fn is_fit(&self, entry: &Entry) -> bool {
        let is_whole = entry.told().is_none() && entry.bulk_len() == 0;
        let origin = self.config.seating.member(entry.id.origin);
        is_whole && origin.is_some() && entry.body_len() <= ENTRY_BYTES_MAX
    }

    /// Whether a lane exists, and a ballot of it is one of this member.
    pub(super) fn is_led_by(&self, from: MemberIndex, lane: LaneNo, ballot: Ballot) -> bool {
        usize::from(lane.0) < self.lanes.len() && self.leader_of(lane, ballot) == Some(from)
    }

    /// Keeps an entry for a position until that is delivered. What a leader asks for always is: leaders have no more
    /// entries under way than their gateways may have.
    pub(super) fn keep_body(&mut self, lane: LaneNo, stamp: Stamp, entry: Entry) {
        if stamp > self.walk {
            let key = (stamp, entry.id);
            self.lane_mut(lane).bodies.insert(key, entry);
        }
    }

    /// Whether there is room for an entry that nobody has a vote for.
    pub(super) fn has_room(&self) -> bool {
        let kept: usize = self.lanes.iter().map(|lane| lane.bodies.len()).sum();
        (kept as u64) < self.config.slots_max
    }

    /// What the leader of a lane wants in it.
    pub(super) fn on_accept(&mut self, from: MemberIndex, accept: Accept, out: &mut Out<Self>) {
        let (lane, ballot) = (accept.lane, accept.ballot);
        let is_fit = accept.placed.iter().all(|one| self.is_fit(&one.entry));
        if !self.is_led_by(from, lane, ballot) || !is_fit {
            return self.misbehaved(from, "another's lane, or an entry that cannot be", out);
        }
        if ballot < self.lane(lane).promised && !self.is_silent {
            return self.say_nack(from, lane, out);
        }
        self.lane_mut(lane).is_heard = true;
        let walk = self.walk;
        for placed in accept.placed.iter().filter(|one| one.stamp > walk) {
            self.keep_body(lane, placed.stamp, placed.entry.clone());
            self.note_wait(placed.stamp);
        }
        if self.is_silent {
            return;
        }
        self.raise(lane, ballot, out);
        let of_leader = self.lane(lane).accepted_of(ballot);
        let is_new = of_leader.is_none_or(|through| through < accept.through);
        let follows = accept.prev <= of_leader.unwrap_or_default().max(self.walk);
        let is_behind = self.next < accept.since && !self.fault(Fault::IgnoreSince);
        if is_behind || !follows {
            out.emit(Event::Branch("accept ahead"));
            self.fetcher.note(from, accept.since);
            return;
        }
        if is_new {
            self.take_over_into(lane, &accept, out);
        }
        let message = Message::Accepted(Accepted {
            lane,
            ballot,
            through: self.lane(lane).accepted_of(ballot).unwrap_or_default(),
            probe: self.probe(accept.sent_ns),
        });
        out.send(self.peer(from), message);
    }

    /// Accepts what a leader, maybe this replica, wants, and writes that down.
    pub(super) fn take_over_into(&mut self, lane: LaneNo, accept: &Accept, out: &mut Out<Self>) {
        let walk = self.walk;
        let new = self.lane_mut(lane).accept(accept, walk);
        let last = accept.placed.last().map(|one| one.stamp);
        self.latest = self.latest.max(last.unwrap_or_default());
        for id in new {
            self.write_entry(id, out);
        }
        self.write_lane(lane, out);
    }

    /// Writes down where an entry has votes of this replica, unless it is delivered: hosts would keep that for ever.
    pub(super) fn write_entry(&self, id: EntryId, out: &mut Out<Self>) {
        let mut body = None;
        let mut places = Vec::new();
        for lane in &self.lanes {
            let of_it = lane.held.iter().filter(|(_, held)| held.id == id);
            for (stamp, held) in of_it {
                body = body.or_else(|| lane.body(*stamp, id));
                places.push(Place {
                    lane: lane.no,
                    stamp: *stamp,
                    ballot: held.ballot,
                    is_classic: held.is_classic,
                });
            }
        }
        if let Some(entry) = body.filter(|_| !self.done.entries.contains(id)) {
            out.persist(Record::Entry(entry.clone(), places));
        }
    }

    /// Writes down what counts of a lane besides entries.
    pub(super) fn write_lane(&self, no: LaneNo, out: &mut Out<Self>) {
        let lane = self.lane(no);
        out.persist(Record::Lane(LaneRecord {
            lane: no,
            promised: lane.promised,
            steps: lane.steps.clone(),
            round: lane.round,
        }));
    }

    /// Promises a ballot of a lane, if it is above what was promised.
    pub(super) fn raise(&mut self, no: LaneNo, ballot: Ballot, out: &mut Out<Self>) {
        let lane = self.lane_mut(no);
        if ballot > lane.promised {
            if lane.see(ballot) {
                out.emit(Event::Branch("ballot outdone"));
            }
            lane.promised = ballot;
            self.write_lane(no, out);
        }
    }

    /// A member wants to lead a lane.
    pub(super) fn on_prepare(
        &mut self,
        from: MemberIndex,
        lane: LaneNo,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        if ballot == Ballot::default() || !self.is_led_by(from, lane, ballot) {
            return self.misbehaved(from, "another's ballot", out);
        }
        if self.is_silent {
            return;
        }
        if ballot < self.lane(lane).promised {
            return self.say_nack(from, lane, out);
        }
        self.lane_mut(lane).is_heard = true;
        self.raise(lane, ballot, out);
        let promise = self.promise_of(lane, ballot);
        out.send(self.peer(from), Message::Promise(promise));
    }

    /// What this replica promises, and shows, of a lane.
    pub(super) fn promise_of(&self, no: LaneNo, ballot: Ballot) -> Promise {
        let lane = self.lane(no);
        let shown = lane.held.iter().filter_map(|(stamp, held)| {
            let entry = lane.body(*stamp, held.id)?.clone();
            Some(Shown {
                stamp: *stamp,
                held: *held,
                entry,
            })
        });
        Promise {
            lane: no,
            ballot,
            mark: self.mark(),
            steps: lane.steps.clone(),
            round: lane.round,
            shown: shown.collect(),
        }
    }

    /// Tells somebody of a ballot that outdoes its own. What is said may be forgotten: it binds nobody.
    fn say_nack(&self, to: MemberIndex, lane: LaneNo, out: &mut Out<Self>) {
        let message = Message::Nack(lane, self.lane(lane).promised);
        out.send_early(self.peer(to), message);
    }

    /// Somebody has promised a ballot that outdoes this replica's.
    pub(super) fn on_nack(&mut self, lane: LaneNo, promised: Ballot, out: &mut Out<Self>) {
        let is_lane = usize::from(lane.0) < self.lanes.len();
        let is_members = is_lane && self.leader_of(lane, promised).is_some();
        if is_members && self.lane_mut(lane).see(promised) {
            out.emit(Event::Branch("ballot outdone"));
        }
    }

    /// What a gateway learns by from an answer to a message that left at a time of its clock.
    pub(super) fn probe(&self, sent_ns: u64) -> Probe {
        Probe {
            sent_ns,
            arrived_ns: self.clock_ns,
        }
    }
}
