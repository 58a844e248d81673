//! The owner of a lane: own slots that are used, skipped and reserved.

use super::Replica;
use super::config::Acks;
use super::lanes::Span;
use super::messages::{Header, Learned, Message, Record, Timer};
use super::mutants::Fault;
use super::state::{OWNERS, Proposal, Written};
use crate::shared::ballot::Ballot;
use crate::shared::under_way::{alone_ns, is_long};
use quorate_core::{Due, Entry, Event, MemberSet, Now, Out, Peers, Slot};

/// Own slots that are delivered here and that messages still speak of.
const TOLD_OWN_SLOTS: u64 = 8;

impl Replica {
    /// Suggests own entries while there are any and own slots for them.
    pub(super) fn suggest_all(&mut self, now: Now, out: &mut Out<Self>) {
        while let Some((slot, ballot)) = self.free_slot() {
            let Some(entry) = self.take_entry(slot, now) else {
                return;
            };
            self.suggest(slot, ballot, entry, out);
        }
    }

    /// The next own slot that an entry may be suggested in, and the ballot by which.
    fn free_slot(&self) -> Option<(Slot, Ballot)> {
        let ballot = self.own_ballot()?;
        let slot = self.own.next;
        (slot.0 < self.next.0 + self.config.window).then_some((slot, ballot))
    }

    /// The ballot by which this replica may use its own lane: that of owners as long as nobody has taken the lane
    /// over, or one that it has the promises for.
    pub(super) fn own_ballot(&self) -> Option<Ballot> {
        if self.is_silent {
            return None;
        }
        let lane = &self.lanes[self.config.seating.me];
        match lane.leading() {
            Some(leading) => (leading.ballot >= lane.highest).then_some(leading.ballot),
            None if self.has_doubtful_slots() => None,
            None => (lane.highest == OWNERS).then_some(OWNERS),
        }
    }

    /// Whether own slots of an earlier start are not delivered: whatever was said about them then, a phase 1 has
    /// to find out.
    pub(super) fn has_doubtful_slots(&self) -> bool {
        self.first_own(self.next) < self.own.from
    }

    /// The first own slot from one on.
    pub(super) fn first_own(&self, from: Slot) -> Slot {
        self.lanes().first_from(self.config.seating.me, from)
    }

    /// Suggests an entry in an own slot.
    fn suggest(&mut self, slot: Slot, ballot: Ballot, entry: Entry, out: &mut Out<Self>) {
        self.own.suggested.insert(slot);
        self.own.next = self.lanes().behind(slot);
        self.see(slot.next());
        self.reserve(out);
        let learned = match self.config.acks {
            Acks::Range => self.take_untold(),
            Acks::Each => Learned::default(),
        };
        self.say_suggest(
            self.config.seating.others(),
            slot,
            ballot,
            &entry,
            learned,
            out,
        );
        self.propose(slot, ballot, Some(entry.clone()));
        self.accept_entry(slot, ballot, entry, out);
        self.await_own(ballot, Span::only(slot), out);
    }

    /// Notes a proposal of this replica.
    pub(super) fn propose(&mut self, slot: Slot, ballot: Ballot, value: Option<Entry>) {
        let others = self.config.seating.others();
        let until_ns = value
            .as_ref()
            .map_or(0, |entry| self.there_ns(entry, others));
        self.proposals.insert(
            slot,
            Proposal {
                ballot,
                value,
                accepted_by: MemberSet::EMPTY,
                is_fresh: true,
                until_ns,
            },
        );
    }

    /// When an entry that leaves for some members now is there, on the own clock in ns: links may need long for a
    /// long one, and nothing becomes faster by saying it again.
    pub(super) fn there_ns(&self, entry: &Entry, to: MemberSet) -> u64 {
        match is_long(entry) {
            true => self.now_ns + 2 * alone_ns(entry, to),
            false => 0,
        }
    }

    /// What was accepted here counts once it is durable.
    pub(super) fn await_own(&mut self, ballot: Ballot, span: Span, out: &mut Out<Self>) {
        let written = Written::Own { ballot, span };
        self.disk.push(out.persisted(), written);
    }

