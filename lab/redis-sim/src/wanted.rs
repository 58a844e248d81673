//! What drivers want of hosts that somebody else runs.

use bytes::Bytes;

/// Who waits for an answer: a replica, the life of its process, and the driver's token.
pub type Asker = (usize, u64, u64);

/// Something that hosts are to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A command is to be ordered.
    Submit(Asker, Bytes),
    /// A quorum is to be asked for the state of the stream.
    Read(Asker),
    /// The process of a replica is to start anew.
    Restart(usize),
}
