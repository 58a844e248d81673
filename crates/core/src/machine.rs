//! The contract of a protocol: atomic broadcast with fixed membership, as a pure state machine.
//!
//! The host calls [`Machine::step`] with one [`Input`] at a time and performs the [`Output`]s it
//! finds in [`Out`], in order. Three rules make every protocol simpler:
//!
//! - **Writing before speaking is the default spelling.** [`Out::send`] waits until every record
//!   persisted before it is durable. [`Out::send_early`] is the visible exception, for messages
//!   that promise nothing. [`Out::note`] is for hints: no message waits for it and no flush
//!   happens for it.
//! - **Loss is normal.** Links drop, duplicate, reorder and reset; retransmission lives in the
//!   machine, on timers.
//! - **Bulk is attached, not carried.** Commands may have payloads; an entry in a message or record
//!   says what they are, and [`Carry::attachment`] that they, or a fragment of each, go along. The
//!   host adds, codes, stores and checks the bytes. A message arrives with its attachment or not at
//!   all.
//! - **The decided log is the host's.** It keeps, serves and fetches delivered entries whatever
//!   the protocol; machines exchange only what is undecided.

use crate::command::{Command, RequestId};
use crate::entry::Entry;
use crate::ids::{EntryId, Lsn, ReplicaId, Slot};
use crate::time::{Due, Now};
use crate::wire::Wire;
use std::fmt::Debug;
use std::hash::Hasher;

/// One protocol, as seen from the host: a replica of one epoch of one group.
///
/// Implementations know no clock, randomness, file, socket or thread. They are cloned and
/// fingerprinted so that they can be model-checked as they ship.
pub trait Machine: Clone + Sized {
    /// What replicas say to each other.
    type Message: Carry + Clone + Debug;
    /// What must survive a crash.
    type Record: Record + Clone + Debug;
    /// What can be waited for; arming a timer that is armed moves it.
    type Timer: Copy + Ord + Debug;
    /// The machine's part of a snapshot: a function of the decided prefix.
    type Base: Base;
    /// The epoch's parameters, and the replica's own id and boot.
    type Config: Clone + Debug;

    /// Starts a machine from what its past left.
    fn recover(config: &Self::Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self;

    /// Takes one input and says what follows from it.
    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>);

    /// Back-pressure: how many more commands it will take now.
    fn room(&self) -> usize;

    /// Whether it orders commands in its present role: a machine that lost its promises may first
    /// have to learn which ones.
    fn is_serving(&self) -> bool {
        true
    }

    /// How many slots from the first that is not delivered on it may make records about, at most.
    /// The host then knows when records that were lost cannot matter any more. `None` for no bound.
    fn reach(config: &Self::Config) -> Option<u64> {
        let _ = config;
        None
    }

    /// Which values are given to it as payloads; `None` for a protocol that orders everything whole.
    fn payloads(config: &Self::Config) -> Option<PayloadRule> {
        let _ = config;
        None
    }

    /// Feeds everything it can act on to `to`, times and log positions relative; no statistics.
    /// Two machines with equal fingerprints answer every input alike.
    fn fingerprint(&self, to: &mut impl Hasher);

    /// For people who wonder why nothing happens: what is undecided here, what was heard of it, and
    /// what that still lacks.
    fn explain(&self) -> String {
        String::new()
    }

    /// The paper's lemmas as assertions over this replica's state; run after every step in tests.
    fn check(&self) {}

    /// How many steps of its own the furthest slot under way has taken (values, ballots, views):
    /// the model checker searches up to a given depth.
    fn depth(&self) -> usize {
        0
    }
}

/// Bulk that goes with a message or a record: the payloads of an entry, of each the fragment of the
/// replica that receives the message or writes the record.
#[derive(Clone, Copy, Debug)]
pub struct Attachment<'a> {
    /// Whose payloads.
    pub entry: &'a Entry,
    /// How many fragments rebuild a payload; 1 for all of it. A sender must have all of it at hand
    /// ([`Entry::share`]), or exactly what it attaches.
    pub code: u8,
}

