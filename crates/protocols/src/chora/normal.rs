//! The normal case: what a pulse says, and what is committed by it.

use super::messages::{Header, Logged, Message, Proposal, Pulse, Reason, Value};
use super::mutants::Fault;
use super::pattern::ViewInit;
use super::role::Role;
use super::{Replica, Timer};
use crate::shared::decided::DecidedSet;
use quorate_core::{
    Base, Entry, EntryBuilder, EntryId, Event, MemberIndex, MemberSet, Now, Out, Peers, ReplicaId,
    Slot, reached,
};
use std::ops::Range;

impl Replica {
    /// A peer's pulse: one of this view, or of a later one that has begun.
    pub(super) fn on_pulse(
        &mut self,
        now: Now,
        from: MemberIndex,
        pulse: Pulse,
        out: &mut Out<Self>,
    ) {
        let header = &pulse.header;
        if !self.is_present(from, &header.lives, out) {
            return out.emit(Event::Branch("pulse of a former life"));
        }
        if header.view < self.view {
            if self.start.is_some() {
                self.traffic.owes.insert(from);
            }
            return;
        }
        if header.view > self.view {
            let Some(start) = header.start else { return };
            self.join(header.view, Some(start), out);
        }
        if self.start.is_none() && header.start.is_some() {
            (self.start, self.informant) = (header.start, Some(from));
            self.follow();
        }
        self.traffic.hear(from, header, self.horizon());
        self.rounds.hear(from, &pulse);
        for logged in pulse.recover {
            self.take(logged, out);
        }
        if let Some(proposal) = pulse.proposal {
            self.on_proposal(from, proposal, out);
        }
        self.advance(out);
        if !pulse.nack.is_empty() {
            self.on_nack(from, &pulse.nack, out);
        }
        self.exit_round_early(now, out);
    }

    /// PROPOSE or SKIP.
    fn on_proposal(&mut self, from: MemberIndex, proposal: Proposal, out: &mut Out<Self>) {
        let Proposal {
            skip_from,
            slot,
            value,
        } = proposal;
        if let Some(Value::Init(init)) = value {
            if init.initiator != from || init.at != slot {
                return self.misbehaved(from, "a view init of another", out);
            }
            return self.on_init(init, out);
        }
        if slot >= self.proposals_end() {
            return out.emit(Event::Branch("proposal too far ahead"));
        }
        let Some(init) = self.init.clone() else {
            return self.stash(slot, value);
        };
        if value.is_some() && init.owner(slot) != Some(from) {
            return self.misbehaved(from, "a proposal in another's slot", out);
        }
        self.expect(from, &init, skip_from..slot, value.is_some());
        self.skip(&init, from, skip_from..slot);
        let Some(value) = value else { return };
        self.traffic.note_proposed(slot.next());
        if slot < self.verified {
            // Its proposer has not heard that.
            self.traffic.owes.insert(from);
        }
        self.take_pending(Logged {
            slot,
            eview: self.view,
            value,
        });
    }

    /// A proposal that came before VIEW-INIT: whose slots are whose is not known yet, and what it
    /// skips is asked for later.
    fn stash(&mut self, slot: Slot, value: Option<Value>) {
        let is_dealt = self.start.is_some_and(|start| slot >= start);
        if let Some(value) = value.filter(|_| is_dealt) {
            self.traffic.note_proposed(slot.next());
            self.take_pending(Logged {
                slot,
                eview: self.view,
                value,
            });
        }
    }

    /// Sees whether something of a proposer was lost before what it says now: that it skips slots, and
    /// whether it has a value for the slot behind them.
    fn expect(
        &mut self,
        from: MemberIndex,
        init: &ViewInit,
        skipped: Range<Slot>,
        has_value: bool,
    ) {
        self.watch.is_lost |= skipped.start > self.traffic.expected[from];
        let end = match has_value {
            true => skipped.end.next(),
            false => skipped.end,
        };
        if let Some(next) = init.next_of(from, end) {
            self.traffic.expected[from] = self.traffic.expected[from].max(next);
        }
    }

    /// A proposer's slots in a range hold nothing.
    pub(super) fn skip(&mut self, init: &ViewInit, owner: MemberIndex, skipped: Range<Slot>) {
        let until = skipped.end.min(self.horizon());
        let mut next = init.next_of(owner, skipped.start.max(self.verified));
        while let Some(slot) = next.filter(|slot| *slot < until) {
            self.take_pending(Logged {
                slot,
                eview: self.view,
                value: Value::Noop,
            });
            next = init.next_of(owner, slot.next());
        }
    }

