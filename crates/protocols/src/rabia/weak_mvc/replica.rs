//! A replica's state, and what every input does to it.

use super::config::Config;
use super::messages::{Bits, Message, Record, Timer};
use super::pool::Pool;
use super::queue::{Offer, Queue};
use super::reads::Reads;
use super::rejoin::Rejoin;
use super::repair::Need;
use super::slot::Instance;
use crate::shared::decided::DecidedSet;
use crate::shared::under_way::Line;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Input, Introspect, Lsn, Machine, Now, Out, Past, ReplicaId, Slot, Wire,
    WireError,
};
use std::collections::{BTreeMap, VecDeque};
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
    /// Slots of the past, for their memory.
    pub(super) spare: Vec<Instance>,
    /// PQ.
    pub(super) pool: Pool,
    /// Batches named in a slot and not held.
    pub(super) needs: BTreeMap<EntryId, Need>,
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
    /// By lane: whether its last outcome was NULL in spite of a request proposed here. Then one
    /// slot of it at a time, or replicas that assign the same requests to the slots of the window
    /// in different orders may go on forfeiting for ever.
    pub(super) narrow: u64,
    /// Members that said they have more than they have proposed.
    pub(super) more: u64,
    /// What was made void, and the protocol around this machine was not told of.
    pub(super) voided: Vec<EntryId>,
    /// Every slot in which NULL was proposed without a record is before this one, and the record
    /// that says so.
    pub(super) reserve: (Slot, Lsn),
    /// Slots before this one and without a record may have been NULL in a former life, and are
    /// NULL again.
    pub(super) forced: Slot,
    /// NULL below this has a record of its own: another proposal may lie in the log that this start left out,
    /// and a later one would take it up when what it rests on is there again.
    pub(super) doubtful: Slot,
    /// Slots, from `ap`, whose NULL is to be said at the end of the step.
    pub(super) unsaid: Bits,
    /// The last record of earlier steps.
    pub(super) written: Lsn,
    /// Sequence number of the last own batch.
    pub(super) seq: u64,
    /// The hybrid clock: the last stamp given, or seen if that was later.
    pub(super) hlc: u64,
    /// Members whose link is not known to be down.
    pub(super) up: u64,
    /// Members not waited for until they are in time for a probe.
    pub(super) late: u64,
    /// The slot in which late members are given a chance: one at a time, while the timer runs.
    pub(super) probe: Option<Slot>,
    /// Own values written and not durable: record, slot, length of the trail.
    pub(super) unflushed: VecDeque<(Lsn, Slot, usize)>,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    /// A peer beyond the window, and the slot it was seen in.
    pub(super) ahead: Option<(ReplicaId, Slot)>,
    /// A batch whose origin is to be told that it came.
    pub(super) acknowledge: Option<(usize, EntryId)>,
    /// What the own links have to move.
    pub(super) line: Line,
    /// How long batches take that others name before they come.
    pub(super) pace: Pace,
    /// The own clock at this step.
    pub(super) now_ns: u64,
    pub(super) retransmit_armed: bool,
    pub(super) need_armed: bool,
    pub(super) catch_up_armed: bool,
    /// Retransmissions since the last delivery.
    pub(super) backoff: u32,
}

impl Machine for Replica {
    type Message = Message;
    type Record = Record;
    type Timer = Timer;
    type Base = DecidedSet;
    type Config = Config;

    fn message(_: &str, input: &mut Decoder) -> Result<Self::Message, WireError> {
        Wire::decode(input)
    }

    fn record(_: &str, input: &mut Decoder) -> Result<Self::Record, WireError> {
        Wire::decode(input)
    }

    fn recover(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        Replica::start(config, past, now, out)
    }

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
            Input::Held(_) | Input::Applied { .. } => {}
        }
        self.settle(now, out);
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
        (self.ap, self.seq, self.hlc).hash(to);
        (self.narrow, self.more, self.up, self.late).hash(to);
        let reserve = (self.reserve.0, self.reserve.1 <= self.durable, self.forced);
        (reserve, self.doubtful).hash(to);
        self.done.to_bytes().hash(to);
        self.slots.hash(to);
        self.pool.hash(to);
        self.needs.hash(to);
        self.queue.hash(to);
        (&self.reads, self.mark, self.nudged).hash(to);
        self.offers.hash(to);
        for (lsn, slot, trail_len) in &self.unflushed {
            (lsn.0 - self.durable.0, slot, trail_len).hash(to);
        }
        (self.ahead, self.acknowledge, self.backoff, self.probe).hash(to);
        (self.retransmit_armed, self.need_armed, self.catch_up_armed).hash(to);
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
        let Some(from) = self.member(from).filter(|member| *member != self.config.me) else {
            let what = "a message from no other member";
            return out.emit(quorate_core::Event::Misbehaved { peer: from, what });
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
            Message::ReadQ { boot, number } => self.on_read_q(from, boot, number, out),
            Message::ReadA { boot, number, mark } => {
                self.on_read_a(from, (boot, number), mark, out);
            }
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
            Timer::Probe => self.probe = None,
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn settle(&mut self, now: Now, out: &mut Out<Self>) {
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
        self.tend(out);
    }

    pub(super) fn member(&self, id: ReplicaId) -> Option<usize> {
        self.config.members.iter().position(|member| *member == id)
    }

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
            let spare = self.spare.pop();
            let instance = spare.unwrap_or_else(|| Instance::new(&self.config));
            self.slots.push_back(instance);
        }
        &mut self.slots[offset]
    }
}
