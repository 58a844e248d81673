//! A stand-in for hosts and protocols: one order of commands, which replicas apply in their own time.
//!
//! It does what the contract of protocols allows: commands of one replica change places, results are lost, commands
//! are ordered though nobody waits for them any more, and a replica attempts a command ahead of its decision and takes
//! it back. A quorum's answer is given once everything that was ordered before the question is applied.

use bytes::Bytes;

/// A command in its place.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// The body of the command.
    pub body: Bytes,
    /// The replica that waits for the result, its life, and its token.
    pub by: Option<(usize, u64, u64)>,
}

/// A question to a quorum.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The replica that asks, and its life.
    pub by: (usize, u64),
    /// The token of the question.
    pub token: u64,
    /// How many commands have to be applied before the answer.
    pub after: usize,
}

/// The order of all commands.
#[derive(Debug, Default)]
pub struct Log {
    /// All commands, in order.
    pub entries: Vec<Ordered>,
    /// Questions without an answer.
    pub reads: Vec<Read>,
}
