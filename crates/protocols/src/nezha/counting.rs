//! The leader counts for all gateways (`count=leader`): followers reply to it, and its own reply is for entries that
//! are committed, so that a gateway takes its word. Nothing is gained by that: it is the paper's variant without
//! offloaded quorum checks (its section 8.4), to be measured beside the protocol as it is. Who counts follows the same rule, and
//! what is said of a view counts for its leader alone: [`super::leader::Lead`] ends with the view.

use super::Replica;
use super::gateway::{COUNTED_FAST, COUNTED_SLOWLY, Committed, Pending};
use super::messages::{Body, FastReply, Message};
use quorate_core::{EntryId, MemberIndex, Out, Peers, Slot};

impl Replica {
    /// An entry is in the leader's log.
    pub(super) fn begin_count(&mut self, body: &Body) {
        if let Some(counter) = &mut self.lead.counter {
            let pending = counter.pending.entry(body.entry.id);
            pending.or_insert_with(|| Pending::new(body.clone(), false));
        }
    }

    pub(super) fn end_count(&mut self, id: EntryId) {
        if let Some(counter) = &mut self.lead.counter {
            counter.pending.remove(&id);
        }
    }

    /// Whether the gateway of an entry in the leader's log was told that it is committed: where gateways count,
    /// they find that out.
    pub(super) fn is_counted(&self, id: EntryId) -> bool {
        let counter = self.lead.counter.as_ref();
        counter.is_none_or(|counter| counter.has_answered(id))
    }

    /// Whether a reply is to be counted here, and not the word of a leader that has counted.
    pub(super) fn is_for_counter(&self, from: MemberIndex, reply: &FastReply) -> bool {
        self.lead.counter.is_some() && (from == self.config.me || reply.outcome.is_none())
    }

    /// A member replied to what is in the log of this leader, or in that of an earlier one, which ends nowhere.
    pub(super) fn count_reply(&mut self, from: MemberIndex, reply: FastReply, out: &mut Out<Self>) {
        let (id, now) = (reply.id, self.now);
        self.gateway.estimates.told(from, reply.owd, now.mono_ns);
        let (true, Some(counter)) = (self.leads(), &mut self.lead.counter) else {
            return;
        };
        match counter.on_fast(&self.config, now, from, reply) {
            Ok(true) => self.say_counted(id, out),
            Ok(false) => {}
            Err(what) => self.misbehaved(from, what, out),
        }
    }

    /// A member has the leader's log up to here.
    pub(super) fn count_synced(
        &mut self,
        from: MemberIndex,
        view: u64,
        upto: Slot,
        out: &mut Out<Self>,
    ) {
        if let Some(counter) = &mut self.lead.counter {
            for id in counter.on_synced(from, view, upto) {
                self.say_counted(id, out);
            }
        }
    }

    /// Tells its gateway that an entry is committed, if that is news.
    fn say_counted(&mut self, id: EntryId, out: &mut Out<Self>) {
        let counter = self.lead.counter.as_mut();
        let committed = counter.and_then(|counter| counter.commit(&self.config, self.now, id));
        if let Some(Committed { is_fast, slot, .. }) = committed {
            self.say_word(slot, is_fast, out);
        }
    }

    /// The leader's word that what is in a slot is committed. It was counted of what is durable, so that it waits for
    /// nothing.
    fn say_word(&mut self, slot: Slot, is_fast: bool, out: &mut Out<Self>) {
        let digest = match is_fast {
            true => COUNTED_FAST,
            false => COUNTED_SLOWLY,
        };
        let Some(mut reply) = self.outcome_reply(slot) else {
            return;
        };
        reply.digest = digest;
        let (id, me) = (reply.id, self.config.me);
        if id.origin != self.config.members[me] {
            return out.send_early(Peers::One(id.origin), Message::FastReply(reply));
        }
        match self.gateway.on_fast(&self.config, self.now, me, reply) {
            Ok(true) => self.answer_if_committed(id, out),
            Ok(false) => {}
            Err(what) => self.misbehaved(me, what, out),
        }
    }

    /// A gateway asked once more for an entry. Says again that it was counted as committed, if it was.
    pub(super) fn say_word_again(&mut self, slot: Slot, out: &mut Out<Self>) -> bool {
        let id = self.lead.outcomes.get(&slot).map(|appended| appended.id);
        let counter = self.lead.counter.as_ref();
        let is_counted = counter
            .zip(id)
            .is_some_and(|(counter, id)| counter.has_answered(id));
        if is_counted {
            self.say_word(slot, false, out);
        }
        is_counted
    }
}
