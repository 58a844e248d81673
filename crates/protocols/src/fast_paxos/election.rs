//! Who leads: suspicion, phase 1, and what a new leader proposes.
//!
//! Time decides only when somebody stands, never who has won.

use super::Replica;
use super::decide::{MemberVote, decide};
use super::messages::{Message, Promise, Timer};
use super::mutants::Fault;
use super::state::{Candidate, Leader, Role, Written};
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Due, Entry, Event, MemberIndex, MemberSet, Out, ReplicaId, Slot};
use std::collections::BTreeMap;

/// Election timers in a row at which a leader is heard that gets nothing done.
const STRIKES_MAX: u32 = 8;

impl Replica {
    /// The leader of a ballot gave a sign of life; the ballot is none that is over.
    pub(super) fn follow(&mut self, from: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        if ballot > self.promised {
            self.raise(ballot, out);
        }
        let was_led = self.trust.leader.replace(from) == Some(from);
        (
            self.trust.is_heard,
            self.trust.is_wanted,
            self.trust.is_barred,
        ) = (true, false, false);
        if !was_led {
            self.say_query(MemberSet::only(from), out);
        }
    }

    /// Whether something here waits for a leader's work.
    pub(super) fn is_waiting(&self) -> bool {
        if self.is_silent {
            return self.clients.are_waiting();
        }
        // Behind the slots of a fast round that is open there may be votes of lower ballots, which choose nothing.
        let has_votes = match self.any {
            Some(_) => self.next < self.free,
            None => !self.votes.is_empty(),
        };
        has_votes || !self.heard.is_empty() || self.clients.are_waiting() || self.trust.is_wanted
    }

    /// Has the election timer run while something waits here for a leader: not for long where none is known.
    pub(super) fn watch_leader(&mut self, out: &mut Out<Self>) {
        let may_stand = matches!(self.role, Role::Follower) && !self.is_silent;
        if self.armed.election || !may_stand || !self.is_waiting() {
            return;
        }
        self.armed.election = true;
        let timeout_ns = self.config.delays.election_ns;
        let trust = &self.trust;
        let last_leader = self.config.seating.peer(self.promised.node);
        let may_be_led = last_leader.is_some_and(|last| !self.down.contains(last));
        let is_free = !may_be_led && !trust.is_heard && !trust.is_barred;
        let due = if is_free {
            Due::Within(0..=timeout_ns / 8)
        } else {
            Due::Within(timeout_ns..=2 * timeout_ns)
        };
        out.arm(Timer::Election, due);
    }

    /// The time for a sign of life is over.
    pub(super) fn on_election(&mut self, out: &mut Out<Self>) {
        self.armed.election = false;
        let trust = &mut self.trust;
        let (was_heard, has_moved) = (trust.is_heard, trust.has_moved);
        (trust.is_heard, trust.has_moved, trust.is_barred) = (false, false, false);
        trust.strikes = if has_moved { 0 } else { trust.strikes + 1 };
        let is_patient = was_heard && trust.strikes <= STRIKES_MAX;
        let may_stand = matches!(self.role, Role::Follower) && !self.is_silent;
        if may_stand && self.is_waiting() && !is_patient {
            self.campaign(out);
        }
    }

    /// The group prefers a member as its leader: that one stands at once.
    pub(super) fn on_prefer(&mut self, member: ReplicaId, out: &mut Out<Self>) {
        let is_me = member == self.config.seating.my_id();
        if is_me && !self.is_silent && self.leader().is_none() {
            self.campaign(out);
        }
    }

    /// Begins a ballot of this replica, higher than all heard of.
    fn campaign(&mut self, out: &mut Out<Self>) {
        let round = self.highest.round.max(self.promised.round) + 1;
        let node = self.config.seating.my_id();
        let ballot = Ballot { round, node };
        self.raise(ballot, out);
        self.trust.strikes = 0;
        self.role = Role::Candidate(Candidate::default());
        self.disk
            .push(out.persisted(), Written::Candidacy { ballot });
        self.say_prepare(self.config.seating.others(), out);
    }

    /// Asks members for promises that have not given them.
    pub(super) fn say_prepare(&self, to: MemberSet, out: &mut Out<Self>) {
        let Role::Candidate(candidate) = &self.role else {
            return;
        };
        let message = Message::Prepare(self.promised, self.next);
        for member in to
            .iter()
            .filter(|member| !candidate.promises.contains_key(member))
        {
            out.send(self.peer(member), message.clone());
        }
    }

