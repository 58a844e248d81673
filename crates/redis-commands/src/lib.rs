//! Command mode: deterministic commands of Redis in the log, carried out by a real server of every replica.
//!
//! - [`Commands`] is the replicated state, an [`Application`](quorate_core::Application): how many bodies were taken,
//!   and what changed last under which keys, for `WATCH`. The data itself is in servers.
//! - [`Pipe`] turns bodies and reads into what a server is sent, and its replies into answers; no I/O.
//! - [`Shared`] is what the two have in common: the newest RDB, and the bodies since.
//! - [`refused`] says which calls are not taken, since their outcome would differ from server to server.
//!
//! A body is applied at once and carried out by the server soon after, in order. So the core waits for no server, what
//! is taken back before its decision has never reached one, and a server that died is begun again from its last RDB.

mod body;
mod commands;
mod footprint;
mod history;
mod pipe;
mod rules;
mod shared;
mod snapshot;
mod state;

pub use body::{BODY_TAG, Entry, Origin, body};
pub use commands::{Commands, CommandsAnswer, CommandsQuery};
pub use pipe::{Broken, Done, Pipe};
pub use rules::{missing, refused};
pub use shared::{Base, Shared};
pub use snapshot::Cut;
pub use state::Outcome;
