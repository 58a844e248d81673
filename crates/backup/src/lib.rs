//! Backups of a cluster with etcd's API, as files of one folder.
//!
//! | file | holds |
//! |---|---|
//! | `about.json` | the format's number, and the cluster's |
//! | `full-REVISION-TIME.db` | all at a revision, as `etcdctl snapshot save` writes it, and when it was whole here |
//! | `changes-REVISION.log` | every change from a revision on, without gaps ([`SegmentWriter`]) |
//! | `*.partial` | what was being written as the program ended; nobody reads it |
//!
//! A time is in milliseconds since 1970, by the clock of the machine that makes the backup. A file that has its name is
//! never changed: whoever copies the folder elsewhere meanwhile copies a backup. A segment of changes may end within a
//! record, if the machine stopped then; everything before is whole.
//!
//! From a full snapshot and the changes after it, the state at any revision since is made ([`Folder::restore`]): a
//! snapshot again, that `quorate import` takes, and `etcdutl snapshot restore`.

mod error;
mod files;
mod folder;
mod restore;
mod segment;
mod verify;

#[cfg(test)]
mod tests;

pub use error::BackupError;
pub use folder::{Folder, Full};
pub use restore::{Moment, Restored};
pub use segment::{Change, SegmentWriter};
pub use verify::{Range, Verified};