/// What may have payloads with it. One that is received has its share at hand in its entry.
pub trait Carry: Wire {
    /// What goes along. Only of an entry with payloads.
    fn attachment(&self) -> Option<Attachment<'_>> {
        None
    }

    /// Whether what goes along is the receiver's own fragment, for it to keep.
    fn is_to_keep(&self) -> bool {
        self.attachment().is_some()
    }

    /// The entry whose payloads go along.
    fn entry_mut(&mut self) -> Option<&mut Entry> {
        None
    }
}

/// What a protocol makes of long values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadRule {
    /// Values of so many bytes or more are payloads.
    pub min: usize,
    /// How many fragments rebuild a payload that was ordered while all was well; with 1 all members
    /// have the whole.
    pub code: u8,
}

/// A record of a machine, as far as the host must understand it.
pub trait Record: Carry {
    /// The slot it is about: the host drops it once that slot is decided in its own log. `None`
    /// for what concerns all slots (scalars), kept until released.
    fn slot(&self) -> Option<Slot>;

    /// For a record of which only the latest counts, a number that such records share: the host
    /// may drop all but the last of them.
    fn scalar(&self) -> Option<u8> {
        None
    }

    /// The host lost, or never stored, what was attached: the record stands without it.
    fn bereave(&mut self) {}

    /// The entry whose bytes it carries: the host finds them here when the entry is decided, so
    /// that they are written once.
    fn entry(&self) -> Option<&Entry> {
        None
    }
}

/// The machine's part of the state after a decided prefix.
pub trait Base: Wire + Clone + Default + PartialEq + Debug {
    /// Moves past one decided slot; `None` for a no-op. Called in slot order without gaps.
    fn advance(&mut self, slot: Slot, entry: Option<&Entry>);

    /// Whether an entry was decided in the prefix. A machine that does not keep track says no: then
    /// the host carries entries on for which it never saw a decision.
    fn contains(&self, entry: EntryId) -> bool {
        let _ = entry;
        false
    }
}

/// What a machine starts from. The host judges which; a machine never guesses.
#[derive(Clone, Debug)]
pub enum Past<M: Machine> {
    /// A new epoch, started on purpose.
    Fresh,
    /// Everything this incarnation ever persisted that still matters.
    Intact {
        /// The first slot not decided in the host's log.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
        /// The surviving records, in the order they were persisted.
        records: Vec<M::Record>,
    },
    /// Promises may be missing: the machine must not vote as if they were not. Before it speaks it
    /// persists a record by which its next start knows; as long as there is none, that start is
    /// the same.
    Lost {
        /// The first slot not decided in the host's log.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
    },
}

/// What happens to a machine.
#[derive(Clone, Debug)]
pub enum Input<M: Machine> {
    /// Everything that waits; the machine forms its own batch.
    Submit(Vec<Command>),
    /// A peer said this.
    Message {
        /// Who, authenticated by the connection.
        from: ReplicaId,
        /// What; untrusted beyond its decoding.
        message: M::Message,
    },
    /// A timer came due; it is disarmed.
    Timer(M::Timer),
    /// Every record up to here survives a crash.
    Durable(Lsn),
    /// The payloads of an entry that was asked for are here, all of them, checked.
    Held(Entry),
    /// The host caught up from a peer: every slot before `next` is decided and delivered.
    Installed {
        /// The first slot not covered.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
    },
    /// The connection to a peer came up or went down: a hint for speed, never for safety.
    Link {
        /// Which peer.
        peer: ReplicaId,
        /// Whether messages to it have a chance now.
        up: bool,
    },
}