    /// An entry that a peer recovers. It goes to those that wait, never into the log: slots before it
    /// may still be another lineage's.
    fn take(&mut self, logged: Logged, out: &mut Out<Self>) {
        if logged.eview > self.view {
            return;
        }
        match &logged.value {
            Value::Init(init) if init.view == self.view => self.on_init(init.clone(), out),
            _ => {
                out.emit(Event::Branch("recovered"));
                self.take_pending(logged);
            }
        }
    }

    pub(super) fn take_pending(&mut self, logged: Logged) {
        if self.verified <= logged.slot && logged.slot < self.horizon() {
            self.pending.entry(logged.slot).or_insert(logged);
        }
    }

    /// `try_commit`: what a quorum has acknowledged in this view, or somebody counted in it.
    pub(super) fn try_commit(&mut self, out: &mut Out<Self>) {
        if let Some(start) = self.init.as_ref().map(|init| init.start())
            && let Some(counted) = self.counted()
            // Nothing of older views by counting.
            && (counted >= start || self.config.faults.is(Fault::CountOlderViews))
        {
            self.commit_to(counted, true, out);
        }
        if self.traffic.heard_claim > self.traffic.claim {
            self.commit_to(self.traffic.heard_claim, false, out);
        }
    }

    /// The end of what a quorum has acknowledged, if that is news.
    fn counted(&self) -> Option<Slot> {
        let (me, own) = (self.config.me, self.ack());
        let of = |member: MemberIndex| match member == me {
            true => own,
            false => self.traffic.acked[member],
        };
        let acked = self.config.all().iter().map(of);
        let enough = self
            .config
            .thresholds
            .commit
            .clamp(1, self.traffic.acked.len());
        reached(acked, enough, self.traffic.claim.min(self.ap()))
    }

    /// Every slot before one is committed in this view; those that are here are delivered. What is
    /// not held cannot be.
    fn commit_to(&mut self, end: Slot, is_counted: bool, out: &mut Out<Self>) {
        let held = end.min(self.verified);
        let claimed = match self.config.faults.is(Fault::UnclampedCommit) {
            false => held,
            true => end,
        };
        self.traffic.claim = self.traffic.claim.max(claimed);
        while self.ap() < held
            && let Some(logged) = self.log.commit()
        {
            self.deliver(logged, is_counted, out);
        }
    }

    fn deliver(&mut self, logged: Logged, is_counted: bool, out: &mut Out<Self>) {
        let Logged { slot, eview, value } = logged;
        let entry = match value {
            Value::Noop => None,
            Value::Entry(entry) => Some(entry),
            Value::Init(init) => Some(init_entry(&init, &self.config.init_boot)),
        };
        if is_counted {
            let (noop, fast) = (entry.is_none(), eview == self.view);
            // PROPOSE, and the acknowledgements.
            out.emit(Event::Decided {
                slot,
                fast,
                noop,
                delays: 2,
            });
        }
        let name = entry.as_ref().map(|entry| entry.id);
        let is_second = name.is_some_and(|id| self.done.entries.contains(id));
        if is_second {
            out.emit(Event::Branch("double commit skipped"));
        }
        let entry = entry.filter(|_| !is_second);
        self.done.advance(slot, entry.as_ref());
        if let Some(entry) = &entry
            && let Some(member) = self.config.member(entry.id.origin)
        {
            self.ingress.note(member, entry.count());
        }
        out.deliver(slot, entry);
        if let Some(id) = name {
            if id.origin == self.config.my_id() {
                self.clients.open.retain(|offer| offer.entry.id != id);
            }
            self.queue.retain(|entry| entry.id != id);
        }
        self.rounds.load.note_committed(name.is_some());
        self.moved(out);
    }

    /// Something was committed.
    fn moved(&mut self, out: &mut Out<Self>) {
        self.watch.attempts = 0;
        self.campaign.end_stalls();
        self.watch.is_moving = true;
        self.clients.patience.note_served();
        let reason = Reason::Stalled;
        if matches!(self.role, Role::Canvassing { reason: other, .. } if other == reason) {
            self.role = Role::Follower;
        }
        self.watch_proposers(out);
    }

