//! The middle ring: what every protocol needs and none should repeat.
//!
//! A [`Host`] wraps one protocol's machine and one application, and does sessions, the log,
//! holding messages back until what they depend on is durable, catch-up from peers, reads and the
//! apply loop. It is sans-IO: log bytes, frames and clock readings go in and out as values, so
//! that the simulator and production drive the very same code.
//!
//! # Driving a host
//!
//! Inputs go in by [`Host::submit`], [`Host::frame`], [`Host::link`], [`Host::completed`] and [`Host::direct`], any
//! number of them. Then [`drive()`] lets a [`Driver`] do everything that follows: it ends the host's turn, starts the
//! machine of an epoch that waits for it, has the driver perform what the host wants done ([`Effects`]), and lets the
//! host do a piece of the work it has put off. After it the driver sleeps until there is an input or
//! [`Look::next_wake`] is due, unless more was put off.

mod answering;
mod api;
mod apply;
mod attachment_check;
mod catch_up;
mod compare;
mod context;
mod countdowns;
mod decided;
mod describe;
mod divergence;
mod drive;
mod engine;
pub mod epochs;
mod export;
mod fetch_pacing;
mod flaw;
pub mod force;
mod found;
mod fragments;
mod frame;
#[cfg(test)]
mod fuzz;
mod gateway;
mod gateway_results;
mod host;
mod log;
mod open;
mod open_error;
mod opened;
mod outbox;
mod payloads;
mod pending;
mod position;
mod read_repair;
mod records;
mod repair;
mod replay;
mod requests;
mod retained_records;
mod rollback;
mod serve_pacing;
mod sessions;
mod snapshot;
mod stall;
mod storage;
mod timers;
mod transfer;
mod version;

pub use api::{
    Answer, Counters, Directive, Flush, Frame, HostConfig, HostEvent, Limits, LogRead, PayloadGone,
    Place, Request, SnapshotId, Start, Store, Token, Write,
};
pub use countdowns::Countdowns;
pub use describe::describe_frame;
pub use divergence::{Comparison, Verdict, is_in_doubt};
pub use drive::{Driver, Pace, drive};
pub use export::Export;
pub use flaw::Flaw;
pub use found::write_first_snapshot;
pub use fragments::{Fragment, FragmentsOpened};
pub use gateway::{Gateway, GatewayConfig, GatewayEffects};
pub use host::{Completed, Effects, Host, Look, Queue};
pub use log::LogSource;
pub use open_error::OpenError;
pub use opened::Opened;
pub use payloads::{Coding, Fragments, Recoded};
pub use position::Position;
pub use replay::{Exported, Outcome};
pub use snapshot::{Release, SNAPSHOT_UNWRITTEN_BYTES_MAX, SnapshotRead, SnapshotWrite};
pub use version::{
    ALARM_LEVEL, FIRST_LEVEL, RAFT_LEVEL, REDIS_IMPORT_LEVEL, REDIS_STORE_IMPORT_LEVEL,
    REDIS_USERS_LEVEL, SupportedVersions, USERS_LEVEL, WireVersion,
};
