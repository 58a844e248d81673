//! An unmodified Redis or Valkey as a replicated state machine, by its effects.
//!
//! One replica, the *executor*, lets its server run the commands of clients. What this server would send to a replica
//! of its own, its *effects*, is what the log orders; the servers of the other replicas follow that stream. Answers
//! wait until the effects that they rest on are accepted. So every command works as with a single server, and no
//! acknowledged write is lost when the executor changes.
//!
//! - [`Stream`] is the replicated state, an [`Application`](quorate_core::Application) of a few numbers: who executes
//!   in which epoch, and how long the stream is.
//! - [`Driver`] speaks to one server. It is a state machine: the same code runs against real servers and against one in
//!   a simulator.
//! - [`Shared`] is what the two have in common.
//! - [`Intake`] accepts the stream of another server for a store that carries it out itself.
//!
//! Nothing here reads a clock, a socket or a file.

mod command;
mod driver;
mod intake;
mod mutant;
mod rdb;
mod rdb_pieces;
mod shared;
mod snapshot;
mod state;
mod stream;
mod units;

pub use command::{
    BODY_TAG, Command, Flavour, Follows, Import, Outcome, REPLICATION_ID_BYTES, ServerVersion,
};
pub use driver::{Config, Conn, Driver, Gate, Input, Life, Note, Output, Role, Status};
pub use intake::Intake;
pub use mutant::Mutant;
pub use rdb::{Files, GENESIS_OFFSET, MemoryFiles, MemoryRdb, Rdb, RdbWriter, genesis, offset_of};
pub use rdb_pieces::{RdbLoading, RdbPieces};
pub use shared::{STREAM_ID, Shared, StreamState};
pub use snapshot::Cut;
pub use stream::{Stream, StreamQuery};
pub use units::{Piece, Units};
