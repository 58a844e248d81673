//! The acceptor: what it accepts and promises, and how it says so.

use super::config::Acks;
use super::lanes::Span;
use super::messages::{Header, Learned, Message, Record, Shown};
use super::mutants::Fault;
use super::state::{Lead, Written};
use super::{Replica, lanes};
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{ENTRY_BYTES_MAX, Entry, Event, MemberIndex, MemberSet, Out, Slot};

/// No honest replica gets so far.
const ROUNDS_MAX: u64 = 1 << 48;

impl Replica {
    /// A value for a slot, from the leader of its lane.
    pub(super) fn on_suggest(
        &mut self,
        from: MemberIndex,
        slot: Slot,
        ballot: Ballot,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        if !self.may_propose(from, slot, ballot) || !self.may_be_in(slot, &entry) {
            return self.misbehaved(from, "an entry in a slot that is not its own", out);
        }
        if slot < self.next {
            return self.say_skip(MemberSet::only(from), out);
        }
        if slot >= self.horizon() {
            return out.emit(Event::Branch("too far ahead"));
        }
        self.see(slot.next());
        self.slots.entry(slot).or_default().heard = Some(entry.clone());
        self.match_claim(slot, out);
        if self.is_silent {
            return;
        }
        if slot < self.next {
            // It was said to be decided before it came.
            return self.say_skip(MemberSet::only(from), out);
        }
        if ballot < self.lane_of(slot).bound(slot) {
            return self.say_nack(from, self.lanes().owner(slot), out);
        }
        self.raise(self.lanes().owner(slot), ballot, out);
        self.accept_entry(slot, ballot, entry, out);
        self.skip_to_seen(out);
        self.say_accept(from, ballot, vec![Span::only(slot)], out);
    }

    /// No-ops for a lane that a peer took over.
    pub(super) fn on_noops(
        &mut self,
        from: MemberIndex,
        span: Span,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        if ballot == super::state::OWNERS || !self.may_propose(from, span.first, ballot) {
            return self.misbehaved(from, "no-ops in a lane that it does not lead", out);
        }
        if span.first < self.next {
            self.say_skip(MemberSet::only(from), out);
        }
        if self.is_silent {
            return;
        }
        let lane = self.lanes().owner(span.first);
        let all = self.lanes().slots_of(span, self.next, self.horizon());
        let (bound, mut free) = (self.lanes[lane].promised, Vec::new());
        for slot in all {
            if ballot >= self.lanes[lane].bound(slot) {
                free.push(slot);
            }
        }
        if ballot < bound || free.is_empty() {
            if ballot < bound {
                self.say_nack(from, lane, out);
            }
            return;
        }
        self.raise(lane, ballot, out);
        let spans = lanes::spans(free, self.lanes());
        for span in &spans {
            self.accept_noops(*span, ballot, out);
        }
        self.say_accept(from, ballot, spans, out);
    }

    /// Whether a ballot of a slot's lane may come from a member.
    fn may_propose(&self, from: MemberIndex, slot: Slot, ballot: Ballot) -> bool {
        match ballot == super::state::OWNERS {
            true => self.lanes().owner(slot) == from,
            false => self.is_ballot_of(from, ballot),
        }
    }

    /// Whether a ballot is one of a member's.
    pub(super) fn is_ballot_of(&self, member: MemberIndex, ballot: Ballot) -> bool {
        (1..ROUNDS_MAX).contains(&ballot.round)
            && ballot.node == self.config.seating.members[member]
    }

    /// Whether some member may have made this ballot.
    pub(super) fn is_ballot(&self, ballot: Ballot) -> bool {
        let member = self.config.seating.member(ballot.node);
        ballot.round < ROUNDS_MAX && member.is_some()
    }

    /// Whether this is an entry of the slot's owner, and one that can be ordered (M2).
    fn may_be_in(&self, slot: Slot, entry: &Entry) -> bool {
        let owner = self.config.seating.members[self.lanes().owner(slot)];
        let is_owners = entry.id.origin == owner || self.fault(Fault::TakerProposes);
        is_owners && entry.body_len() <= ENTRY_BYTES_MAX && entry.bulk_len() == 0
    }

    /// A ballot is used in a lane: nothing lower is accepted from now on.
    pub(super) fn raise(&mut self, lane: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        self.outdo(lane, ballot, out);
        if ballot > self.lanes[lane].promised {
            self.lanes[lane].promised = ballot;
            out.persist(Record::Promise { lane, ballot });
        }
    }

