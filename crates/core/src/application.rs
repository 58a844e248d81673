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

    /// Does a small piece of work that was put off, such as freeing memory, and says whether there
    /// is more. Replicas do it whenever they have time, so it must not change what any command or
    /// query comes to.
    fn tidy(&mut self) -> bool {
        false
    }

    /// Answers a read from the state as it is now.
    fn query(&self, query: &Self::Query) -> Self::Answer;
}
