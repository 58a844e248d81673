//! The contract of an application: a deterministic state machine.

use crate::command::Principal;
use crate::ids::Slot;
use bytes::Bytes;

/// Where and when a command is applied; equal on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// The slot of the entry.
    pub slot: Slot,
    /// Position of the command within the entry.
    pub index: u32,
    /// Monotone time in ns since the Unix epoch, for applications that want one.
    pub stamp_ns: u64,
    /// Who asked.
    pub principal: Principal,
}

/// Something that shall happen after a time unless something else happens first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Countdown {
    /// Count from now; in the place of an earlier countdown of this number.
    Start {
        /// Its number.
        id: u64,
        /// How long, in ns.
        after_ns: u64,
        /// The body of the command to order in the end.
        command: Bytes,
    },
    /// Count no more.
    Stop {
        /// Its number.
        id: u64,
    },
}

/// A deterministic state machine on top of the log: a key-value store, an exchange, yours.
pub trait Application {
    /// A read request, evaluated on one replica only.
    type Query;
    /// The answer to a read request.
    type Answer;

    /// Applies one command and returns its result in the application's own encoding.
    ///
    /// Must be deterministic: the same commands give the same state and results on every
    /// replica. A body it cannot decode gives an error *result*, never a panic: it is in the log
    /// of all replicas.
    fn apply(&mut self, at: At, body: &Bytes) -> Bytes;

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
}
