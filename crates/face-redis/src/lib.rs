//! The Redis face: what clients of Redis speak, over a replica's handle.
//!
//! A connection is a task ([`serve`]). Of what a client sent at once, consecutive calls of the store become one
//! command body or one query, so that a pipeline costs one entry of the log; what concerns the connection alone, such
//! as `HELLO`, `CLIENT` and `CONFIG`, is answered here. Transactions are gathered here and ordered as one body.
//! Messages of `PUBLISH` go through the log, and every replica hands them to its own subscribers ([`Subscriptions`]).
//!
//! What a client is told, and what it is not: `docs/guide/redis.md`.
#![allow(
    clippy::disallowed_methods,
    reason = "clients are told the time, and how long they have been connected"
)]

mod access;
mod application;
mod blocked;
mod clients;
mod connection;
mod dispatch;
mod effects;
mod execute;
mod fed;
mod fed_page;
mod gathered;
mod import;
mod limits;
mod own;
mod own_page;
mod page;
mod pop;
mod pubsub;
mod quoted;
mod rdb_body;
mod rewrite;
mod serve;
mod serve_fed;
mod server;
mod session;
mod subscriber;
mod table;
mod users;
mod waiters;

pub use access::{AccessError, Users};
pub use application::{Answer, Cut, Query, RedisApplication};
pub use effects::serve_effects;
pub use limits::Limits;
pub use pubsub::Subscriptions;
pub use serve::{FaceOptions, serve};
pub use serve_fed::serve_fed;
