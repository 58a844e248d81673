//! The contract of a state machine.

use crate::message::Message;
use bytes::Bytes;
use std::iter;
use std::time::Duration;

/// What is replicated: a state that commands change, in one order on every replica.
///
/// It is deterministic: the same commands, each with its [`Applied`], lead to the same state and replies everywhere. So
/// [`StateMachine::apply`] reads no clock (there is [`Applied::time_ns`]), draws no random numbers, asks nobody, and
/// walks through no `HashMap`. It does not panic either: the command is in the log of all replicas.
///
/// Every replica begins with the `Default`.
pub trait StateMachine: Default + Send + 'static {
    /// What changes the state.
    type Command: Message;
    /// What a command comes to.
    type Reply: Message;
    /// What is asked of the state without changing it. It stays in this process.
    type Query: Send + Sync + 'static;
    /// What a query comes to.
    type Answer: Send + 'static;

    /// Carries out a command.
    fn apply(&mut self, at: &Applied, command: Self::Command) -> Self::Reply;

    /// Answers a query from the state as it is.
    fn query(&self, query: &Self::Query) -> Self::Answer;

    /// The whole state as bytes, the same on every replica.
    fn save(&self) -> Vec<u8>;

    /// The state that [`StateMachine::save`] or [`StateMachine::snapshot`] wrote.
    ///
    /// # Errors
    /// What is wrong with the bytes. They may come from a damaged disk, and must cause no panic.
    fn load(bytes: &[u8]) -> Result<Self, String>;

    /// The whole state in pieces, which are the same on every replica and together what [`StateMachine::load`] takes.
    ///
    /// No command is applied while this runs, and others are while the pieces are taken: a state of many MiB freezes
    /// itself here (a persistent map, a shared pointer), and writes itself as the pieces are asked for. By default it
    /// is saved at once.
    fn snapshot(&self) -> Snapshot {
        Box::new(iter::once_with({
            let saved = Bytes::from(self.save());
            move || saved
        }))
    }

    /// The timers to start or stop since the last call; after [`StateMachine::load`], all that run.
    ///
    /// Every replica counts on its own clock, and one that starts again counts from the beginning. When a timer ends,
    /// its command is ordered, again and again until the timer is stopped or started anew; so that command has to
    /// check that it is still due, and may come more than once.
    fn take_timers(&mut self) -> Vec<Timer<Self::Command>> {
        Vec::new()
    }
}

/// The pieces of a state; see [`StateMachine::snapshot`].
pub type Snapshot = Box<dyn Iterator<Item = Bytes> + Send>;

/// Where, when and for whom a command is applied: equal on every replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Applied {
    /// The place in the log of the entry that the command is in, from 0.
    pub slot: u64,
    /// The command's place in that entry, from 0.
    pub index: u32,
    /// The time of the log, in ns since the Unix epoch. It never goes back, and follows the members' clocks.
    pub time_ns: u64,
    /// The number given to `submit_as`; 0 otherwise. What it means is up to the program.
    pub who: u32,
    /// The request, if a [`Client`](crate::Client) sent it.
    pub request: Option<RequestId>,
    /// The number of this command among all that were applied, from 1: it grows with every one, so that it serves as a
    /// fencing token.
    pub token: u64,
}

/// A request of a client, for at most once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    /// The client that asks.
    pub client: ClientId,
    /// The number among that client's requests, from 1.
    pub number: u64,
}

/// The name of a client, which the log gave it and gives nobody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// A timer to start or to stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Timer<C> {
    /// Counts from now, in the place of an earlier timer of this number.
    Start {
        /// The number of the timer.
        id: u64,
        /// The time after which the command is ordered.
        after: Duration,
        /// The command that is ordered then.
        command: C,
    },
    /// Counts no more.
    Stop {
        /// The number of the timer.
        id: u64,
    },
}
