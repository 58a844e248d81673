//! What makes up for loss: retransmission, missing batches, laggards and links.

use super::Replica;
use super::messages::{Bits, Message, Nulls, SlotMessage, Timer};
use super::slot::Instance;
use crate::shared::masks::members;
use crate::shared::under_way::is_long;
use quorate_core::pace::ACK_NS_MAX;
use quorate_core::{Due, ENTRY_BYTES_MAX, Entry, EntryId, Event, Now, Out, Peers, ReplicaId, Slot};
use std::hash::{Hash, Hasher};

/// Batches answered per request, at most.
const NEED_IDS_MAX: usize = 64;

/// A batch named in a slot and not held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Need {
    /// Members known to hold it.
    holders: u64,
    /// How often it was asked for.
    asked: u32,
    /// When it was named first, and when it is asked for again, on the own clock.
    since_ns: u64,
    due_ns: u64,
}

impl Hash for Need {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.holders, self.asked).hash(to);
    }
}

impl Replica {
    /// A batch, from its origin or from who was asked.
    pub(super) fn on_batch(&mut self, now: Now, from: usize, entry: Entry, out: &mut Out<Self>) {
        let id = entry.id;
        let Some(origin) = self.member(id.origin) else {
            return self.misbehaved(from, "a batch of no member", out);
        };
        if entry.body_len() > ENTRY_BYTES_MAX {
            return self.misbehaved(from, "a batch too large", out);
        }
        if id.boot == self.config.boot && origin == self.config.me && id.seq > self.seq {
            return self.misbehaved(from, "a batch I never formed", out);
        }
        let is_known = self.pool.holds(id) || self.done.entries.contains(id);
        if !is_known {
            let need = self.needs.remove(&id);
            let is_needed = need.is_some();
            if is_long(&entry) {
                let late_ns = need.map_or(0, |need| now.mono_ns.saturating_sub(need.since_ns));
                self.pace.note(late_ns, ACK_NS_MAX);
            }
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
            .any(|slot| slot.own().prop == Some(Some(id)))
        {
            let message = Message::Have { ids: vec![id] };
            out.send_early(Peers::One(self.config.members[origin]), message);
        }
    }

    /// A peer lacks batches: those undecided it gets from here, the others from the log.
    pub(super) fn on_need(&mut self, j: usize, from: Slot, ids: &[EntryId], out: &mut Out<Self>) {
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
    pub(super) fn on_have(&mut self, from: usize, ids: &[EntryId]) {
        ids.iter().for_each(|id| self.credit(from, *id));
    }

    /// A peer's history in a slot.
    pub(super) fn on_slot(&mut self, from: usize, message: &SlotMessage, out: &mut Out<Self>) {
        if let Some(flaw) = message.flaw(self.config.mode) {
            return self.misbehaved(from, flaw, out);
        }
        let (peer, slot) = (self.config.members[from], message.slot);
        let is_here = |id: EntryId| {
            let origin = self.member(id.origin);
            self.config.lanes == 1 || origin.is_some_and(|m| self.config.is_for(slot, m))
        };
        if !message.prop.is_none_or(is_here) {
            return self.misbehaved(from, "a request in another's lane", out);
        }
        if self.probe == Some(slot) {
            self.late &= !(1 << from);
        }
        self.more = self.more & !(1 << from) | u64::from(message.more) << from;
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
        if let Some(value) = instance.decided {
            if is_asking {
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
            self.lack(id, 1 << from, out);
        }
        if answers {
            self.say(slot, Peers::One(peer), false, out);
        }
        self.progress(slot, false, out);
    }

    /// A peer's proposals of NULL, one by one.
    pub(super) fn on_nulls(&mut self, from: usize, message: &Nulls, out: &mut Out<Self>) {
        let mode = self.config.mode;
        message
            .spelled_out(mode)
            .for_each(|said| self.on_slot(from, &said, out));
    }

    /// A peer tells the outcome of a slot that its log could not tell yet.
    pub(super) fn on_decided(
        &mut self,
        from: usize,
        slot: Slot,
        value: Option<EntryId>,
        out: &mut Out<Self>,
    ) {
        let offset = slot.0.checked_sub(self.ap.0);
        let Some(offset) = offset.filter(|o| *o < self.config.recv_window as u64) else {
            return;
        };
        match self.instance_grown(offset as usize).decided {
            None => {
                out.emit(Event::Branch("outcome told"));
                self.decide(slot, value, out);
            }
            Some(mine) if mine != value => self.misbehaved(from, "another outcome", out),
            Some(_) => {}
        }
    }

    /// A batch is named but may not be here. From its origin it should have come before its
    /// name; from others the name may have overtaken it.
    pub(super) fn lack(&mut self, id: EntryId, holders: u64, out: &mut Out<Self>) {
        if self.pool.holds(id) || self.done.entries.contains(id) {
            return;
        }
        let origin = self.member(id.origin);
        // From an origin that is out of reach nothing is on its way.
        let is_coming = origin.is_some_and(|origin| self.up & 1 << origin != 0);
        let patience_ns = if is_coming {
            self.pace.patience_ns()
        } else {
            0
        };
        let need = self.needs.entry(id).or_insert(Need {
            holders: 0,
            asked: 0,
            since_ns: self.now_ns,
            due_ns: self.now_ns + patience_ns,
        });
        need.holders |= holders;
        if need.asked > 0 {
            return;
        }
        if origin.is_some_and(|origin| holders & 1 << origin != 0) {
            self.ask_for(id, out);
        } else if !self.need_armed {
            self.need_armed = true;
            out.arm(
                Timer::Need,
                Due::After(patience_ns.max(self.config.need_delay_ns)),
            );
        }
    }

    /// Batches that should have come by now are asked for.
    pub(super) fn on_need_timer(&mut self, out: &mut Out<Self>) {
        self.need_armed = false;
        let now_ns = self.now_ns;
        let unasked = || self.needs.iter().filter(|(_, need)| need.asked == 0);
        let due = unasked().filter(|(_, need)| need.due_ns <= now_ns);
        let ids = due.map(|(id, _)| *id).collect::<Vec<_>>();
        let next_ns = unasked()
            .map(|(_, need)| need.due_ns)
            .filter(|due_ns| *due_ns > now_ns)
            .min();
        if let Some(next_ns) = next_ns {
            self.need_armed = true;
            out.arm(Timer::Need, Due::After(next_ns - now_ns));
        }
        ids.into_iter().for_each(|id| self.ask_for(id, out));
    }

    /// An origin is out of reach: what it was to bring is asked for elsewhere.
    fn hasten_needs(&mut self, origin: ReplicaId, out: &mut Out<Self>) {
        let now_ns = self.now_ns;
        let needs = self.needs.iter_mut();
        let lost = needs.filter(|(id, _)| id.origin == origin);
        let is_some_lost = lost.map(|(_, need)| need.due_ns = now_ns).count() > 0;
        if is_some_lost {
            self.on_need_timer(out);
        }
    }

    /// Asks one member for a batch: each known holder in turn, then everybody in turn.
    fn ask_for(&mut self, id: EntryId, out: &mut Out<Self>) {
        let others = self.others();
        let (pace, now_ns) = (self.pace, self.now_ns);
        let need = self
            .needs
            .get_mut(&id)
            .expect("what is asked for is needed");
        let holders = need.holders & others;
        let known = holders.count_ones();
        let round = need.asked;
        need.asked += 1;
        need.due_ns = pace.again_ns(need.since_ns, now_ns);
        let from = if known > 0 && round % (known + 1) < known {
            nth_member(holders, round % (known + 1))
        } else {
            nth_member(others, round % others.count_ones().max(1))
        };
        if let Some(from) = from {
            out.emit(Event::Branch("need sent"));
            let message = Message::Need {
                from: self.ap,
                ids: vec![id],
            };
            out.send_early(Peers::One(self.config.members[from]), message);
        }
    }

    /// Gives up needs that no stored slot names, but not before everybody was asked twice: when
    /// every replica has another head, slots forfeit faster than a batch can be fetched, and only
    /// fetching makes the heads equal.
    pub(super) fn forget_needs(&mut self) {
        let slots = &self.slots;
        let patience = 2 * self.config.members.len() as u32;
        let is_named = |id: EntryId| {
            slots
                .iter()
                .any(|slot| slot.decided == Some(Some(id)) || slot.support(id) > 0)
        };
        self.needs
            .retain(|id, need| need.asked < patience || is_named(*id));
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, now: Now, out: &mut Out<Self>) {
        self.retransmit_armed = false;
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
                self.offer_again(now, index, self.up, out);
                said = true;
            }
        }
        said |= self.ask_marks_again(out);
        said |= self.nudge_for_reads();
        said |= self.rejoin.is_some();
        self.say_rejoin(Peers::All, out);
        self.forget_needs();
        said |= !self.needs.is_empty();
        let due = self
            .needs
            .iter()
            .filter(|(_, need)| need.due_ns <= now.mono_ns);
        let ids = due.map(|(id, _)| *id).collect::<Vec<_>>();
        ids.into_iter().for_each(|id| self.ask_for(id, out));
        if said {
            self.backoff += 1;
        }
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
    fn offer_again(&mut self, now: Now, index: usize, to: u64, out: &mut Out<Self>) {
        let offer = &self.offers[index];
        let entry = self.pool.get(offer.id);
        let entry = entry.expect("the origin holds its offers").clone();
        if self.config.holders_propose && entry.bulk_len() > 0 {
            // Of no use without what goes with it.
            return;
        }
        let (held_by, attached) = (offer.held_by, offer.attached);
        let lacks = |at: &usize| to & !held_by & 1 << at != 0 && !attached.is_to(*at);
        let whom: Vec<usize> = (0..self.config.members.len()).filter(lacks).collect();
        let mask = whom.iter().fold(0, |mask, at| mask | 1 << at);
        if mask == 0 {
            return;
        }
        let again = self.given_to_links(entry.body_len(), mask, now.mono_ns);
        self.offers[index].attached.join(again);
        for member in whom {
            give_batch(Peers::One(self.config.members[member]), entry.clone(), out);
        }
    }

    /// Arms the retransmission timer while anything said may go unanswered.
    pub(super) fn tend(&mut self, out: &mut Out<Self>) {
        let has_work = !self.offers.is_empty()
            || !self.needs.is_empty()
            || self.reads.is_asking()
            || self.rejoin.is_some()
            || self.ap < self.reads.promised
            || self.slots.iter().any(Instance::is_working);
        if has_work && !self.retransmit_armed {
            self.retransmit_armed = true;
            let wait = self.rtx_ns();
            out.arm(Timer::Retransmit, Due::Within(wait..=wait + wait / 4));
        }
    }

    fn rtx_ns(&self) -> u64 {
        let wait = self.config.rtx_min_ns << self.backoff.min(16);
        wait.min(self.config.rtx_max_ns)
    }

    /// A peer works on a slot beyond the window here: it has delivered what is open here.
    fn peer_ahead(&mut self, peer: ReplicaId, slot: Slot, out: &mut Out<Self>) {
        self.ahead = Some((peer, slot));
        if !self.catch_up_armed {
            self.catch_up_armed = true;
            out.arm(Timer::CatchUp, Due::After(self.config.learn_delay_ns));
        }
    }

    /// Still behind? Then by more than a moment's reordering.
    pub(super) fn on_catch_up(&mut self, out: &mut Out<Self>) {
        self.catch_up_armed = false;
        let window = self.config.window as u64;
        match self.ahead {
            Some((peer, slot)) if slot.0 - window >= self.ap.0 => {
                out.catch_up(peer, Slot(slot.0 - window));
                self.catch_up_armed = true;
                out.arm(Timer::CatchUp, Due::After(self.config.rtx_max_ns));
            }
            _ => self.ahead = None,
        }
    }

    /// A link came up: say at once what may have been lost. Or went down: do not wait for it.
    pub(super) fn on_link(&mut self, now: Now, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.member(peer).filter(|member| *member != self.config.me) else {
            return;
        };
        let bit = 1 << member;
        let offers = self.offers.iter_mut();
        offers.for_each(|offer| offer.attached.lose(member));
        if !up {
            self.up &= !bit;
            self.hasten_needs(peer, out);
            for offset in 0..self.slots.len() {
                self.progress(Slot(self.ap.0 + offset as u64), false, out);
            }
            return;
        }
        self.up |= bit;
        self.ask_mark_of(member, out);
        self.say_rejoin(Peers::One(peer), out);
        for index in 0..self.offers.len() {
            self.offers[index].held_by &= !bit;
            self.offer_again(now, index, bit, out);
        }
        for offset in 0..self.slots.len() {
            if self.slots[offset].is_working() {
                let slot = Slot(self.ap.0 + offset as u64);
                self.say(slot, Peers::One(peer), true, out);
            }
        }
    }

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }

    pub(super) fn everybody(&self) -> u64 {
        u64::MAX >> (64 - self.config.members.len())
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

fn nth_member(mask: u64, n: u32) -> Option<usize> {
    members(mask).nth(n as usize)
}
