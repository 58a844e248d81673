//! Why a data folder cannot be used, in words for people.

use super::{ETCD, META};
use crate::meta::META_FORMAT;
use quorate_core::{ClusterId, ReplicaId};
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a data folder cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FolderError {
    /// The operating system refused.
    Io {
        /// The operation that failed, as a verb.
        verb: &'static str,
        /// The file or folder of the operation.
        path: PathBuf,
        /// The operating system's reason.
        why: String,
    },
    /// The folder holds no replica's data, and the replica was not told that the cluster is new.
    NoData {
        /// The folder without data.
        dir: PathBuf,
    },
    /// The folder holds a log without the meta file that says whose it is.
    MetaMissing {
        /// The folder that has a log and no meta file.
        dir: PathBuf,
    },
    /// The folder holds an etcd's data, which this program cannot read.
    OfEtcd {
        /// The folder that holds an etcd's data.
        dir: PathBuf,
    },
    /// The folder holds data already.
    Occupied {
        /// The folder that already holds data.
        dir: PathBuf,
    },
    /// The meta file is damaged: it is not what was written.
    Corrupt {
        /// The path of the damaged meta file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// The meta file has a format of the future.
    Newer {
        /// The path of the newer meta file.
        path: PathBuf,
        /// The format of the file: newer than any that this program reads.
        found: u32,
    },
    /// The folder holds another cluster's data.
    OtherCluster {
        /// The folder with another cluster's data.
        dir: PathBuf,
        /// The cluster whose data the folder holds.
        found: ClusterId,
        /// The cluster that was expected.
        expected: ClusterId,
    },
    /// The folder holds another replica's data.
    OtherReplica {
        /// The folder with another replica's data.
        dir: PathBuf,
        /// The replica whose data the folder holds.
        found: ReplicaId,
        /// The replica that was expected.
        expected: ReplicaId,
    },
    /// The data was bootstrapped with another setting than asked for now.
    Differs {
        /// The folder that was bootstrapped otherwise.
        dir: PathBuf,
        /// The name of the setting that differs.
        what: &'static str,
        /// The value that the data has.
        found: String,
        /// The value that was asked for.
        expected: String,
    },
    /// A running replica uses the folder.
    Locked {
        /// The folder that a running replica uses.
        dir: PathBuf,
        /// The process id of the running replica, if it could be read.
        pid: Option<u32>,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::Io { verb, path, why } => {
                write!(f, "cannot {verb} {}: {why}", path.display())
            }
            FolderError::NoData { dir } => write!(
                f,
                "data folder {} holds no replica, and this one was not told to begin a new cluster: if \
                the cluster is new, say so with --initial-cluster-state new; if it is not, point \
                --data-dir at the data, or name the other replicas with --initial-cluster, and this \
                one recovers from them",
                dir.display()
            ),
            FolderError::MetaMissing { dir } => write!(
                f,
                "data folder {dir} holds a log but no file `{META}` that says whose it is, nor its copy: {remedy}",
                dir = dir.display(),
                remedy = FromPeers(dir)
            ),
            FolderError::OfEtcd { dir } => write!(
                f,
                "data folder {dir} is etcd's (it holds `{}`), in which this program never writes: make one of it once \
                 etcd has stopped (quorate import --etcd-data-dir {dir} --data-dir NEW) and start with that",
                ETCD[0],
                dir = dir.display()
            ),
            FolderError::Occupied { dir } => write!(
                f,
                "data folder {} holds a replica already and is never bootstrapped again: choose \
                 an empty folder, or start the replica that is there",
                dir.display()
            ),
            FolderError::Corrupt { path, why } => write!(
                f,
                "{} is damaged ({why}), and its copy is of no use either: {}",
                path.display(),
                FromPeers(path.parent().unwrap_or(path))
            ),
            FolderError::Newer { path, found } => write!(
                f,
                "{} has format {found} and this program reads up to {META_FORMAT}: run the \
                 version of quorate that wrote it, or a newer one",
                path.display()
            ),
            FolderError::OtherCluster {
                dir,
                found,
                expected,
            } => write!(
                f,
                "data folder {} belongs to cluster {found}, not to cluster {expected}: check \
                 --data-dir, --initial-cluster and --initial-cluster-token",
                dir.display()
            ),
            FolderError::OtherReplica {
                dir,
                found,
                expected,
            } => write!(
                f,
                "data folder {} belongs to replica {found}, not to replica {expected}: check \
                 --data-dir and --id",
                dir.display()
            ),
            FolderError::Differs {
                dir,
                what,
                found,
                expected,
            } => write!(
                f,
                "data folder {} was bootstrapped with {what} {found}, not {expected}: leave the \
                 flag out to go on with the cluster as it is, or choose an empty folder",
                dir.display()
            ),
            FolderError::Locked {
                dir,
                pid: Some(pid),
            } => write!(
                f,
                "data folder {} is in use by the running replica with process id {pid}: stop it \
                 first, or choose another folder",
                dir.display()
            ),
            FolderError::Locked { dir, pid: None } => write!(
                f,
                "data folder {} is in use by a running replica: stop it first, or choose another \
                 folder",
                dir.display()
            ),
        }
    }
}

impl std::error::Error for FolderError {}

/// What to do about a folder of which nobody can say whose it is.
struct FromPeers<'a>(&'a Path);

impl fmt::Display for FromPeers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the other replicas are not affected; move {} away and start this replica as always, with an empty \
             folder: it comes back from the others (of a cluster of one, this folder is all there is: put the file \
             back from a copy of yours)",
            self.0.display()
        )
    }
}