impl<M: Machine> Input<M> {
    /// The same for another machine of the same words: for a machine around another one.
    #[must_use]
    pub fn pass_on<N>(self) -> Input<N>
    where
        N: Machine<Message = M::Message, Timer = M::Timer, Base = M::Base>,
    {
        match self {
            Input::Submit(commands) => Input::Submit(commands),
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
            Input::Durable(lsn) => Input::Durable(lsn),
            Input::Held(entry) => Input::Held(entry),
            Input::Installed { next, base } => Input::Installed { next, base },
            Input::Link { peer, up } => Input::Link { peer, up },
        }
    }
}

/// Who a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Every other member; encoded once.
    All,
    /// One member.
    One(ReplicaId),
}

/// What a machine wants done. Outputs take effect in the order emitted.
#[derive(Clone, Debug)]
pub enum Output<M: Machine> {
    /// Send once every record up to `after` is durable.
    Send {
        /// To whom.
        to: Peers,
        /// What.
        message: M::Message,
        /// What it depends on; `Lsn(0)` for nothing.
        after: Lsn,
    },
    /// Append to the log and make durable soon.
    Persist {
        /// Its number.
        lsn: Lsn,
        /// What.
        record: M::Record,
    },
    /// Append to the log when convenient; nothing waits for it.
    Note(M::Record),
    /// Give [`Input::Timer`] later. An armed timer is moved.
    Arm {
        /// Which.
        timer: M::Timer,
        /// When.
        due: Due,
    },
    /// Forget a timer.
    Disarm(M::Timer),
    /// Gather the payloads of this entry from whoever has fragments of them: [`Input::Held`] follows,
    /// unless the entry is decided before.
    Gather(Entry),
    /// Slots at least up to `through` were decided elsewhere: fetch them from this peer.
    CatchUp {
        /// Who has them.
        from: ReplicaId,
        /// The last slot known decided there.
        through: Slot,
    },
    /// A peer asked about a slot that is decided here: give it the decided log from there on.
    Inform {
        /// Who.
        peer: ReplicaId,
        /// The first slot it misses.
        from: Slot,
    },
    /// Decided, in slot order without gaps: apply it and answer clients. `None` is a no-op.
    Deliver {
        /// The slot.
        slot: Slot,
        /// The entry.
        entry: Option<Entry>,
    },
    /// The fate of a request that is known without applying it.
    Reply {
        /// Which.
        id: RequestId,
        /// How it went.
        outcome: Outcome,
    },
    /// For metrics and traces.
    Emit(Event),
}

/// The fate of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A read may be answered once every slot before this one is applied.
    ReadAt(Slot),
    /// It will not be executed by this submission.
    Refused(Refusal),
}

/// Why a request was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Too much is waiting; try again later.
    Overloaded,
    /// Larger than an entry may be.
    TooLarge,
    /// The session is unknown or ended. Whether earlier submissions under the same id were
    /// executed is unknown.
    NoSession,
    /// The answer was acknowledged before and is gone.
    Forgotten,
    /// This replica cannot order commands in its present role.
    NotServing,
    /// It may have been executed, and this replica does not know: it has skipped the slots around
    /// it.
    Unknown,
}

/// Something worth counting or tracing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A slot was decided by this replica's own count.
    Decided {
        /// Which.
        slot: Slot,
        /// Whether on the protocol's fastest path.
        fast: bool,
        /// Whether no entry got the slot.
        noop: bool,
        /// Message delays between the proposals and the values that decided: 1 for a decision by
        /// the proposals alone.
        delays: u32,
    },
    /// A named rare branch was taken.
    Branch(&'static str),
    /// A peer broke the protocol; the message was ignored.
    Misbehaved {
        /// Who.
        peer: ReplicaId,
        /// How.
        what: &'static str,
    },
}

/// Collects the outputs of steps; the host reuses one.
#[derive(Clone, Debug)]
pub struct Out<M: Machine> {
    outputs: Vec<Output<M>>,
    persisted: Lsn,
}

impl<M: Machine> Default for Out<M> {
    fn default() -> Self {
        Out {
            outputs: Vec::new(),
            persisted: Lsn(0),
        }
    }
}

