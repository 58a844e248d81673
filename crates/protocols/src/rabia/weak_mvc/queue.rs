//! What clients sent: commands and reads waiting for a batch, and own batches waiting for a slot.

use super::Replica;
use super::messages::{Message, Timer};
use crate::shared::admission::refusal;
use crate::shared::backlog::{Backlog, refuse_withdrawn, withdraw_reads};
use crate::shared::entry_names::EntryNames;
use crate::shared::under_way::UnderWay;
use quorate_core::{
    Class, Command, Due, EntryId, MemberIndex, MemberSet, Now, Out, Outcome, Peers, Refusal,
    RequestId,
};
use std::collections::BTreeSet;

/// Commands and reads that no batch holds yet.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Queue {
    commands: Backlog,
    reads: Vec<RequestId>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.reads.is_empty()
    }
}

/// What tells an own entry from all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryName {
    pub(crate) id: EntryId,
    /// The reading of the hybrid clock, ns since the Unix epoch.
    pub(crate) stamp_ns: u64,
}

/// Names and stamps of own entries.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct Names {
    ids: EntryNames,
    /// The hybrid clock, in ns: the last stamp given, or seen if that was later.
    hlc_ns: u64,
}

impl Names {
    /// No own entry has a name yet.
    pub(super) fn new(ids: EntryNames) -> Self {
        Names { ids, hlc_ns: 0 }
    }

    /// The name of the next own entry.
    pub(super) fn next(&mut self, clock_ns: u64) -> EntryName {
        self.hlc_ns = clock_ns.max(self.hlc_ns + 1);
        EntryName {
            id: self.ids.next(),
            stamp_ns: self.hlc_ns,
        }
    }

    /// Whether an own entry has this sequence number.
    pub(super) fn has_given(&self, seq: u64) -> bool {
        self.ids.has_given(seq)
    }

    /// Later stamps are behind this one.
    fn see_stamp(&mut self, stamp_ns: u64) {
        self.hlc_ns = self.hlc_ns.max(stamp_ns);
    }
}

/// An own batch that is not delivered yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Offer {
    pub(super) id: EntryId,
    /// Members known to hold the batch.
    pub(super) held_by: MemberSet,
    /// Whether it was sent since the last retransmission timer.
    pub(super) fresh: bool,
    /// Members to which it went, if it is so long that it may be under way for a while.
    pub(super) attached: UnderWay,
    /// Formed outside: it says no more of how many batches are under way.
    pub(super) is_foreign: bool,
    /// Reads that may be answered once it is delivered: it was formed after they came, so its
    /// slot is behind every slot whose effects somebody had seen by then.
    pub(super) reads: Vec<RequestId>,
}

