//! What makes up for loss: retransmission, batches said again, laggards and links.

use super::Replica;
use super::config::Config;
use super::messages::{Bits, Message, Nulls, SlotMessage, Timer};
use super::slot::Instance;
use super::voice::SlotValue;
use quorate_core::{
    Due, ENTRY_BYTES_MAX, Entry, EntryId, Event, MemberIndex, MemberSet, Now, Out, Peers,
    ReplicaId, Slot,
};

/// Batches answered per request, at most.
const NEED_IDS_MAX: usize = 64;

/// The timer that says again what went unanswered.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Retransmission {
    is_armed: bool,
    /// Retransmissions since the last delivery.
    backoff: u32,
}

impl Retransmission {
    /// Something was delivered.
    pub(super) fn moved(&mut self) {
        self.backoff = 0;
    }

    /// How long the timer runs.
    fn wait_ns(&self, config: &Config) -> u64 {
        let wait_ns = config.rtx_min_ns << self.backoff.min(16);
        wait_ns.min(config.rtx_max_ns)
    }
}

/// A peer works on slots beyond the window here: it has delivered what is open here.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Behind {
    /// The peer, and the slot it was seen in.
    pub(super) ahead: Option<(ReplicaId, Slot)>,
    /// Whether the timer runs after which the host is asked to catch up.
    is_armed: bool,
}

impl Replica {
    /// A batch, from its origin or from who was asked.
    pub(super) fn on_batch(
        &mut self,
        now: Now,
        from: MemberIndex,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        let id = entry.id;
        let Some(origin) = self.config.member(id.origin) else {
            return self.misbehaved(from, "a batch of no member", out);
        };
        if entry.body_len() > ENTRY_BYTES_MAX {
            return self.misbehaved(from, "a batch too large", out);
        }
        if id.boot == self.config.boot && origin == self.config.me && !self.names.has_given(id.seq)
        {
            return self.misbehaved(from, "a batch I never formed", out);
        }
        let is_known = self.pool.holds(id) || self.done.entries.contains(id);
        if !is_known {
            let is_needed = self.needs.came(&entry, now.mono_ns);
            if !is_needed && !self.pool.has_room(origin, entry.body_len(), &self.config) {
                return out.emit(Event::Branch("pool share full"));
            }
            self.see_stamp(now, entry.stamp_ns);
            let stamp_ns = entry.stamp_ns;
            let rank_ns = self.rank_ns(now, stamp_ns);
            let is_withheld = self.config.holders_propose && entry.bulk_len() > 0;
            self.pool.insert(entry, rank_ns, origin, false);
            if is_withheld {
                self.pool.withhold(id);
            }
            self.freeze(now, id, stamp_ns, out);
        }
        // To know it without what goes with it is no use to its origin.
        if from == origin && (self.pool.may_propose(id) || self.done.entries.contains(id)) {
            self.acknowledge = Some((from, id));
        }
    }

    /// Tells an origin that its batch is here, unless a proposal says so already.
    pub(super) fn acknowledge(&mut self, out: &mut Out<Self>) {
        let Some((origin, id)) = self.acknowledge.take() else {
            return;
        };
        if !self
            .slots
            .iter()
            .any(|slot| slot.own().prop == SlotValue::Request(id))
        {
            let message = Message::Have { ids: vec![id] };
            out.send_early(Peers::One(self.config.members[origin]), message);
        }
    }

    /// A peer lacks batches: those undecided it gets from here, the others from the log.
    pub(super) fn on_need(
        &mut self,
        j: MemberIndex,
        from: Slot,
        ids: &[EntryId],
        out: &mut Out<Self>,
    ) {
        let peer = self.config.members[j];
        for id in ids.iter().take(NEED_IDS_MAX) {
            if let Some(entry) = self.pool.get(*id) {
                give_batch(Peers::One(peer), entry.clone(), out);
            }
        }
        let is_behind = from < self.ap && ids.iter().any(|id| self.done.entries.contains(*id));
        if is_behind {
            out.inform(peer, from);
        }
    }

    /// A peer holds own batches.
    pub(super) fn on_have(&mut self, from: MemberIndex, ids: &[EntryId]) {
        ids.iter().for_each(|id| self.credit(from, *id));
    }

