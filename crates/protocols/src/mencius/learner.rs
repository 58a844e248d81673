//! The learner: what is counted, decided and delivered.

use super::Replica;
use super::lanes::{Span, spans};
use super::messages::{Learned, Message, Timer};
use super::mutants::Fault;
use super::state::{Value, name};
use crate::shared::ballot::Ballot;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use quorate_core::{Base, Due, Event, MemberIndex, Out, Slot};

impl Replica {
    /// Values that a member has accepted, durably.
    pub(super) fn on_accept(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        spans: Vec<Span>,
        out: &mut Out<Self>,
    ) {
        for span in spans {
            self.count(from, ballot, span, out);
        }
    }

    /// A member accepted what was proposed here at this ballot, if anything was.
    pub(super) fn count(
        &mut self,
        member: MemberIndex,
        ballot: Ballot,
        span: Span,
        out: &mut Out<Self>,
    ) {
        let enough = self.config.thresholds.accept;
        for slot in self.lanes().slots_of(span, self.next, self.horizon()) {
            let proposal = self.proposals.get_mut(&slot);
            let Some(proposal) = proposal.filter(|proposal| proposal.ballot == ballot) else {
                continue;
            };
            proposal.accepted_by.insert(member);
            if proposal.accepted_by.len() >= enough {
                let value = proposal.value.clone();
                out.emit(Event::Decided {
                    slot,
                    fast: ballot == super::state::OWNERS,
                    noop: value.is_none(),
                    // Suggest, Accept.
                    delays: 2,
                });
                self.untold.insert(slot, name(&value));
                self.tells_noops |= value.is_none();
                self.learn(slot, value, out);
            }
        }
    }

    /// An owner skipped a slot: nothing but a no-op can be decided there. Those that wait for it may not have
    /// heard, and are told with the next thing decided here.
    pub(super) fn decide_skipped(&mut self, slot: Slot, out: &mut Out<Self>) {
        let is_known = self
            .slots
            .get(&slot)
            .is_some_and(|held| held.decided.is_some());
        if slot < self.next || is_known {
            return;
        }
        let is_before = |last: Option<&Slot>| last.is_some_and(|last| slot < *last);
        if is_before(self.proposals.keys().next_back()) || is_before(self.untold.keys().next_back())
        {
            self.untold.insert(slot, None);
        }
        self.learn(slot, None, out);
    }

    /// A slot is decided.
    pub(super) fn learn(&mut self, slot: Slot, value: Value, out: &mut Out<Self>) {
        if slot < self.next || slot >= self.horizon() {
            return;
        }
        let held = self.slots.entry(slot).or_default();
        if held.decided.is_some() {
            return;
        }
        let id = name(&value);
        held.decided = Some(value);
        self.proposals.remove(&slot);
        if self.lanes().owner(slot) == self.config.seating.me && !self.is_silent {
            // Others decided more of the own lane than was used: it goes on behind.
            self.own.next = self.own.next.max(self.lanes().behind(slot));
            self.reserve(out);
        }
        self.release(slot, id, out);
        self.deliver_all(out);
    }

    /// A slot holds this. If an own entry was suggested there in vain, it is suggested again.
    fn release(&mut self, slot: Slot, id: Option<quorate_core::EntryId>, out: &mut Out<Self>) {
        let mut offers = self.offers.iter_mut();
        let lost = offers.find(|offer| offer.slot == Some(slot) && Some(offer.entry.id) != id);
        if let Some(offer) = lost {
            offer.slot = None;
            out.emit(Event::Branch("own slot lost"));
        }
    }

    /// Delivers what is decided without gaps.
    pub(super) fn deliver_all(&mut self, out: &mut Out<Self>) {
        loop {
            let slot = self.next;
            let held = self.slots.get_mut(&slot);
            let Some(value) = held.and_then(|held| held.decided.take()) else {
                return;
            };
            self.slots.remove(&slot);
            self.deliver(slot, value, out);
        }
    }

