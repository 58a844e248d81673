//! The learner: what is decided in lanes, and its delivery in the order of positions.

use super::Replica;
use super::messages::{Beat, LaneNo, Learn, Mark, Message, Round, Stamp, Votes};
use super::mutants::Fault;
use crate::shared::decided::DecidedSet;
use crate::shared::peers::Member;
use quorate_core::{Base, Entry, EntryId, Event, MemberIndex, Out, Peers, Slot};

impl Replica {
    /// What a member says of lanes it leads, and its votes.
    pub(super) fn on_beat(&mut self, from: MemberIndex, beat: Beat, out: &mut Out<Self>) {
        for learn in beat.learned {
            if usize::from(learn.lane.0) >= self.lanes.len() {
                return self.misbehaved(from, "a lane that nobody has", out);
            }
            self.learn(from, &learn, out);
        }
        if let Some(votes) = beat.votes {
            // What others voted for waits for the lanes of this replica, too.
            for named in &votes.named {
                self.note_wait(named.stamp);
            }
            self.on_votes(from, votes);
        }
    }

    /// Positions are decided. Whatever the ballot, they are so for those that have delivered what the sender had.
    fn learn(&mut self, from: MemberIndex, learn: &Learn, out: &mut Out<Self>) {
        if self.next < learn.since && !self.fault(Fault::IgnoreSince) {
            out.emit(Event::Branch("told too early"));
            return self.fetcher.note(from, learn.since);
        }
        let walk = self.walk;
        let lane = self.lane_mut(learn.lane);
        lane.is_heard = true;
        if lane.learn(learn) {
            for named in learn.named.iter().filter(|named| named.stamp > walk) {
                self.note_wait(named.stamp);
            }
        }
    }

    /// The first decided entry behind what is delivered, if everything before it is decided.
    fn first_decided(&self, upto: Stamp) -> Option<(Stamp, EntryId, Option<&Entry>)> {
        let behind = self.walk.next();
        let firsts = self.lanes.iter().filter_map(|lane| {
            let (stamp, id) = lane.named.range(behind..).next()?;
            Some((*stamp, lane.no, *id))
        });
        let (stamp, no, id) = firsts.min().filter(|(stamp, ..)| *stamp <= upto)?;
        Some((stamp, id, self.lane(no).body(stamp, id)))
    }

    /// All entries that are decided at a position, in the order of lanes.
    fn decided_at(&self, at: Stamp) -> Vec<(EntryId, Option<Entry>)> {
        let lanes = self.lanes.iter();
        lanes
            .filter_map(|lane| {
                let id = *lane.named.get(&at)?;
                Some((id, lane.body(at, id).cloned()))
            })
            .collect()
    }

    /// Delivers what is decided in all lanes, position by position and lane by lane. Positions without an entry get no
    /// slot, nor do entries that have one.
    pub(super) fn deliver_all(&mut self, out: &mut Out<Self>) {
        let decided = self.lanes.iter().map(|lane| lane.decided);
        let upto = decided.min().unwrap_or_default();
        if upto <= self.walk {
            return;
        }
        while let Some((stamp, ..)) = self.first_decided(upto) {
            for (id, entry) in self.decided_at(stamp) {
                if self.done.entries.contains(id) {
                    out.emit(Event::Branch("decided twice"));
                    continue;
                }
                let Some(entry) = entry else {
                    // Another member has it.
                    return self.walk_to(stamp.before());
                };
                self.deliver(entry, out);
            }
            self.walk_to(stamp);
        }
        self.walk_to(upto);
    }

    fn deliver(&mut self, entry: Entry, out: &mut Out<Self>) {
        let (slot, id) = (self.next, entry.id);
        self.done.advance(slot, Some(&entry));
        if let Some(is_fast) = self.counted.remove(&id) {
            out.emit(Event::Decided {
                slot,
                fast: is_fast,
                noop: false,
                // Propose and votes, or Accept and Accepted.
                delays: 2,
            });
        }
        out.deliver(slot, Some(entry));
        self.next = slot.next();
        self.gateway.standings.remove(&id);
        self.gateway.orphans.remove(&id);
        self.clients.note_delivered(id, false, self.now_ns);
        self.backoff.moved();
    }

