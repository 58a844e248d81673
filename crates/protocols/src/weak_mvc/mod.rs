//! The machine of Rabia (Pan et al., SOSP'21): a window of instances of Weak-MVC over a queue of requests.
//! Racos has one within it, to order what it has spread.
//!
//! Every replica offers its batches of commands to all, keeps what it was offered in a priority
//! queue, and proposes the oldest in the next slots of the log; Weak-MVC, one instance per slot,
//! agrees on one proposal or on NULL. Nobody leads, so nothing has to fail over.
//!
//! # Why it is safe
//!
//! The paper's section 5 proves four invariants of Weak-MVC; `rabia/README.md` says
//! which function embodies which line, where we depart from the paper, and why that is safe too.
//! The arithmetic is in [`Thresholds`], the lemmas one replica can see are asserted by
//! [`Machine::check`], and the others by the cluster in the tests:
//!
//! - I1: one value per replica, slot and step, over restarts. [`Record::Own`] is written before
//!   the value is said, and a record extends its predecessors (`Instance::restore`).
//! - I2: no two requests have `T` proposals in a slot (`Instance::check`).
//! - I3: votes 0 and 1 exclude each other in a phase (`Instance::check`).
//! - I4: who says 1 knows the request (`Instance::append`): it travels in every message that
//!   holds a 1, so that Algorithm 3 never fails to find it.
//! - I5: all decisions of a slot are equal (`Replica::check_all`, and the tests across replicas).
//! - I6: a decided request is held by `T` replicas: a batch is written with the proposal naming it.
//! - I7: every batch takes effect once: a second decision is skipped by [`Done`], on all alike.
//! - I8: a slot starts only within the window (`Replica::propose`).
//! - I9: who lost its promises votes in no slot it may have made them in (`rejoin.rs`).
//! - I10: a read sees every write completed before it began (`reads.rs`).
//!
//! # Whose values a decision counts
//!
//! A message waits for the disk, so that a peer's values can be counted as they come. The
//! replica's own are different: a decision is acted on at once (a client is answered, a peer is
//! told), so if it counted an own value that is not durable, a crash could undo the value and a
//! restarted replica say another one; the decision would stand on one replica too few. Hence a
//! decision counts the own proposal and the own trail only as far as [`Input::Durable`] has
//! confirmed them (`View::Durable`). The next own value may rest on own values that are not
//! durable yet (`View::All`): records are durable in order, so whatever becomes visible of the
//! later value implies the earlier ones.
//!
//! # Idle lanes
//!
//! With `lanes` above 1 a slot is only for the requests of some members, so that origins do not
//! compete. A lane without a request costs nothing of its own: its slots start only because a
//! later slot does, everybody proposes NULL in them at once, all of that leaves as one
//! [`Nulls`] with the message of the slot that needed it, and any `n - T + 1` of those decide. NULL
//! proposals have no records. Instead, every slot of theirs is before a reserve that is durable
//! before they are said ([`Record::Reserve`]), and a replica that restarts proposes NULL, whatever
//! it holds by then, in slots before the reserve without a record (I1). The reserve that counts
//! is the one read at the restart: the running one is raised ahead of need, and would turn
//! slots into NULL that nobody has started.
//!
//! # What waiting is for
//!
//! Every wait beyond the thresholds is for speed and ends by a timer: a vote waits a moment for
//! the proposals that would decide without it ([`Timer::Hold`]), a proposal for a batch that
//! peers already proposed ([`Timer::Adopt`]). Off unless asked for: a step that would learn nothing
//! decisive waits for more values ([`Timer::Grace`]), and a slot for its batch to have reached
//! everybody ([`Timer::Thaw`]). More values at a step never make it less safe. Nobody is waited for
//! whose link is known to be down, or who was late for the last wait and for every probe since.

mod config;
mod deliver;
mod explain;
mod held;
mod inside;
mod messages;
mod pool;
mod propose;
mod queue;
mod reads;
mod recover;
mod rejoin;
mod repair;
pub(crate) mod slot;
mod trail;
mod waits;
pub(crate) mod words;

pub(crate) use config::PARAMS;
pub use config::{Config, Thresholds};
pub use messages::{Bits, Message, Nulls, Record, SlotMessage, Timer};
pub(crate) use messages::{gist, value_at};
pub use trail::{Mode, Step, TRAIL_VALUES_MAX, Trail, Value};