    /// Somebody uses this ballot in a lane.
    pub(super) fn outdo(&mut self, lane: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        let was_owners = self.lanes[lane].highest == super::state::OWNERS;
        if self.lanes[lane].see(ballot) {
            out.emit(Event::Branch("lane lost"));
        }
        let is_own = lane == self.config.seating.me && was_owners;
        if is_own && ballot != super::state::OWNERS && self.fault(Fault::ResuggestTwice) {
            self.offers.iter_mut().for_each(|offer| offer.slot = None);
        }
    }

    /// Accepts an entry in a slot, unless that has happened.
    pub(super) fn accept_entry(
        &mut self,
        slot: Slot,
        ballot: Ballot,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        let held = self.slots.entry(slot).or_default();
        held.heard = None;
        if held
            .accepted
            .as_ref()
            .is_some_and(|(known, _)| *known == ballot)
        {
            return;
        }
        held.accepted = Some((ballot, Some(entry.clone())));
        out.persist(Record::Accept {
            slot,
            ballot,
            entry,
        });
    }

    /// Accepts no-ops, unless that has happened.
    pub(super) fn accept_noops(&mut self, span: Span, ballot: Ballot, out: &mut Out<Self>) {
        let mut is_new = false;
        for slot in self.lanes().slots_of(span, self.next, self.horizon()) {
            let held = self.slots.entry(slot).or_default();
            let is_known = held
                .accepted
                .as_ref()
                .is_some_and(|(known, _)| *known == ballot);
            if !is_known {
                held.accepted = Some((ballot, None));
                is_new = true;
            }
        }
        if is_new {
            out.persist(Record::Noops { span, ballot });
        }
    }

    /// Tells a leader what was accepted: at once, or with all that becomes durable together.
    fn say_accept(
        &mut self,
        to: MemberIndex,
        ballot: Ballot,
        spans: Vec<Span>,
        out: &mut Out<Self>,
    ) {
        match self.config.acks {
            Acks::Each => {
                let header = self.header_of_accept();
                let message = Message::Accept {
                    ballot,
                    spans,
                    header,
                };
                out.send(self.peer(to), message);
            }
            Acks::Range => {
                for span in spans {
                    let written = Written::Peer { to, ballot, span };
                    self.disk.push(out.persisted(), written);
                }
            }
        }
    }

    /// Counts, and says, what became durable.
    pub(super) fn take_durable(&mut self, out: &mut Out<Self>) {
        let mut said: Vec<(MemberIndex, Ballot, Vec<Slot>)> = Vec::new();
        while let Some(written) = self.disk.pop_durable() {
            match written {
                Written::Own { ballot, span } => {
                    self.count(self.config.seating.me, ballot, span, out);
                }
                Written::Peer { to, ballot, span } => {
                    let slots = self.lanes().slots_of(span, span.first, self.horizon());
                    let known = said
                        .iter_mut()
                        .find(|(of, at, _)| (*of, *at) == (to, ballot));
                    match known {
                        Some((_, _, all)) => all.extend(slots),
                        None => said.push((to, ballot, slots.collect())),
                    }
                }
                Written::Promise { lane, ballot } => self.count_own_promise(lane, ballot, out),
                Written::Reserve { until } => {
                    self.own.reserved_durable = self.own.reserved_durable.max(until);
                }
            }
        }
        for (to, ballot, mut slots) in said {
            slots.sort_unstable();
            slots.dedup();
            let (spans, header) = (lanes::spans(slots, self.lanes()), self.header_of_accept());
            let message = Message::Accept {
                ballot,
                spans,
                header,
            };
            self.say(MemberSet::only(to), &message, out);
        }
    }

    /// What is said besides an acceptance.
    fn header_of_accept(&self) -> Header {
        let mut header = self.header();
        if self.fault(Fault::ImplicitSkip) {
            header.skips.except.clear();
        }
        header
    }

    /// Somebody wants to take a lane over.
    pub(super) fn on_prepare(
        &mut self,
        from: MemberIndex,
        lane: MemberIndex,
        ballot: Ballot,
        first: Slot,
        out: &mut Out<Self>,
    ) {
        if !self.is_ballot_of(from, ballot) {
            return self.misbehaved(from, "a ballot of another", out);
        }
        if self.is_silent {
            return;
        }
        if ballot < self.lanes[lane].promised {
            return self.say_nack(from, lane, out);
        }
        if self.fault(Fault::PromiseOneSlot) {
            self.lanes[lane].one_slot = Some((self.lanes().first_from(lane, first), ballot));
        } else {
            self.raise(lane, ballot, out);
        }
        let message = Message::Promise {
            lane,
            ballot,
            shown: self.shown(lane, first),
            delivered: self.next,
        };
        out.send(self.peer(from), message);
    }