    /// A peer's history in a slot.
    pub(super) fn on_slot(
        &mut self,
        from: MemberIndex,
        message: &SlotMessage,
        out: &mut Out<Self>,
    ) {
        if let Some(flaw) = message.flaw(self.config.mode) {
            return self.misbehaved(from, flaw, out);
        }
        let (peer, slot) = (self.config.members[from], message.slot);
        let is_here = |id: EntryId| {
            let origin = self.config.member(id.origin);
            self.config.lanes == 1 || origin.is_some_and(|m| self.config.is_for(slot, m))
        };
        if !message.prop.is_none_or(is_here) {
            return self.misbehaved(from, "a request in another's lane", out);
        }
        self.presence.spoke_in(slot, from);
        self.lanes.hear_more(from, message.more);
        let is_asking = message.want || message.trail.is_past_first_vote();
        if slot < self.ap {
            if is_asking {
                out.inform(peer, slot);
            }
            return;
        }
        let offset = slot.0 - self.ap.0;
        if offset >= self.config.window as u64 {
            self.peer_ahead(peer, slot, out);
        }
        if offset >= self.config.recv_window as u64 {
            return;
        }
        let instance = self.instance_grown(offset as usize);
        if instance.is_decided() {
            if is_asking {
                let value = instance.decided.request();
                out.send(Peers::One(peer), Message::Decided { slot, value });
            }
            return;
        }
        if let Err(flaw) = instance.merge(from, message) {
            return self.misbehaved(from, flaw, out);
        }
        let answers = message.want && instance.is_proposed();
        if let Some(id) = message.prop {
            self.credit(from, id);
            self.lack(id, MemberSet::only(from), out);
        }
        if answers {
            self.say(slot, Peers::One(peer), false, out);
        }
        self.progress(slot, false, out);
    }

    /// A peer's proposals of NULL, one by one.
    pub(super) fn on_nulls(&mut self, from: MemberIndex, message: &Nulls, out: &mut Out<Self>) {
        let mode = self.config.mode;
        message
            .spelled_out(mode)
            .for_each(|said| self.on_slot(from, &said, out));
    }

    /// A peer tells the outcome of a slot that its log could not tell yet.
    pub(super) fn on_decided(
        &mut self,
        from: MemberIndex,
        slot: Slot,
        value: Option<EntryId>,
        out: &mut Out<Self>,
    ) {
        let offset = slot.0.checked_sub(self.ap.0);
        let Some(offset) = offset.filter(|o| *o < self.config.recv_window as u64) else {
            return;
        };
        let known = self.instance_grown(offset as usize).decided;
        if !known.is_heard() {
            out.emit(Event::Branch("outcome told"));
            self.decide(slot, value, out);
        } else if known != value.into() {
            self.misbehaved(from, "another outcome", out);
        }
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, now: Now, out: &mut Out<Self>) {
        self.retransmission.is_armed = false;
        let mut said = false;
        let mut nulls = Bits::default();
        for offset in 0..self.slots.len() {
            let instance = &mut self.slots[offset];
            if !instance.is_working() || std::mem::take(&mut instance.fresh) {
                continue;
            }
            said = true;
            if self.is_bare_null(offset) {
                nulls.insert(offset);
            } else {
                self.say(self.slot_at(offset), Peers::All, true, out);
            }
        }
        if !nulls.is_empty() {
            self.say_these_nulls(nulls, Peers::All, true, out);
        }
        for index in 0..self.offers.len() {
            self.offers[index].attached.expire(now.mono_ns);
            if !std::mem::take(&mut self.offers[index].fresh) {
                self.offer_again(now, index, self.presence.up(), out);
                said = true;
            }
        }
        said |= self.ask_marks_again(out);
        said |= self.nudge_for_reads();
        said |= self.rejoin.is_some();
        self.say_rejoin(Peers::All, out);
        let patience = 2 * self.config.members.len() as u32;
        self.needs.give_up(&self.slots, patience);
        said |= !self.needs.is_empty();
        self.ask_for_needs_again(now.mono_ns, out);
        self.retransmission.backoff += u32::from(said);
    }

    /// A read waits for slots that nothing moves: the proposal its mark counts was lost with its
    /// proposer's memory, or the slots were decided while this replica did not listen. Running
    /// them ends the wait either way. Says whether any read waits.
    fn nudge_for_reads(&mut self) -> bool {
        let waits = self.ap < self.reads.promised;
        if waits && !self.slots.front().is_some_and(Instance::is_started) {
            self.nudge(self.reads.promised);
        }
        waits
    }

