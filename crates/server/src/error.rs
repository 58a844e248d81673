//! Why a replica cannot start or had to stop.

use crate::disk::DiskError;
use crate::divergence::Difference;
use crate::folder::FolderError;
use crate::join::JoinError;
use quorate_core::ReplicaId;
use quorate_host::OpenError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a replica cannot start or had to stop: what, where, and what to do.
#[derive(Debug)]
pub enum ServerError {
    /// The data folder cannot be used.
    Folder(FolderError),
    /// The log could not be read at the start.
    Log {
        /// The folder of the log's segments.
        dir: PathBuf,
        /// What is wrong with the log.
        error: OpenError,
    },
    /// The log could not be written.
    Disk(DiskError),
    /// The disk has no space for the first segment of the log.
    Full {
        /// The folder of the log's segments.
        dir: PathBuf,
        /// What the file system says.
        why: String,
    },
    /// A replica without promises may not begin.
    Join(JoinError),
    /// The protocol cannot run the epoch in the data folder.
    Epoch(String),
    /// A port could not be opened.
    Listen {
        /// The purpose of the port, such as `clients`.
        what: &'static str,
        /// The address that could not be bound, as `host:port`.
        address: String,
        /// The operating system's reason.
        error: io::Error,
    },
    /// This replica and a peer applied the same slots with different results, and a majority is equal without it.
    Outlier(Difference),
    /// This replica and a peer applied the same slots with different results, and no majority is known to be equal.
    Diverged(Difference),
    /// The cluster goes on without this replica.
    Removed {
        /// The replica that was removed.
        me: ReplicaId,
        /// The epoch that no longer lists it.
        epoch: u64,
        /// The folder of its data.
        dir: PathBuf,
    },
    /// The group's feature level is higher than this program knows.
    Level {
        /// The group's feature level.
        level: u32,
        /// The highest feature level that this program knows, or is to know.
        known: u32,
    },
    /// The face ended by itself.
    Face(String),
    /// The core ended by itself.
    Core(String),
    /// A call of the operating system failed.
    System(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Folder(error) => write!(f, "{error}"),
            ServerError::Full { dir, why } => write!(
                f,
                "{}: {why}; free some space on this disk and start the replica again",
                dir.display()
            ),
            ServerError::Join(error) => write!(f, "{error}"),
            ServerError::Log {
                dir,
                error: error @ OpenError::Io(_),
            } => write!(
                f,
                "{}: {error}; check the disk before starting this replica again, the others go on",
                dir.display()
            ),
            ServerError::Log {
                dir,
                error: error @ OpenError::Version { .. },
            } => {
                write!(
                    f,
                    "{}: {error}: run the version of quorate that wrote it",
                    dir.display()
                )
            }
            ServerError::Log { dir, error } => {
                write!(
                    f,
                    "{}: {error}: check that the folder was not mixed up",
                    dir.display()
                )
            }
            ServerError::Disk(error) => write!(f, "{error}"),
            ServerError::Epoch(why) => write!(f, "the configuration of this cluster: {why}"),
            ServerError::Listen {
                what,
                address,
                error,
            } => {
                write!(f, "cannot listen for {what} on {address}: {error}")?;
                match error.kind() {
                    io::ErrorKind::AddrInUse => f.write_str(
                        "; another program has this port: stop it, or choose another port",
                    ),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; choose a port from 1024 up, or run with more rights")
                    }
                    _ => f.write_str("; check the address"),
                }
            }
            ServerError::Outlier(difference) => write!(
                f,
                "{difference}, and a majority of the members agrees without this replica, which stops. \
                Keep a copy of its data folder if its content may matter; to bring the replica back, \
                delete the folder and start it again: it takes over the state of the others, and the \
                alarm about it ends"
            ),
            ServerError::Diverged(difference) => write!(
                f,
                "{difference}: this replica stops, because one of the two is wrong; compare `etcdctl \
                endpoint hashkv` of all replicas and report this"
            ),
            ServerError::Removed { me, epoch, dir } => write!(
                f,
                "replica {me} was removed from the cluster, which is in epoch {epoch} without it: its \
                data in {} is not needed any more. To bring the replica back, delete that folder, add \
                the replica to the cluster and start it again",
                dir.display()
            ),
            ServerError::Level { level, known } => write!(
                f,
                "the cluster is at feature level {level}, and this program knows {known}: run one that \
                 knows it, or leave --wire-version out if that is what keeps it older; there is no way \
                 back once a level is raised"
            ),
            ServerError::Face(why) => write!(f, "serving clients ended: {why}"),
            ServerError::Core(why) => write!(f, "the replica's core ended: {why}"),
            ServerError::System(error) => write!(f, "the operating system refused: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<FolderError> for ServerError {
    fn from(error: FolderError) -> Self {
        ServerError::Folder(error)
    }
}

impl From<DiskError> for ServerError {
    fn from(error: DiskError) -> Self {
        ServerError::Disk(error)
    }
}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        ServerError::System(error)
    }
}