impl Replica {
    /// Algorithm 1, lines 8 and 9, up to the batch.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            let refused = match self.is_voting() {
                true => refusal(&command, self.queue_room()),
                false => Some(Refusal::NotServing),
            };
            match refused {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None if command.class == Class::Read && self.config.quorum_reads => {
                    self.reads.queries.wait(command.id);
                }
                None if command.class == Class::Read => self.queue.reads.push(command.id),
                None => self.queue.commands.push(command),
            }
        }
    }

    /// Refuses what nobody waits for any more, of what is in no batch and in no question.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        let mut withdrawn = self.queue.commands.withdraw(ids);
        withdrawn.extend(withdraw_reads(&mut self.queue.reads, ids));
        withdrawn.extend(self.reads.queries.withdraw(ids));
        refuse_withdrawn(withdrawn, out);
    }

    /// How many more commands may wait.
    pub(super) fn queue_room(&self) -> usize {
        let queue = &self.queue;
        let waiting = queue.commands.len() + queue.reads.len() + self.reads.queries.waiting();
        self.config.queue.room(waiting, queue.commands.bytes())
    }

    /// Forms batches of whatever waits, while few enough are under way: under load a batch is
    /// what came while its predecessors were decided. A batch is offered before anything is
    /// written: the offer promises nothing, and peers flush while the origin does.
    pub(super) fn form_batches(&mut self, now: Now, out: &mut Out<Self>) {
        while self.may_form_batch() {
            let (commands_max, bytes_max) =
                (self.config.batch_commands_max, self.config.batch_bytes_max);
            let batch = self.queue.commands.fill(commands_max, bytes_max);
            let EntryName { id, stamp_ns } = self.name_entry(now);
            let entry = batch.finish(id, stamp_ns);
            let message = Message::Batch {
                entry: entry.clone(),
            };
            out.send_early(Peers::All, message);
            let others = self.config.others();
            let attached = self.given_to_links(entry.body_len(), others, now.mono_ns);
            self.pool.insert(entry, stamp_ns, self.config.me, false);
            self.freeze(now, id, stamp_ns, out);
            self.offers.push(Offer {
                id,
                held_by: MemberSet::only(self.config.me),
                fresh: true,
                attached,
                is_foreign: false,
                reads: std::mem::take(&mut self.queue.reads),
            });
        }
    }

    /// Whether something waits that a batch may be formed of.
    pub(super) fn may_form_batch(&self) -> bool {
        self.batches_under_way() < self.config.outstanding && !self.queue.is_empty()
    }

    /// A batch of so many bytes goes to these members. One that the links move at once is not
    /// remembered to be on its way.
    pub(super) fn given_to_links(&mut self, bytes: usize, to: MemberSet, now_ns: u64) -> UnderWay {
        let until_ns = self.line.put_bytes(bytes as u64, to, now_ns);
        match until_ns > now_ns {
            true => UnderWay::new(to, until_ns),
            false => UnderWay::default(),
        }
    }

    fn batches_under_way(&self) -> usize {
        let own = self.offers.iter().filter(|offer| !offer.is_foreign);
        own.count()
    }

    /// An own batch is delivered: its reads see every slot before `ap`.
    pub(super) fn settle_offers(&mut self, out: &mut Out<Self>) {
        let (done, ap) = (&self.done, self.ap);
        self.offers.retain(|offer| {
            let is_done = done.entries.contains(offer.id);
            if is_done {
                let answer = Outcome::ReadAt(ap);
                offer
                    .reads
                    .iter()
                    .for_each(|id| out.reply(*id, answer.clone()));
            }
            !is_done
        });
    }

    /// A batch that is new here has its age to reach first: by its stamp, so that it is the same
    /// moment everywhere as far as clocks agree, but no longer from now than the age asked for.
    pub(super) fn freeze(&mut self, now: Now, id: EntryId, stamp_ns: u64, out: &mut Out<Self>) {
        let ripe_ns = stamp_ns.saturating_add(self.config.freeze_ns);
        let left_ns = ripe_ns.saturating_sub(now.clock_ns);
        if self.config.freeze_ns > 0 && left_ns > 0 {
            self.pool.freeze(id);
            let due = Due::After(left_ns.min(self.config.freeze_ns));
            out.arm(Timer::Thaw(id), due);
        }
    }

    /// A batch's place in the queue: its stamp, but no later than the clock here and the skew
    /// allow. An origin whose clock is ahead waits that long at most.
    pub(super) fn rank_ns(&self, now: Now, stamp_ns: u64) -> u64 {
        stamp_ns.min(now.clock_ns.saturating_add(self.config.hlc_skew_max_ns))
    }

    /// Moves the own clock behind a stamp seen, unless the stamp is absurd.
    pub(super) fn see_stamp(&mut self, now: Now, stamp_ns: u64) {
        if stamp_ns <= now.clock_ns.saturating_add(self.config.hlc_skew_max_ns) {
            self.names.see_stamp(stamp_ns);
        }
    }

    /// A member holds an own batch.
    pub(super) fn credit(&mut self, member: MemberIndex, id: EntryId) {
        if let Some(offer) = self.offers.iter_mut().find(|offer| offer.id == id) {
            offer.held_by.insert(member);
        }
    }
}