    /// What this replica has in a lane, from a slot on.
    pub(super) fn shown(&self, lane: MemberIndex, from: Slot) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        for (slot, held) in self.slots.range(from.max(self.next)..) {
            if self.lanes().owner(*slot) != lane {
                continue;
            }
            let (ballot, value) = match (&held.decided, &held.accepted) {
                (Some(value), _) => (None, value.clone()),
                (None, Some((ballot, value))) => (Some(*ballot), value.clone()),
                (None, None) => continue,
            };
            let before = all.last_mut().filter(|before| {
                let is_like_it = before.ballot == ballot && before.value.is_none();
                is_like_it && value.is_none() && self.lanes().behind(before.span.last) == *slot
            });
            match before {
                Some(before) => before.span.last = *slot,
                None => all.push(Shown {
                    span: Span::only(*slot),
                    ballot,
                    value,
                }),
            }
        }
        all
    }

    /// A peer uses a ballot that is too low.
    fn say_nack(&mut self, to: MemberIndex, lane: MemberIndex, out: &mut Out<Self>) {
        let message = Message::Nack {
            lane,
            promised: self.lanes[lane].promised,
            delivered: self.next,
        };
        // What is refused for a promise need not wait for it: to refuse promises nothing.
        out.send_early(self.peer(to), message);
    }

    /// A ballot of this replica, or of somebody, is too low.
    pub(super) fn on_nack(
        &mut self,
        from: MemberIndex,
        lane: MemberIndex,
        promised: Ballot,
        out: &mut Out<Self>,
    ) {
        if !self.is_ballot(promised) {
            return self.misbehaved(from, "a promise of no ballot", out);
        }
        let was_preparing = matches!(self.lanes[lane].lead, Lead::Preparing(_));
        self.outdo(lane, promised, out);
        let is_lost = matches!(self.lanes[lane].lead, Lead::None);
        self.lanes[lane].is_barred |= was_preparing && is_lost;
    }

    /// What is decided, and was told by its name before the entry was here.
    pub(super) fn match_claim(&mut self, slot: Slot, out: &mut Out<Self>) {
        let Some(held) = self.slots.get(&slot) else {
            return;
        };
        let claimed = held.claimed.and_then(|id| held.entry(id)).cloned();
        if claimed.is_some() {
            self.learn(slot, claimed, out);
        }
    }

    /// What a peer knows to be decided.
    pub(super) fn on_learned(&mut self, learned: Learned, out: &mut Out<Self>) {
        // Who tells of an entry tells of the skipped slots before it, too.
        let last = learned.values.iter().map(|(slot, _)| *slot).max();
        if let Some(last) = last.filter(|last| *last < self.horizon()) {
            let told = self.first_own(last).min(self.own.next);
            self.own.announced = self.own.announced.max(told);
        }
        for (slot, id) in learned.values {
            if slot < self.next || slot >= self.horizon() {
                continue;
            }
            self.see(slot.next());
            self.slots.entry(slot).or_default().claimed = Some(id);
            self.match_claim(slot, out);
        }
        for span in learned.noops {
            let slots = self.lanes().slots_of(span, self.next, self.horizon());
            for slot in slots {
                self.learn(slot, None, out);
            }
        }
    }

    /// A decided entry.
    pub(super) fn on_decided(
        &mut self,
        from: MemberIndex,
        slot: Slot,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        if !self.may_be_in(slot, &entry) {
            return self.misbehaved(from, "an entry in a slot that is not its owner's", out);
        }
        if (self.next..self.horizon()).contains(&slot) {
            out.emit(Event::Branch("told what is decided"));
            self.see(slot.next());
            self.learn(slot, Some(entry), out);
        }
    }

    /// Takes what a peer says besides. What an owner skipped is decided, whatever the ballot (M4).
    pub(super) fn on_header(&mut self, from: MemberIndex, header: &Header, out: &mut Out<Self>) {
        self.note_claim(from, header.delivered);
        let (skips, told) = (&header.skips, self.told_skips[from].max(self.next));
        let end = skips.below.min(self.horizon());
        // What goes on behind slots that were told of before needs no second look at those.
        let goes_on = skips.from <= told;
        let first = if goes_on { told } else { skips.from };
        for slot in self.lanes().slots(from, first, end) {
            if skips.except.binary_search(&slot).is_err() {
                self.decide_skipped(slot, out);
            }
        }
        if goes_on {
            self.told_skips[from] = told.max(end);
        }
    }
}