    fn deliver(&mut self, slot: Slot, value: Value, out: &mut Out<Self>) {
        let id = name(&value);
        // An entry takes effect in the first of its slots, everywhere alike (M7).
        let is_second = id.is_some_and(|id| self.done.entries.contains(id));
        if is_second {
            out.emit(Event::Branch("decided twice"));
        }
        let is_dropped = is_second && !self.fault(Fault::ResuggestTwice);
        let entry = value.filter(|_| !is_dropped);
        self.done.advance(slot, entry.as_ref());
        out.deliver(slot, entry);
        self.next = slot.next();
        if let Some(id) = id {
            self.offers.retain(|offer| offer.entry.id != id);
            self.patience.note_served();
        }
        self.moved();
    }

    /// Something was delivered.
    fn moved(&mut self) {
        self.seen = self.seen.max(self.next);
        let first = self.first_own(self.next);
        self.own.next = self.own.next.max(first);
        let told_from = self.told_from();
        while self
            .own
            .suggested
            .first()
            .is_some_and(|slot| *slot < told_from)
        {
            self.own.suggested.pop_first();
        }
        self.backoff.moved();
        self.has_moved = true;
    }

    /// The host caught up from a peer.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.next {
            return;
        }
        out.emit(Event::Branch("installed"));
        self.next = next;
        self.done = base;
        self.slots = self.slots.split_off(&next);
        self.proposals = self.proposals.split_off(&next);
        let done = &self.done;
        self.offers.retain(|offer| !done.contains(offer.entry.id));
        let passed = self
            .offers
            .iter_mut()
            .filter(|offer| offer.slot.is_some_and(|slot| slot < next));
        passed.for_each(|offer| offer.slot = None);
        self.patience.note_served();
        self.moved();
        self.deliver_all(out);
    }

    /// Takes what was decided here and not told.
    pub(super) fn take_untold(&mut self) -> Learned {
        self.tells_noops = false;
        let untold = std::mem::take(&mut self.untold);
        let noops = untold.iter().filter(|(_, id)| id.is_none());
        let values = untold.iter();
        Learned {
            noops: spans(noops.map(|(slot, _)| *slot), self.lanes()),
            values: values
                .filter_map(|(slot, id)| id.map(|id| (*slot, id)))
                .collect(),
        }
    }

    /// Tells what was decided here and rode on no suggestion. An entry behind slots of which nothing was heard waits
    /// for those: others cannot deliver it either, and what is skipped is said with acceptances that are on their way.
    pub(super) fn say_learned(&mut self, out: &mut Out<Self>) {
        let mut values = self.untold.iter().filter(|(_, id)| id.is_some());
        let Some((first, _)) = values.next().filter(|_| !self.tells_noops) else {
            return match self.tells_noops {
                true => self.say_untold(out),
                false if self.proposals.is_empty() => self.untold.clear(),
                false => {}
            };
        };
        let (first, mut until) = (*first, self.heard_until.max(self.next));
        let is_heard_of = |slot: Slot| {
            let held = self.slots.get(&slot);
            held.is_some_and(|held| !held.is_unheard_of())
        };
        while until < first && is_heard_of(until) {
            until = until.next();
        }
        self.heard_until = until;
        if until >= first {
            self.say_untold(out);
        }
    }

    fn say_untold(&mut self, out: &mut Out<Self>) {
        let (learned, header) = (self.take_untold(), self.header());
        let message = Message::Learn { learned, header };
        self.say(self.config.seating.others(), &message, out);
    }

    /// A member has delivered every slot before this one.
    pub(super) fn note_claim(&mut self, at: MemberIndex, upto: Slot) {
        if upto > self.claim.upto {
            self.claim = Claim { at: Some(at), upto };
        }
    }

    /// What is delivered elsewhere may come in a moment; if it does not, it is fetched.
    pub(super) fn watch_claim(&mut self, out: &mut Out<Self>) {
        if self.next < self.claim.upto && self.armed.catch_up.is_none() {
            self.armed.catch_up = Some(self.claim.upto);
            out.arm(Timer::CatchUp, Due::After(self.config.delays.learn_ns));
        }
    }

    pub(super) fn on_catch_up(&mut self, out: &mut Out<Self>) {
        let awaited = self.armed.catch_up.take();
        let is_behind = awaited.is_some_and(|awaited| self.next < awaited);
        if is_behind && self.claim.catch_up(&self.config.seating, out) {
            self.armed.catch_up = Some(self.claim.upto);
            out.arm(Timer::CatchUp, Due::After(self.config.delays.rtx_max_ns));
        }
    }
}