use crate::done::Done;
use crate::under_way::Line;
use pool::Pool;
use queue::{Offer, Queue};
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Input, Lsn, Machine, Now, Out, Past, ReplicaId, Slot, Wire, WireError,
};
use reads::Reads;
use rejoin::Rejoin;
use repair::Need;
use slot::Instance;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica (`N_i` in Algorithm 1).
#[derive(Clone, Debug)]
pub struct Replica {
    config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    rejoin: Option<Rejoin>,
    /// A recovery has something else to wait for than slots.
    is_rejoin_delayed: bool,
    /// No slot before this one is voted in; 0 unless promises were lost.
    pub(crate) floor: Slot,
    /// The first slot not delivered (`seq` in Algorithm 1).
    ap: Slot,
    /// The batches delivered: the paper's dictionary (section 4).
    done: Done,
    /// The slots from `ap` on, as far as anything is known of them.
    slots: VecDeque<Instance>,
    /// Slots of the past, for their memory.
    spare: Vec<Instance>,
    /// PQ.
    pool: Pool,
    /// Batches named in a slot and not held.
    needs: BTreeMap<EntryId, Need>,
    /// Commands, and reads that go through the log, without a batch.
    queue: Queue,
    /// Reads that do not go through the log.
    reads: Reads,
    /// The first slot behind all in which a request was proposed here or is known to be decided.
    mark: Slot,
    /// Slots before this one are run, with NULL if there is nothing better: somebody waits for
    /// their end.
    nudged: Slot,
    /// Own batches not delivered.
    offers: Vec<Offer>,
    /// By lane: whether its last outcome was NULL in spite of a request proposed here. Then one
    /// slot of it at a time, or replicas that assign the same requests to the slots of the window
    /// in different orders may go on forfeiting for ever.
    narrow: u64,
    /// Members that said they have more than they have proposed.
    more: u64,
    /// What was made void, and the protocol around this machine was not told of.
    voided: Vec<EntryId>,
    /// Every slot in which NULL was proposed without a record is before this one, and the record
    /// that says so.
    reserve: (Slot, Lsn),
    /// Slots before this one and without a record may have been NULL in a former life, and are
    /// NULL again.
    forced: Slot,
    /// NULL below this has a record of its own: another proposal may lie in the log that this start left out,
    /// and a later one would take it up when what it rests on is there again.
    doubtful: Slot,
    /// Slots, from `ap`, whose NULL is to be said at the end of the step.
    unsaid: Bits,
    /// The last record of earlier steps.
    written: Lsn,
    /// Sequence number of the last own batch.
    seq: u64,
    /// The hybrid clock: the last stamp given, or seen if that was later.
    hlc: u64,
    /// Members whose link is not known to be down.
    up: u64,
    /// Members not waited for until they are in time for a probe.
    late: u64,
    /// The slot in which late members are given a chance: one at a time, while the timer runs.
    probe: Option<Slot>,
    /// Own values written and not durable: record, slot, length of the trail.
    unflushed: VecDeque<(Lsn, Slot, usize)>,
    /// Records up to here are durable.
    durable: Lsn,
    /// A peer beyond the window, and the slot it was seen in.
    ahead: Option<(ReplicaId, Slot)>,
    /// A batch whose origin is to be told that it came.
    acknowledge: Option<(usize, EntryId)>,
    /// What the own links have to move.
    line: Line,
    /// How long batches take that others name before they come.
    pace: Pace,
    /// The own clock at this step.
    now_ns: u64,
    retransmit_armed: bool,
    need_armed: bool,
    catch_up_armed: bool,
    /// Retransmissions since the last delivery.
    backoff: u32,
}

impl Machine for Replica {
    type Message = Message;
    type Record = Record;
    type Timer = Timer;
    type Base = Done;
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

    /// The window (I8), and NULLs up to twice as far, which are recorded by their reserve alone.
    fn reach(config: &Config) -> Option<u64> {
        Some(2 * config.window as u64)
    }

    fn is_serving(&self) -> bool {
        self.is_voting()
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
    fn settle(&mut self, now: Now, out: &mut Out<Self>) {
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

    fn member(&self, id: ReplicaId) -> Option<usize> {
        self.config.members.iter().position(|member| *member == id)
    }

    fn offset(&self, slot: Slot) -> Option<usize> {
        let offset = slot.0.checked_sub(self.ap.0)? as usize;
        (offset < self.slots.len()).then_some(offset)
    }

    fn instance(&self, slot: Slot) -> Option<&Instance> {
        self.offset(slot).map(|offset| &self.slots[offset])
    }

    fn instance_mut(&mut self, slot: Slot) -> Option<&mut Instance> {
        self.offset(slot).map(|offset| &mut self.slots[offset])
    }

    /// The slot at an offset from `ap`, made if nothing was known of it.
    fn instance_grown(&mut self, offset: usize) -> &mut Instance {
        while self.slots.len() <= offset {
            let spare = self.spare.pop();
            let instance = spare.unwrap_or_else(|| Instance::new(&self.config));
            self.slots.push_back(instance);
        }
        &mut self.slots[offset]
    }
}

/// The rare branches of the machine.
pub(crate) const BRANCHES: &[&str] = &[
    "adopt wait expired",
    "coin tossed",
    "double decision skipped",
    "grace expired",
    "need sent",
    "no vote at all",
    "outcome told",
    "pool share full",
    "rejoined",
    "vote adopted",
    "vote hold expired",
];
