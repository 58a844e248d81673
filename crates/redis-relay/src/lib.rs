//! The real side of the effects mode: sockets, a child process and clock around a
//! [`Driver`](quorate_redis_effects::Driver). And that of command mode: a server that is fed with the log ([`Feed`]).
//!
//! In effects mode everything is on one thread of its own ([`Relay`]), so that neither the core nor other faces wait
//! for a server:
//! - clients are taken at the port for RESP, and their bytes are relayed, both ways and unparsed, to the executor's
//!   server: over a socket where that is the own one, through a tunnel to the executor's relay otherwise;
//! - answers of the own server are held until the driver releases them (`hub`);
//! - the server itself is started and ended (`server`), and its connections are served, as the driver asks (`engine`).
#![allow(
    clippy::disallowed_methods,
    reason = "sockets and processes live in real time"
)]

mod board;
mod client;
mod engine;
mod feed;
mod hub;
mod limits;
mod listen;
mod local;
mod metered;
mod orders;
mod own_thread;
mod peer_process;
mod rdb_files;
mod server;
mod start;
mod tunnel;

pub use board::{Board, MoveError};
pub use feed::{
    Awaited, Feed, FeedHandle, FeedOptions, FeedStatus, NoReply, PreparedFeed, prepare_feed,
};
pub use limits::RelayLimits;
pub use orders::{Look, Orders, Pending};
pub use rdb_files::RdbFiles;
pub use start::{Prepared, Relay, RelayOptions, prepare};
