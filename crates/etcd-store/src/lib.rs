//! A multi-version key-value store with etcd's semantics, as a deterministic application.
//!
//! Writes arrive as commands ([`command`]), reads as [`Query`] values. One revision counter covers
//! the whole store: it starts at 1, and every transaction that changes something takes the next
//! one. Every version of every key is kept, so that any revision since the last compaction can be
//! read.
//!
//! # Semantics where etcd's are not obvious
//!
//! - All conditions of a transaction, those of inner transactions included, are evaluated before
//!   its first operation. Operations see what earlier ones did.
//! - A range of conditions holds when every key in it satisfies it. Over no key at all, the
//!   condition is put to a key of zeros, except that a condition on a value never holds.
//! - `count` ignores limit and filters. A sort target without an order sorts ascending, but only
//!   what the limit let through.
//! - A lease of less than two seconds is one of two seconds. Its keys go in one revision.
//! - Values may be kept as payloads: then the store knows their length and digest, and the name of the
//!   payload. It never waits for the bytes; [`PendingResponse`] and [`ordering`] say who does.
//! - A deletion at the compacted revision is kept for those who watch from there; a deletion before
//!   it is not.

mod attempt;
mod auth;
pub mod check;
pub mod command;
mod compact;
mod condition;
mod cursor;
mod disaster_recovery;
mod events;
mod export;
mod export_walk;
mod flaw;
mod hash;
mod history;
mod import;
mod index;
mod journal;
mod lease;
pub mod ordering;
mod pending_values;
mod permit;
mod plan;
mod query;
mod refused;
mod slice;
mod snapshot;
mod span;
mod store;
mod stored_value;
mod users;
mod value_refs;
mod view;
mod write;

pub use auth::{
    Access, Asker, AuthBoard, AuthChange, AuthState, ExportedAuth, ExportedRole, ExportedUser,
    Identity, Login, TokenDigest, TokenGrant,
};
pub use command::{Applied, decode_result};
pub use cursor::{RangeChunk, RangeCursor, response_bytes};
pub use disaster_recovery::UnreadableVersion;
pub use events::{Events, EventsQuery, Keys};
pub use export::{ExportHead, ExportPart, ExportRest, ExportedVersion};
pub use flaw::Flaw;
pub use hash::HashRest;
pub use import::{ImportNotes, StoreImport};
pub use lease::{LeaseExpiry, LeaseInfo, TTL_S_MAX, TTL_S_MIN};
pub use pending_values::{PendingResponse, event_value_refs, fill_events};
pub use query::{
    AskedQuery, AuthAnswer, AuthQuery, KeyHash, Operations, Query, QueryAnswer, Status,
};
pub use refused::Refused;
pub use slice::{LargeRead, Pin, RangePart, RangeRest};
pub use snapshot::Cut;
pub use store::Store;
pub use value_refs::ValueRef;
