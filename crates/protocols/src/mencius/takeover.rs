//! Taking a lane over: one phase 1 for all slots from one on, then no-ops (or what was found) by phase 2 alone.

use super::Replica;
use super::lanes::{Span, spans};
use super::messages::{Learned, Message, Shown};
use super::mutants::Fault;
use super::state::{Findings, Found, Lead, Leading, OWNERS, Preparing, Written};
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Entry, Event, MemberIndex, MemberSet, Out, Slot};

/// Strikes of a leader that is heard and under which nothing moves, before its lane is taken over all the same.
const STRIKES_MAX: u32 = 4;

impl Replica {
    /// Begins phase 1 of a lane.
    pub(super) fn take_over(&mut self, lane: MemberIndex, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        let known = self.lanes[lane].highest.max(self.lanes[lane].promised);
        let ballot = Ballot {
            round: known.round + 1,
            node: self.config.seating.members[me],
        };
        if !self.is_ballot_of(me, ballot) {
            return;
        }
        out.emit(Event::Branch(match lane == me {
            true => "own lane taken back",
            false => "lane taken over",
        }));
        // The own promise is durable before anybody hears of the ballot, which no later start uses again.
        self.raise(lane, ballot, out);
        self.disk
            .push(out.persisted(), Written::Promise { lane, ballot });
        let from = self.lanes().first_from(lane, self.next);
        self.lanes[lane].strikes = 0;
        self.lanes[lane].lead = Lead::Preparing(Preparing {
            ballot,
            from,
            promised_by: MemberSet::EMPTY,
            findings: Findings::default(),
            delivered: self.next,
        });
        let shown = self.shown(lane, from);
        self.take_shown(lane, shown);
        self.say_prepare(lane, self.config.seating.others(), out);
    }

    /// Asks members for promises.
    pub(super) fn say_prepare(&self, lane: MemberIndex, to: MemberSet, out: &mut Out<Self>) {
        if let Lead::Preparing(preparing) = &self.lanes[lane].lead {
            let message = Message::Prepare {
                lane,
                ballot: preparing.ballot,
                from: preparing.from,
            };
            self.send_to(to, &message, |to, message| out.send(to, message));
        }
    }

    /// The own promise is durable.
    pub(super) fn count_own_promise(
        &mut self,
        lane: MemberIndex,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        let (me, next) = (self.config.seating.me, self.next);
        self.count_promise(me, lane, ballot, next, out);
    }

