//! etcd's snapshots and data folders, read and written without etcd.
//!
//! A snapshot is a bbolt file ([`Database`], [`DatabaseWriter`]) that holds an etcd's state in a schema of its own
//! ([`StateReader`], [`StateWriter`]), and ends with a SHA-256 of all that. A data folder has the same file, and a
//! write-ahead log that may be ahead of it ([`wal`]).
//!
//! What is read may be damaged or made by an enemy: everything is checked, memory and time are bounded by the
//! length of the file.

mod bolt;
mod error;
mod schema;
mod sha256;
mod source;
pub mod wal;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

pub use bolt::{Bucket, Database, DatabaseWriter};
pub use error::FileError;
pub use schema::{
    KeyRecord, LeaseRecord, MemberRecord, PermissionRecord, Revision, RoleRecord, StateReader,
    StateRest, StateWriter, Summary, UserOptions, UserRecord,
};
pub use sha256::{DIGEST_BYTES, Sha256};
pub use source::{FileSource, Source};