    /// All up to a position is delivered.
    fn walk_to(&mut self, walk: Stamp) {
        if walk <= self.walk {
            return;
        }
        self.note_orphans(walk);
        self.walk = walk;
        self.lanes.iter_mut().for_each(|lane| lane.trim(walk));
        self.waits = self.waits.split_off(&walk.next());
        self.backoff.moved();
    }

    /// The host caught up from a peer.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next > self.next {
            out.emit(Event::Branch("installed"));
            (self.next, self.done) = (next, base);
            self.drop_done();
            self.backoff.moved();
            self.follow_ahead(out);
            for no in self.lane_numbers() {
                self.lead_if_elected(no, out);
            }
        }
    }

    /// Somebody has delivered this, and says which time that is.
    pub(super) fn on_mark(&mut self, from: MemberIndex, mark: Mark) {
        self.fetcher.note(from, mark.next);
        if mark.walk > self.ahead.walk {
            self.ahead = mark;
        }
    }

    /// What somebody said to be delivered up to a time is here: everything up to then is.
    pub(super) fn follow_ahead(&mut self, out: &mut Out<Self>) {
        if self.next >= self.ahead.next && self.ahead.walk > self.walk {
            out.emit(Event::Branch("time of a slot learnt"));
            self.jump(self.ahead.walk);
        }
    }

    /// Tells all what is decided in lanes that this replica leads, or owns, where something waits for it; and its votes
    /// in the fast lane, if something was waiting for those.
    pub(super) fn speak(&mut self, out: &mut Out<Self>) {
        if self.is_silent {
            return;
        }
        let mut has_entries = false;
        let mut learned = Vec::new();
        for no in self.lane_numbers() {
            let lane = self.lane(no);
            if !self.is_told_here(no) || lane.told >= lane.decided {
                continue;
            }
            let new = lane.told.next()..=lane.decided;
            let has_named = lane.named.range(new.clone()).next().is_some();
            let is_awaited = self.waits.range(new).next().is_some();
            let is_filled = lane.told < self.filled && lane.decided >= self.filled;
            let learn = lane.learned(lane.told);
            if learn.from < learn.through && (has_named || is_awaited || is_filled) {
                has_entries |= has_named;
                learned.push(learn);
            }
        }
        let votes = self.unsaid_votes();
        let is_early = !has_entries && self.armed.beat_ns > self.now_ns;
        self.armed.has_unsaid = is_early && (!learned.is_empty() || votes.is_some());
        if is_early || learned.is_empty() && votes.is_none() {
            return;
        }
        self.armed.beat_ns = self.now_ns + self.config.heartbeat_ns;
        for learn in &learned {
            let lane = self.lane_mut(learn.lane);
            lane.told = learn.through;
        }
        if let Some(Votes { ballot, nat, .. }) = votes {
            self.said = Some(Round { ballot, nat });
        }
        out.send(Peers::All, Message::Beat(Beat { learned, votes }));
    }

    /// The own votes in the fast round, if more of them are final than were said, and another leads it.
    fn unsaid_votes(&self) -> Option<Votes> {
        let (no, round) = self.open_round()?;
        let is_said = |said: Round| said.ballot == round.ballot && said.nat >= round.nat;
        let is_led_here = self.lane(no).leading().is_some();
        let is_new = !is_led_here && round.nat > Stamp(0) && !self.said.is_some_and(is_said);
        self.own_votes().filter(|_| is_new)
    }

    /// Whether this replica tells what is decided in a lane.
    fn is_told_here(&self, no: LaneNo) -> bool {
        no == self.my_lane() || self.lane(no).leading().is_some()
    }

    /// Tells a member what is decided behind what it has delivered.
    pub(super) fn tell_decided(&self, to: MemberIndex, from: Stamp, out: &mut Out<Self>) {
        let lanes = self.lane_numbers().filter(|no| self.is_told_here(*no));
        let learned = lanes.map(|no| self.lane(no).learned(from));
        let learned: Vec<Learn> = learned.filter(|learn| learn.through > learn.from).collect();
        let votes = self.own_votes();
        if !learned.is_empty() || votes.is_some() {
            out.send(self.peer(to), Message::Beat(Beat { learned, votes }));
        }
    }
}