    /// A member promises.
    pub(super) fn on_promise(
        &mut self,
        from: MemberIndex,
        lane: MemberIndex,
        ballot: Ballot,
        shown: Vec<Shown>,
        delivered: Slot,
        out: &mut Out<Self>,
    ) {
        self.note_claim(from, delivered);
        let is_asked = match &self.lanes[lane].lead {
            Lead::Preparing(preparing) => preparing.ballot == ballot,
            _ => false,
        };
        let lanes = self.lanes();
        let is_of_lane = |shown: &Shown| {
            let is_single = shown.value.is_none() || shown.span.first == shown.span.last;
            is_single && lanes.owner(shown.span.first) == lane
        };
        let count = |shown: &Shown| shown.span.last.0.saturating_sub(shown.span.first.0);
        let counted = shown
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(count(one)));
        if !shown.iter().all(is_of_lane) || counted > self.config.slots_max {
            return self.misbehaved(from, "a promise that shows other lanes, or too much", out);
        }
        if is_asked {
            self.take_shown(lane, shown);
            self.count_promise(from, lane, ballot, delivered, out);
        }
    }

    /// Takes what a promise showed, all of it: what this replica keeps no slots for yet it proposes later.
    fn take_shown(&mut self, lane: MemberIndex, shown: Vec<Shown>) {
        let (lanes, next) = (self.lanes(), self.next);
        let is_first_kept = self.fault(Fault::LowerBallot);
        if let Lead::Preparing(preparing) = &mut self.lanes[lane].lead {
            for Shown {
                span,
                ballot,
                value,
            } in shown
            {
                let end = Slot(u64::MAX);
                for slot in lanes.slots_of(span, next, end) {
                    let value = value.clone();
                    if !is_first_kept || preparing.findings.get(slot).is_none() {
                        preparing.findings.add(slot, Found { ballot, value });
                    }
                }
            }
        }
    }

    fn count_promise(
        &mut self,
        member: MemberIndex,
        lane: MemberIndex,
        ballot: Ballot,
        delivered: Slot,
        out: &mut Out<Self>,
    ) {
        let enough = self.config.thresholds.promise;
        let Lead::Preparing(preparing) = &mut self.lanes[lane].lead else {
            return;
        };
        if preparing.ballot != ballot {
            return;
        }
        preparing.promised_by.insert(member);
        preparing.delivered = preparing.delivered.max(delivered);
        if preparing.promised_by.len() >= enough {
            let preparing = preparing.clone();
            self.lead(lane, preparing, out);
        }
    }

    /// A majority has promised: phase 2 begins.
    fn lead(&mut self, lane: MemberIndex, preparing: Preparing, out: &mut Out<Self>) {
        let Preparing {
            ballot,
            mut findings,
            delivered,
            from,
            ..
        } = preparing;
        findings.cut(delivered);
        let filled = self.lanes().first_from(lane, from.max(delivered));
        let is_own = lane == self.config.seating.me;
        if is_own && !self.fault(Fault::OwnerIgnoresPromises) {
            // Own values go where no promise showed anything: what was shown behind the last own slot is the
            // no-ops of others. That no own value was ever suggested there is what skipping says.
            let behind = findings
                .last()
                .map_or(filled, |last| self.lanes().behind(last));
            self.own.next = self.own.next.max(behind);
            self.reserve(out);
        }
        let until = is_own.then_some(self.own.next);
        self.lanes[lane].lead = Lead::Leading(Leading {
            ballot,
            findings,
            filled,
            until,
        });
        self.fill(lane, out);
    }

    /// Proposes in the lanes that this replica leads what needs to be.
    pub(super) fn fill_all(&mut self, out: &mut Out<Self>) {
        for position in 0..self.lanes.len() {
            let lane = MemberIndex::new(position);
            if self.lanes[lane].leading().is_some() {
                self.fill(lane, out);
            }
        }
    }

    /// Fills a lane that this replica leads: again what was found, no-ops elsewhere.
    fn fill(&mut self, lane: MemberIndex, out: &mut Out<Self>) {
        let Some(leading) = self.lanes[lane].leading() else {
            return;
        };
        let (ballot, until) = (leading.ballot, leading.until);
        if let Some(last) = leading.findings.last_entry() {
            let end = Slot(last.0.saturating_add(1));
            self.see(end);
        }
        let Some(end) = self.fill_end(lane) else {
            return;
        };
        let Lead::Leading(leading) = &mut self.lanes[lane].lead else {
            return;
        };
        let first = leading.filled;
        leading.filled = self.config.lanes().first_from(lane, end);
        let findings = leading.findings.clone();
        leading.findings.cut(end);
        let mut noops = Vec::new();
        for slot in self.lanes().slots(lane, first.max(self.next), end) {
            let is_decided = self
                .slots
                .get(&slot)
                .is_some_and(|held| held.decided.is_some());
            if is_decided || slot < self.next {
                continue;
            }
            let found = findings
                .get(slot)
                .filter(|_| !self.fault(Fault::NoopOverValue));
            match found {
                Some(Found {
                    ballot: None,
                    value,
                }) => self.learn(slot, value.clone(), out),
                Some(Found {
                    value: Some(entry), ..
                }) => {
                    self.propose_again(slot, ballot, entry.clone(), out);
                }
                Some(Found { value: None, .. }) => noops.push(slot),
                // An owner skipped what it did not suggest.
                None if until.is_some() && self.own.from <= slot => {}
                None => noops.push(slot),
            }
        }
        if self.fault(Fault::TakerProposes) && until.is_none() {
            self.put_own_into(&mut noops, ballot, out);
        }
        self.propose_noops(noops, ballot, out);
    }

    /// Up to where a lane is to be filled now; `None` if nothing is to do.
    fn fill_end(&self, lane: MemberIndex) -> Option<Slot> {
        let leading = self.lanes[lane].leading()?;
        let bound = Slot(self.next.0 + self.config.window + self.config.ahead);
        let wanted = match leading.until {
            Some(until) => until,
            // The next no-ops follow when half of the last ones are used.
            None => {
                let half = Slot(self.seen.0 + self.config.ahead / 2);
                if leading.filled >= half.min(bound) {
                    return None;
                }
                Slot(self.seen.0 + self.config.ahead)
            }
        };
        let end = wanted.min(bound);
        (leading.filled < end).then_some(end)
    }

    /// Proposes again what promises showed.
    fn propose_again(&mut self, slot: Slot, ballot: Ballot, entry: Entry, out: &mut Out<Self>) {
        out.emit(Event::Branch("entry proposed again"));
        let others = self.config.seating.others();
        self.say_suggest(others, slot, ballot, &entry, Learned::default(), out);
        self.propose(slot, ballot, Some(entry.clone()));
        self.accept_entry(slot, ballot, entry, out);
        self.await_own(ballot, Span::only(slot), out);
    }

    /// Puts own entries where no-ops belong (a mutant).
    fn put_own_into(&mut self, noops: &mut Vec<Slot>, ballot: Ballot, out: &mut Out<Self>) {
        for offer in self.offers.clone() {
            if let Some(slot) = noops.first().copied().filter(|slot| *slot < self.seen) {
                noops.remove(0);
                self.propose_again(slot, ballot, offer.entry, out);
            }
        }
    }

    fn propose_noops(&mut self, slots: Vec<Slot>, ballot: Ballot, out: &mut Out<Self>) {
        for slot in &slots {
            self.propose(*slot, ballot, None);
        }
        for span in spans(slots, self.lanes()) {
            self.say_noops(self.config.seating.others(), span, ballot, out);
            self.accept_noops(span, ballot, out);
            self.await_own(ballot, span, out);
        }
    }

    pub(super) fn say_noops(
        &mut self,
        to: MemberSet,
        span: Span,
        ballot: Ballot,
        out: &mut Out<Self>,
    ) {
        let message = Message::Noops {
            span,
            ballot,
            header: self.header(),
        };
        self.say(to, &message, out);
    }

    /// Takes the own lane back as soon as this replica needs it.
    pub(super) fn take_back(&mut self, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        let lane = &self.lanes[me];
        let is_idle = matches!(lane.lead, Lead::None) && !lane.is_barred;
        if is_idle && self.own_ballot().is_none() && self.needs_own_lane() {
            self.take_over(me, out);
        }
    }

    /// Whether own entries wait, or own slots of which only a phase 1 tells.
    fn needs_own_lane(&self) -> bool {
        let is_needed = self.wants_slot() || !self.offers.is_empty();
        let is_awaited = self.has_doubtful_slots() && self.first_own(self.next) < self.seen;
        !self.is_silent && (is_needed || is_awaited)
    }

    /// A lane that this replica waits for was silent for long.
    pub(super) fn on_suspect(&mut self, out: &mut Out<Self>) {
        self.armed.suspect = None;
        let heard = std::mem::take(&mut self.heard) - self.down;
        let has_moved = std::mem::take(&mut self.has_moved);
        if self.is_silent || !self.is_blocked() {
            return;
        }
        for lane in self.awaited_lanes() {
            if self.is_at_work(lane) {
                continue;
            }
            let is_heard = heard.contains(self.leader_of(lane));
            let state = &mut self.lanes[lane];
            state.strikes = if has_moved { 0 } else { state.strikes + 1 };
            if !is_heard || state.strikes > STRIKES_MAX {
                self.take_over(lane, out);
            }
        }
    }

    /// Whether this replica leads a lane, or asks for promises.
    fn is_at_work(&self, lane: MemberIndex) -> bool {
        let is_owner = lane == self.config.seating.me && self.own_ballot().is_some();
        is_owner || self.lanes[lane].lead_ballot().is_some()
    }

    /// The member that leads a lane, as far as known here.
    pub(super) fn leader_of(&self, lane: MemberIndex) -> MemberIndex {
        let highest = self.lanes[lane].highest;
        let of = self.config.seating.member(highest.node);
        of.filter(|_| highest != OWNERS).unwrap_or(lane)
    }

    /// The lanes of slots that hold up something that was seen.
    pub(super) fn awaited_lanes(&self) -> Vec<MemberIndex> {
        let mut awaited = MemberSet::EMPTY;
        for slot in (self.next.0..self.seen.0).map(Slot) {
            let is_decided = self
                .slots
                .get(&slot)
                .is_some_and(|held| held.decided.is_some());
            awaited.insert_if(self.lanes().owner(slot), !is_decided);
            if awaited.len() == self.lanes.len() {
                break;
            }
        }
        awaited.iter().collect()
    }
}