    pub(super) fn say_suggest(
        &mut self,
        to: MemberSet,
        slot: Slot,
        ballot: Ballot,
        entry: &Entry,
        learned: Learned,
        out: &mut Out<Self>,
    ) {
        let message = Message::Suggest {
            slot,
            ballot,
            entry: entry.clone(),
            learned,
            header: self.header(),
        };
        self.say(to, &message, out);
    }

    /// Reserves own slots: those used by now, durably before anybody hears of it, and some more ahead of time.
    pub(super) fn reserve(&mut self, out: &mut Out<Self>) {
        let (used, ahead) = (self.own.next, self.config.reserved_slots);
        if used.0.saturating_add(ahead / 2) > self.own.reserved.0 {
            let until = Slot(used.0.saturating_add(ahead));
            self.own.reserved = until;
            let lsn = out.persist(Record::Reserve { until });
            self.disk.push(lsn, Written::Reserve { until });
        }
    }

    /// Skips own slots that others wait for: those before the first one behind all that was seen.
    pub(super) fn skip_to_seen(&mut self, out: &mut Out<Self>) {
        if self.is_silent || self.fault(Fault::NeverSkip) {
            return;
        }
        let wanted = self.first_own(self.seen.min(self.horizon()));
        if self.own.next < wanted {
            self.own.next = wanted;
            self.reserve(out);
        }
    }

    /// Own slots are never used once this is so of the first slot that is not delivered.
    pub(super) fn settle_skips(&mut self, out: &mut Out<Self>) {
        if self.is_silent {
            return;
        }
        let end = self
            .own
            .next
            .min(self.own.reserved_durable)
            .min(self.horizon());
        let from = self.own.settled.max(self.own.from).max(self.next);
        for slot in self.lanes().slots(self.config.seating.me, from, end) {
            if self.own.has_skipped(slot) {
                self.decide_skipped(slot, out);
            }
        }
        self.own.settled = self.own.settled.max(end);
    }

    /// The first slot that messages still speak of when own slots are skipped: peers may be a little behind.
    pub(super) fn told_from(&self) -> Slot {
        let members = self.config.seating.members.len() as u64;
        Slot(self.next.0.saturating_sub(TOLD_OWN_SLOTS * members))
    }

    /// What this replica says besides.
    pub(super) fn header(&self) -> Header {
        Header {
            skips: self.own.skips(self.told_from()),
            delivered: self.next,
        }
    }

    /// Says something that promises nothing but what the header does: that own slots are skipped.
    pub(super) fn say(&mut self, to: MemberSet, message: &Message, out: &mut Out<Self>) {
        if to == self.config.seating.others() {
            self.own.announced = self.own.next;
        }
        let is_reserved =
            self.own.next <= self.own.reserved_durable || self.own.next <= self.own.from;
        self.send_to(to, message, |to: Peers, message| match is_reserved {
            true => out.send_early(to, message),
            false => out.send(to, message),
        });
    }

    /// Says what was skipped, and what is delivered.
    pub(super) fn say_skip(&mut self, to: MemberSet, out: &mut Out<Self>) {
        if !self.is_silent {
            let header = self.header();
            self.say(to, &Message::Skip { header }, out);
        }
    }

    /// Skipped slots that no message to all has told of: the first of them.
    pub(super) fn unannounced(&self) -> Option<Slot> {
        let from = self.own.announced.max(self.own.from).max(self.told_from());
        if self.is_silent {
            return None;
        }
        let mut slots = self
            .lanes()
            .slots(self.config.seating.me, from, self.own.next);
        slots.find(|slot| self.own.has_skipped(*slot))
    }

    /// Has skipped slots told to all after a while, unless whoever decided something behind them has done so.
    pub(super) fn watch_skips(&mut self, out: &mut Out<Self>) {
        if !self.armed.skip && self.unannounced().is_some() {
            self.armed.skip = true;
            out.arm(Timer::Skip, Due::After(self.config.delays.skip_ns));
        }
    }

    pub(super) fn on_skip_timer(&mut self, out: &mut Out<Self>) {
        self.armed.skip = false;
        if self.unannounced().is_some() {
            out.emit(Event::Branch("skipped slots told to all"));
            self.say_skip(self.config.seating.others(), out);
        }
    }
}