impl<M: Machine> Out<M> {
    /// The number of the last record persisted.
    #[must_use]
    pub fn persisted(&self) -> Lsn {
        self.persisted
    }

    /// Sends once everything persisted so far is durable: the default spelling.
    pub fn send(&mut self, to: Peers, message: M::Message) {
        self.outputs.push(Output::Send {
            to,
            message,
            after: self.persisted,
        });
    }

    /// Sends without waiting for anything: only for what promises nothing.
    pub fn send_early(&mut self, to: Peers, message: M::Message) {
        self.outputs.push(Output::Send {
            to,
            message,
            after: Lsn(0),
        });
    }

    /// Makes a record durable; what is sent afterwards waits for it.
    pub fn persist(&mut self, record: M::Record) -> Lsn {
        self.persisted.0 += 1;
        self.outputs.push(Output::Persist {
            lsn: self.persisted,
            record,
        });
        self.persisted
    }

    /// Writes a hint to the log without a flush of its own.
    pub fn note(&mut self, record: M::Record) {
        self.outputs.push(Output::Note(record));
    }

    /// Arms or moves a timer.
    pub fn arm(&mut self, timer: M::Timer, due: Due) {
        self.outputs.push(Output::Arm { timer, due });
    }

    /// Disarms a timer.
    pub fn disarm(&mut self, timer: M::Timer) {
        self.outputs.push(Output::Disarm(timer));
    }

    /// Asks the host to gather the payloads of an entry.
    pub fn gather(&mut self, entry: Entry) {
        self.outputs.push(Output::Gather(entry));
    }

    /// Asks the host to fetch decided slots.
    pub fn catch_up(&mut self, from: ReplicaId, through: Slot) {
        self.outputs.push(Output::CatchUp { from, through });
    }

    /// Asks the host to give a peer the decided log.
    pub fn inform(&mut self, peer: ReplicaId, from: Slot) {
        self.outputs.push(Output::Inform { peer, from });
    }

    /// Delivers a decided slot.
    pub fn deliver(&mut self, slot: Slot, entry: Option<Entry>) {
        self.outputs.push(Output::Deliver { slot, entry });
    }

    /// Answers a request.
    pub fn reply(&mut self, id: RequestId, outcome: Outcome) {
        self.outputs.push(Output::Reply { id, outcome });
    }

    /// Reports something worth counting.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push(Output::Emit(event));
    }

    /// Wants done what a machine inside this one wants done. A record gets a number of this
    /// machine's own, and a message waits for all that was persisted before it here.
    pub fn pass_on<N>(&mut self, output: Output<N>)
    where
        N: Machine<Message = M::Message, Record = M::Record, Timer = M::Timer>,
    {
        match output {
            Output::Send {
                to,
                message,
                after: Lsn(0),
            } => self.send_early(to, message),
            Output::Send { to, message, .. } => self.send(to, message),
            Output::Persist { record, .. } => {
                self.persist(record);
            }
            Output::Note(record) => self.note(record),
            Output::Arm { timer, due } => self.arm(timer, due),
            Output::Disarm(timer) => self.disarm(timer),
            Output::Gather(entry) => self.gather(entry),
            Output::CatchUp { from, through } => self.catch_up(from, through),
            Output::Inform { peer, from } => self.inform(peer, from),
            Output::Deliver { slot, entry } => self.deliver(slot, entry),
            Output::Reply { id, outcome } => self.reply(id, outcome),
            Output::Emit(event) => self.emit(event),
        }
    }

    /// Takes all outputs, keeping the allocation and the record count.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Output<M>> {
        self.outputs.drain(..)
    }

    /// Swaps the outputs with an empty buffer, so that they can be performed while steps go on.
    pub fn swap(&mut self, other: &mut Vec<Output<M>>) {
        debug_assert!(other.is_empty());
        std::mem::swap(&mut self.outputs, other);
    }
}