    /// Has the slots before `until` run, as far as messages are kept: whoever waits for more
    /// says so again.
    pub(super) fn nudge(&mut self, until: Slot) {
        let far = Slot(self.ap.0 + self.config.recv_window as u64);
        self.nudged = self.nudged.max(until.min(far));
    }

    /// Gives a batch to those of these members that may not have it, unless it is on its way to them.
    fn offer_again(&mut self, now: Now, index: usize, to: MemberSet, out: &mut Out<Self>) {
        let offer = &self.offers[index];
        let entry = self.pool.get(offer.id);
        let entry = entry.expect("the origin holds its offers").clone();
        if self.config.holders_propose && entry.bulk_len() > 0 {
            // Of no use without what goes with it.
            return;
        }
        let to = to - offer.held_by - offer.attached.members();
        if to.is_empty() {
            return;
        }
        let again = self.given_to_links(entry.body_len(), to, now.mono_ns);
        self.offers[index].attached.join(again);
        for member in to {
            give_batch(Peers::One(self.config.members[member]), entry.clone(), out);
        }
    }

    /// Arms the retransmission timer while anything said may go unanswered.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let has_work = !self.offers.is_empty()
            || !self.needs.is_empty()
            || self.reads.queries.is_asking()
            || self.rejoin.is_some()
            || self.ap < self.reads.promised
            || self.slots.iter().any(Instance::is_working);
        if has_work && !self.retransmission.is_armed {
            self.retransmission.is_armed = true;
            let wait = self.retransmission.wait_ns(&self.config);
            out.arm(Timer::Retransmit, Due::Within(wait..=wait + wait / 4));
        }
    }

    /// A peer works on a slot beyond the window here: it has delivered what is open here.
    fn peer_ahead(&mut self, peer: ReplicaId, slot: Slot, out: &mut Out<Self>) {
        self.behind.ahead = Some((peer, slot));
        if !self.behind.is_armed {
            self.behind.is_armed = true;
            out.arm(Timer::CatchUp, Due::After(self.config.learn_delay_ns));
        }
    }

    /// Still behind? Then by more than a moment's reordering.
    pub(super) fn on_catch_up(&mut self, out: &mut Out<Self>) {
        self.behind.is_armed = false;
        let window = self.config.window as u64;
        match self.behind.ahead {
            Some((peer, slot)) if slot.0 - window >= self.ap.0 => {
                out.catch_up(peer, Slot(slot.0 - window));
                self.behind.is_armed = true;
                out.arm(Timer::CatchUp, Due::After(self.config.rtx_max_ns));
            }
            _ => self.behind.ahead = None,
        }
    }

    /// A link came up: say at once what may have been lost. Or went down: do not wait for it.
    pub(super) fn on_link(&mut self, now: Now, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self
            .config
            .member(peer)
            .filter(|member| *member != self.config.me)
        else {
            return;
        };
        let offers = self.offers.iter_mut();
        offers.for_each(|offer| offer.attached.lose(member));
        self.presence.set_up(member, up);
        if !up {
            self.hasten_needs(peer, out);
            for offset in 0..self.slots.len() {
                self.progress(Slot(self.ap.0 + offset as u64), false, out);
            }
            return;
        }
        self.ask_mark_of(member, out);
        self.say_rejoin(Peers::One(peer), out);
        for index in 0..self.offers.len() {
            self.offers[index].held_by.remove(member);
            self.offer_again(now, index, MemberSet::only(member), out);
        }
        for offset in 0..self.slots.len() {
            if self.slots[offset].is_working() {
                let slot = Slot(self.ap.0 + offset as u64);
                self.say(slot, Peers::One(peer), true, out);
            }
        }
    }

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}

/// Says a batch again. That one is offered at all promises nothing, unless a protocol around this one
/// has written that it may be.
fn give_batch(to: Peers, entry: Entry, out: &mut Out<Replica>) {
    let is_whole = entry.bulk_len() == 0;
    let message = Message::Batch { entry };
    if is_whole {
        out.send_early(to, message);
    } else {
        out.send(to, message);
    }
}
