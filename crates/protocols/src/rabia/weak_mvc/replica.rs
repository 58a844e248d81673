//! A replica's state, and what every input does to it.

use super::config::Config;
use super::deliver::OwnValues;
use super::lanes::Lanes;
use super::messages::{Message, Record, Timer};
use super::needs::Needs;
use super::pool::Pool;
use super::queue::{Names, Offer, Queue};
use super::reads::Reads;
use super::rejoin::Rejoin;
use super::repair::{Behind, Retransmission};
use super::reserve::Reserve;
use super::slot::Instance;
use super::waits::Presence;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::peers::sender;
use crate::shared::under_way::Line;
use crate::shared::words::plain_machine;
use quorate_core::{
    EntryId, Input, Introspect, Lsn, Machine, MemberIndex, Now, Out, ReplicaId, Slot, Wire,
};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica (`N_i` in Algorithm 1).
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    pub(super) rejoin: Option<Rejoin>,
    /// A recovery has something else to wait for than slots.
    pub(super) is_rejoin_delayed: bool,
    /// No slot before this one is voted in; 0 unless promises were lost.
    pub(crate) floor: Slot,
    /// The first slot not delivered (`seq` in Algorithm 1).
    pub(super) ap: Slot,
    /// The batches delivered: the paper's dictionary (section 4).
    pub(super) done: DecidedSet,
    /// The slots from `ap` on, as far as anything is known of them.
    pub(super) slots: VecDeque<Instance>,
    /// Cleared instances of past slots, kept for their allocations.
    pub(super) free_instances: Vec<Instance>,
    /// PQ, the queue of pending requests.
    pub(super) pool: Pool,
    /// Batches named in a slot and not held.
    pub(super) needs: Needs,
    /// Commands, and reads that go through the log, without a batch.
    pub(super) queue: Queue,
    /// Reads that do not go through the log.
    pub(super) reads: Reads,
    /// The first slot behind all in which a request was proposed here or is known to be decided.
    pub(super) mark: Slot,
    /// Slots before this one are run, with NULL if there is nothing better: somebody waits for
    /// their end.
    pub(super) nudged: Slot,
    /// Own batches not delivered.
    pub(super) offers: Vec<Offer>,
    /// What outcomes and members say of the lanes.
    pub(super) lanes: Lanes,
    /// What was made void, and the protocol around this machine was not told of.
    pub(super) voided: Vec<EntryId>,
    /// What covers proposals of NULL without a record of their own.
    pub(super) reserve: Reserve,
    /// Names and stamps of own entries.
    pub(super) names: Names,
    /// The members that may speak at any moment.
    pub(super) presence: Presence,
    /// The last record of earlier steps.
    pub(super) written: Lsn,
    /// How far records are durable, and the own values that wait for that.
    pub(super) disk: Disk<OwnValues>,
    /// A peer beyond the window.
    pub(super) behind: Behind,
    /// A batch whose origin is to be told that it came.
    pub(super) acknowledge: Option<(MemberIndex, EntryId)>,
    /// What the own links have to move.
    pub(super) line: Line,
    /// The own clock at this step.
    pub(super) now_ns: u64,
    /// The timer that says again what went unanswered.
    pub(super) retransmission: Retransmission,
}

impl Machine for Replica {
    plain_machine!();

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.written = out.persisted();
        self.now_ns = now.mono_ns;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.on_withdraw(&ids, out),
            Input::Message { from, message } => self.on_message(now, from, message, out),
            Input::Timer(timer) => self.on_timer(now, timer, out),
            Input::Durable(lsn) => self.on_durable(lsn, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(now, peer, up, out),
            // It orders everything whole, and has nothing executed ahead.
            Input::Held(_) | Input::Applied { .. } | Input::Prefer(_) => {}
        }
        self.run_to_fixpoint(now, out);
    }

    fn room(&self) -> usize {
        self.queue_room()
    }

    /// The window (I8), and NULLs up to twice as far, which are recorded by their reserve alone.
    fn reach(config: &Config) -> Option<u64> {
        Some(2 * config.window as u64)
    }

    fn is_serving(&self) -> bool {
        self.is_voting()
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.rejoin, self.is_rejoin_delayed, self.floor).hash(to);
        (self.ap, self.names, self.lanes, self.presence).hash(to);
        self.reserve.fingerprint(self.disk.durable(), to);
        self.done.to_bytes().hash(to);
        (&self.slots, &self.pool, &self.needs).hash(to);
        (&self.queue, &self.reads, self.mark, self.nudged).hash(to);
        (&self.offers, &self.disk, self.behind).hash(to);
        (self.acknowledge, self.retransmission).hash(to);
    }

    fn explain(&self) -> String {
        self.describe()
    }

    fn check(&self) {
        self.check_all();
    }

    fn depth(&self) -> usize {
        let trails = self.slots.iter().map(|slot| slot.own().trail.len());
        trails.max().unwrap_or(0)
    }
}

impl Replica {
    fn on_message(&mut self, now: Now, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let (member, me) = (self.config.member(from), self.config.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        match message {
            Message::Batch { entry } => self.on_batch(now, from, entry, out),
            Message::Need { from: slot, ids } => self.on_need(from, slot, &ids, out),
            Message::Have { ids } => self.on_have(from, &ids),
            Message::Slot(message) => self.on_slot(from, &message, out),
            Message::Nulls(message) => self.on_nulls(from, &message, out),
            Message::Decided { slot, value } => self.on_decided(from, slot, value, out),
            Message::Recover { boot, from: slot } => self.on_recover(from, boot, slot, out),
            Message::RecoverA { boot, started } => self.on_recover_a(from, boot, started),
            Message::Nudge { until, from: slot } => self.on_nudge(from, until, slot, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA { query, mark } => self.on_read_a(from, query, mark, out),
        }
    }

    fn on_timer(&mut self, now: Now, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retransmit => self.on_retransmit(now, out),
            Timer::Need => self.on_need_timer(out),
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Hold(slot) => self.on_hold(slot, out),
            Timer::Adopt(slot) => self.on_adopt(slot, out),
            Timer::Grace(slot) => self.on_grace(slot, out),
            Timer::Thaw(id) => self.pool.thaw(id),
            Timer::Probe => self.presence.end_probe(),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.ask_marks(out);
        self.recover_further(out);
        loop {
            self.form_batches(now, out);
            self.open_slots(out);
            self.say_nulls(out);
            if !self.deliver(out) {
                break;
            }
            self.recover_further(out);
        }
        self.acknowledge(out);
        self.rearm_timers(out);
    }

    /// The distance of a stored slot from `ap`.
    pub(super) fn offset(&self, slot: Slot) -> Option<usize> {
        let offset = slot.0.checked_sub(self.ap.0)? as usize;
        (offset < self.slots.len()).then_some(offset)
    }

    pub(super) fn instance(&self, slot: Slot) -> Option<&Instance> {
        self.offset(slot).map(|offset| &self.slots[offset])
    }

    pub(super) fn instance_mut(&mut self, slot: Slot) -> Option<&mut Instance> {
        self.offset(slot).map(|offset| &mut self.slots[offset])
    }

    /// The slot at an offset from `ap`, made if nothing was known of it.
    pub(super) fn instance_grown(&mut self, offset: usize) -> &mut Instance {
        while self.slots.len() <= offset {
            let free = self.free_instances.pop();
            let instance = free.unwrap_or_else(|| Instance::new(&self.config));
            self.slots.push_back(instance);
        }
        &mut self.slots[offset]
    }
}