    /// A promise of a member.
    pub(super) fn on_promise(&mut self, from: MemberIndex, promise: Promise, out: &mut Out<Self>) {
        if promise.shown.len() as u64 > self.config.slots_max {
            return self.misbehaved(from, "a promise about too many slots", out);
        }
        if promise.ballot == self.promised
            && let Role::Candidate(candidate) = &mut self.role
        {
            candidate.promises.entry(from).or_insert(promise);
            self.lead_if_elected(out);
        }
    }

    /// Somebody has promised this ballot: whoever leads by a lower one, or wants to, does no more.
    pub(super) fn see(&mut self, ballot: Ballot, out: &mut Out<Self>) {
        let maker = self.config.seating.member(ballot.node);
        if !maker.is_some_and(|maker| self.is_ballot_of(maker, ballot)) {
            return;
        }
        self.highest = self.highest.max(ballot);
        if ballot > self.promised && !matches!(self.role, Role::Follower) {
            out.emit(Event::Branch("ballot outdone"));
            self.role = Role::Follower;
            self.any = None;
            self.trust.is_barred = true;
        }
    }

    /// Leads if a majority, this replica included, has promised, and this replica has delivered all that they have.
    pub(super) fn lead_if_elected(&mut self, out: &mut Out<Self>) {
        let Role::Candidate(candidate) = &self.role else {
            return;
        };
        let count = candidate.promises.len() + usize::from(candidate.is_written);
        if !candidate.is_written || count < self.config.thresholds.promise {
            return;
        }
        let promises = candidate.promises.iter();
        let ahead = promises.max_by_key(|(_, promised)| promised.delivered);
        if let Some((member, promised)) = ahead
            && promised.delivered > self.next
        {
            out.emit(Event::Branch("candidate behind"));
            let from = self.config.seating.members[*member];
            return out.catch_up(from, Slot(promised.delivered.0 - 1));
        }
        let enough = self
            .config
            .thresholds
            .shown(count, self.config.seating.members.len());
        let found = self.decide_all(enough);
        self.lead(found, out);
    }

    /// What has to be proposed in the slots up to the last of which a promise shows something.
    fn decide_all(&self, enough: usize) -> Vec<Option<Entry>> {
        let Role::Candidate(candidate) = &self.role else {
            return Vec::new();
        };
        let me = self.config.seating.me;
        let mut votes: BTreeMap<Slot, Vec<MemberVote>> = BTreeMap::new();
        let own = self.votes.iter().map(|(slot, vote)| (me, *slot, vote));
        let others = candidate.promises.iter().flat_map(|(member, promised)| {
            let shown = promised.shown.iter();
            shown.map(|shown| (*member, shown.slot, &shown.vote))
        });
        for (member, slot, vote) in own.chain(others).filter(|(_, slot, _)| self.is_kept(*slot)) {
            let vote = vote.clone();
            votes
                .entry(slot)
                .or_default()
                .push(MemberVote { member, vote });
        }
        let end = votes
            .last_key_value()
            .map_or(self.next, |(last, _)| last.next());
        let leader_of = |ballot: Ballot| self.config.seating.member(ballot.node);
        let ignores_classic = self.fault(Fault::IgnoreAccepts);
        let slots = (self.next.0..end.0).map(Slot);
        slots
            .map(|slot| {
                let votes = votes.get(&slot).map_or(&[][..], Vec::as_slice);
                decide(votes, leader_of, enough, ignores_classic)
            })
            .collect()
    }

    /// Leads: proposes what promises showed, and opens the fast round behind that.
    fn lead(&mut self, found: Vec<Option<Entry>>, out: &mut Out<Self>) {
        self.role = Role::Leader(Leader {
            tallies: BTreeMap::new(),
            announced: self.next,
        });
        self.trust.is_wanted = false;
        self.free = self.next;
        for (slot, value) in (self.next.0..).map(Slot).zip(found) {
            out.emit(Event::Branch("slot proposed again"));
            self.propose_own(slot, value, out);
        }
        self.any = Some(self.free);
        self.say_commit(self.config.seating.others(), self.next, out);
        self.say_query(self.config.seating.others(), out);
        self.note_own_answer();
    }
}