    /// The host caught up from a peer: what is before `next` is committed. It may be so in a later
    /// view than this one, so it is not claimed in this view unless it ends in it.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.ap() {
            return;
        }
        out.emit(Event::Branch("installed"));
        self.done = base;
        let eview = self.committed_view();
        if eview > self.view {
            // Its pattern is not known here: whoever is in it tells.
            self.join(eview, None, out);
        }
        self.log.install(next, eview);
        self.verified = self.verified.max(next).min(self.log.end());
        self.disk.install(next..self.log.end());
        if eview == self.view || self.config.faults.is(Fault::BorrowedClaim) {
            self.traffic.claim = self.traffic.claim.max(next);
        }
        self.pending = self.pending.split_off(&next);
        self.traffic.note_proposed(next);
        let own = self.own.next.max(next);
        let init = self.init.as_ref();
        self.own.next = init
            .and_then(|init| init.next_of(self.config.me, own))
            .unwrap_or(own);
        let done = &self.done;
        self.clients
            .open
            .retain(|offer| !done.entries.contains(offer.entry.id));
        self.queue.retain(|entry| !done.entries.contains(entry.id));
        self.moved(out);
        self.advance(out);
    }

    /// The view in which the last committed slot was proposed: that of the last VIEW-INIT committed.
    pub(super) fn committed_view(&self) -> u64 {
        let views = self.done.entries.last(INIT_ORIGIN, self.config.init_boot);
        views.unwrap_or(0)
    }

    /// `acked[self]`: the end of what is verified and durable. Nothing of a replica that lost its
    /// promises counts.
    pub(super) fn ack(&self) -> Slot {
        if self.is_voting() {
            self.verified.min(self.disk.end())
        } else {
            Slot(0)
        }
    }

    /// What is at the head of everything said.
    fn header(&self, asks: bool) -> Header {
        Header {
            view: self.view,
            start: self.start,
            round: self.rounds.number(),
            pace_ns: self.rounds.pace_ns(),
            sent_ns: self.rounds.load.now_ns(),
            ack: self.ack(),
            commit: self.traffic.claim,
            latest: self.traffic.latest,
            asks,
            lives: self.voter.lives().clone(),
        }
    }

    /// Says one pulse.
    pub(super) fn say_pulse(&mut self, to: Peers, body: Body, out: &mut Out<Self>) {
        let ack = self.ack();
        match to {
            Peers::All => {
                self.traffic.said_ack = self.traffic.said_ack.max(ack);
                self.traffic.owes = MemberSet::EMPTY;
                self.rounds.load.network.counts.multicasts += 1;
            }
            Peers::One(peer) => {
                let member = self.config.member(peer).unwrap_or(self.config.me);
                self.traffic.owes.remove(member);
            }
        }
        let pulse = Pulse {
            header: self.header(body.asks),
            proposal: body.proposal,
            nack: body.nack,
            recover: body.recover,
        };
        if self.config.members.len() > 1 {
            self.say(to, Message::Pulse(Box::new(pulse)), out);
        }
    }

    /// ACK: what was not said with anything else. In a round it waits for the next.
    pub(super) fn say_what_is_due(&mut self, out: &mut Out<Self>) {
        if self.ack() > self.traffic.said_ack && !self.rounds.is_pulsing() {
            let proposal = self.skip_ahead();
            self.say_to_all(proposal, out);
        }
        let owes = self.traffic.owes & self.config.others();
        for member in owes {
            self.say_pulse(self.peer(member), Body::default(), out);
        }
    }

    /// A link came up: say at once what may have been lost. Or went down: do not wait for whose slots
    /// are missing.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.member(peer).filter(|m| *m != self.config.me) else {
            return;
        };
        if !up {
            self.down.insert(member);
            return;
        }
        self.down.remove(member);
        self.campaign.end_stalls();
        self.say_rejoin(MemberSet::only(member), out);
        self.ask_end_of(member, out);
        if self.is_waiting() {
            self.hurry(out);
            let asks = Body {
                asks: true,
                ..Body::default()
            };
            self.say_pulse(self.peer(member), asks, out);
        }
    }

    /// Moves the repair timer forward.
    pub(super) fn hurry(&mut self, out: &mut Out<Self>) {
        if !self.watch.armed.is_hurried {
            self.watch.armed.is_hurried = true;
            self.watch.armed.gap = Some(self.progress());
            out.arm(Timer::Gap, quorate_core::Due::After(self.config.grace_ns));
        }
    }
}

/// What a pulse says besides its header.
#[derive(Default)]
pub(super) struct Body {
    pub(super) proposal: Option<Proposal>,
    pub(super) nack: Vec<Range<Slot>>,
    pub(super) recover: Vec<Logged>,
    pub(super) asks: bool,
}

/// No replica's: VIEW-INITs are named after their views.
const INIT_ORIGIN: ReplicaId = ReplicaId(0);

/// VIEW-INIT as the host sees it: an entry without commands.
fn init_entry(init: &ViewInit, boot: &quorate_core::Boot) -> Entry {
    let name = EntryId {
        origin: INIT_ORIGIN,
        boot: *boot,
        seq: init.view,
    };
    EntryBuilder::default().finish(name, 0)
}
