//! The contract of an application: a deterministic state machine.

use crate::command::Principal;
use crate::command_properties::CommandProperties;
use crate::ids::Slot;
use crate::payload::{Payload, PayloadId};
use bytes::Bytes;

/// Where and when a command is applied; equal on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct At {
    /// The slot of the entry.
    pub slot: Slot,
    /// Position of the command within the entry.
    pub index: u32,
    /// Monotone time in ns since the Unix epoch, for applications that want one.
    pub stamp_ns: u64,
    /// The principal that asked.
    pub principal: Principal,
    /// The name of the command's first payload; the others follow.
    pub payload: PayloadId,
    /// What the group's alarms leave to be carried out.
    pub admission: Admission,
}

/// The kind of commands that is carried out. It follows from the group's alarms, and is equal on every replica where a
/// command is applied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Admission {
    /// All commands are carried out.
    #[default]
    All,
    /// Commands that do not make the state larger ([`CommandProperties::grows`]): space is short.
    NoGrowth,
    /// No commands: replicas hold different states, and nobody knows which one is right.
    Nothing,
}

/// Something that shall happen after a time unless something else happens first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Countdown {
    /// Count from now; in the place of an earlier countdown of this number.
    Start {
        /// The number of the countdown.
        id: u64,
        /// How long, in ns.
        after_ns: u64,
        /// The body of the command to order in the end.
        command: Bytes,
    },
    /// Count no more.
    Stop {
        /// The number of the countdown.
        id: u64,
    },
}

/// A deterministic state machine on top of the log: a key-value store, an exchange, yours.
///
/// # Snapshots
///
/// A snapshot is taken and loaded a piece at a time, so that no command waits for it. The pieces are a function of the
/// commands applied before the cut and of the length asked for, nothing else: replicas compare them by digest. Where
/// they cannot be, there is a [`Application::cut_digest`]. What a replica has for itself (how far a countdown is, who
/// watches) is not in them.
pub trait Application {
    /// A read request, evaluated on one replica only.
    type Query;
    /// The answer to a read request.
    type Answer;
    /// A snapshot that is being taken: its small parts frozen, the others pinned where they are.
    type Cut;

    /// Applies one command and returns its result in the application's own encoding.
    ///
    /// Must be deterministic: the same commands give the same state and results on every
    /// replica. A body it cannot decode gives an error *result*, never a panic: it is in the log
    /// of all replicas.
    ///
    /// Of `payloads` length and digest are known and no bytes: what must be deterministic cannot
    /// depend on those. An application keeps the names of the payloads it will want to read.
    ///
    /// What [`At::admission`] does not allow changes nothing, and has a result that says so.
    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes;

    /// What the bodies of its commands say by themselves. It is the same for all states, and in all copies.
    fn command_properties(&self) -> CommandProperties {
        CommandProperties::UNKNOWN
    }

    /// Whether a command without payloads can be applied ahead of its decision, and taken back if that
    /// comes out otherwise: it changes nothing but what [`Application::retract`] restores, and its
    /// result depends on nothing but the commands before it.
    ///
    /// An application that never says so is never asked to take anything back.
    fn is_retractable(&self, body: &Bytes) -> bool {
        let _ = body;
        false
    }

    /// Applies a retractable command ahead of its decision. It may be taken back until
    /// [`Application::keep`].
    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.apply(at, body, &[])
    }

    /// The oldest command attempted is decided, and what it did stays.
    fn keep(&mut self) {}

    /// Takes the newest command attempted back: nothing can be seen of it any more.
    fn retract(&mut self) {}

    /// Whether it still has a name for this payload: what is not live may be forgotten.
    fn is_live(&self, payload: PayloadId) -> bool {
        let _ = payload;
        false
    }

    /// The payloads that ceased to be live since the last call.
    fn take_dead(&mut self) -> Vec<PayloadId> {
        Vec::new()
    }

    /// Up to `most` live payloads in the order of their names, behind this one.
    fn live(&self, after: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        let _ = (after, most);
        Vec::new()
    }

    /// The countdowns to start or stop since the last call. The driver runs them on its own clock;
    /// when one ends, it orders the command, again and again until the countdown is stopped or
    /// started anew. Every replica does so, and one after a restart counts from the beginning:
    /// commands have to bear that.
    fn take_countdowns(&mut self) -> Vec<Countdown> {
        Vec::new()
    }

    /// Does a small piece of work that was put off, such as freeing memory, and says whether there
    /// is more. Replicas do it whenever they have time, so it must not change what any command or
    /// query comes to.
    fn tidy(&mut self) -> bool {
        false
    }

    /// Answers a read from the state as it is now.
    fn query(&self, query: &Self::Query) -> Self::Answer;

    /// Begins a snapshot of the state as it is now; commands go on to be applied meanwhile.
    ///
    /// Must be cheap whatever the state's size. There is at most one cut at a time.
    fn cut(&mut self) -> Self::Cut;

    /// What replicas compare of a snapshot in the place of its bytes, for an application whose pieces differ from
    /// replica to replica: a function of the commands applied before the cut. `None`: the bytes are compared.
    fn cut_digest(&self, cut: &Self::Cut) -> Option<u64> {
        let _ = cut;
        None
    }

    /// Whether there is a [`Application::cut_digest`] for every snapshot.
    fn has_cut_digests(&self) -> bool {
        false
    }

    /// The next piece of a snapshot, about `bytes` long: never more than twice that and one value.
    /// An empty one is none at all: nothing was ready within a reasonable time, and more may be.
    /// `None` when the snapshot is complete: nothing is pinned any more.
    fn piece(&mut self, cut: &mut Self::Cut, bytes: usize) -> Option<Bytes>;

    /// A cut is given up before its end: nothing is to stay pinned for it.
    fn release(&mut self, cut: Self::Cut);

    /// Where a snapshot can be loaded into: no state, the same local settings, and what local
    /// readers still want of the state to come.
    fn empty(&self) -> Self
    where
        Self: Sized;

    /// Takes the next piece of a snapshot; they come in order, into an [`Application::empty`] one.
    ///
    /// # Errors
    /// What is wrong with the piece. It may come from a damaged disk: no bytes may cause a panic.
    fn load(&mut self, piece: Bytes) -> Result<(), String>;

    /// The last piece is loaded. Afterwards [`Application::take_countdowns`] starts every countdown
    /// that runs.
    ///
    /// # Errors
    /// What is missing or contradictory: then this application must not be used.
    fn loaded(&mut self) -> Result<(), String>;

    /// What was loaded takes the place of the state that there was. Not before this, and not if it is given up instead,
    /// may local readers see anything of it.
    fn installed(&mut self) {}
}
