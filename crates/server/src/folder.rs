//! A replica's data folder: `meta`, `lock`, `log/`, `bulk/` and `snap/`.

mod error;

use crate::disk::Folders;
use crate::meta::{Meta, MetaError, ReplicaState};
use crate::mirrored_file::{self, sync_dir};
pub use error::FolderError;
use quorate_core::{ClusterId, Durability, ReplicaId};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What the owner of a folder may do, and nobody else may anything.
const OWNER_ONLY: u32 = 0o700;
const META: &str = "meta";
const LOCK: &str = "lock";
pub(crate) const LOG: &str = "log";
const FRAGMENTS: &str = "bulk";
const SNAPSHOTS: &str = "snap";
/// What etcd has in its data folder.
const ETCD: [&str; 2] = ["member/wal", "member/snap"];

/// What a data folder should turn out to be; `None` where any will do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The replica whose data the folder must hold.
    pub replica: ReplicaId,
    /// The cluster that the data must belong to; `None` for any.
    pub cluster: Option<ClusterId>,
    /// The protocol that must order commands; `None` for any.
    pub protocol: Option<String>,
    /// The durability that the data must have been bootstrapped with.
    pub durability: Option<Durability>,
    /// The agreed parameters of the protocol; `None` for any.
    pub params: Option<BTreeMap<String, String>>,
}

impl Expected {
    /// The data of this replica, whatever they are.
    #[must_use]
    pub fn any(replica: ReplicaId) -> Expected {
        Expected {
            replica,
            cluster: None,
            protocol: None,
            durability: None,
            params: None,
        }
    }
}

/// An open data folder, locked for as long as this lives.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    meta: Meta,
    was_damaged: bool,
    /// Whether `meta` and its copy are the same.
    copies_agree: bool,
    _lock: File,
}

/// Creates a replica's data in a folder that holds none. A folder with data is never touched.
pub fn bootstrap(dir: &Path, meta: &Meta) -> Result<(), FolderError> {
    if holds_data(dir)? {
        return Err(FolderError::Occupied { dir: dir.into() });
    }
    create_folder(&dir.join(LOG))?;
    write_meta(dir, meta)?;
    // The folder's own name must survive a crash as well.
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new(".")),
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// Creates what a replica's files are written to, before it is known whose they are.
pub(crate) fn begin_folder(dir: &Path) -> Result<Folders, FolderError> {
    let folders = disk_folders(dir);
    for path in [&folders.log, &folders.fragments, &folders.snapshots] {
        create_folder(path)?;
    }
    sync_dir(dir)?;
    Ok(folders)
}

/// Creates a folder for its owner alone, and those above it that are not there.
pub(crate) fn create_folder(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    let created = builder.recursive(true).mode(OWNER_ONLY).create(path);
    created.map_err(|error| io_error("create", path, &error))
}

/// Tells people that others can look into a data folder.
fn warn_if_readable_by_others(dir: &Path) {
    let mode = fs::metadata(dir).map_or(OWNER_ONLY, |found| found.permissions().mode() & 0o777);
    if mode & !OWNER_ONLY != 0 {
        let path = dir.display();
        tracing::warn!(
            "data folder {path} is open to others (mode {mode:03o}), who can read every value: chmod 700 {path}"
        );
    }
}

fn disk_folders(dir: &Path) -> Folders {
    Folders {
        log: dir.join(LOG),
        fragments: dir.join(FRAGMENTS),
        snapshots: dir.join(SNAPSHOTS),
    }
}

/// Whether the folder holds data of some replica, readable or not.
///
/// # Errors
/// [`FolderError::OfEtcd`] where it is etcd's, and what the operating system says.
pub fn holds_data(dir: &Path) -> Result<bool, FolderError> {
    if dir.join(META).exists() || mirrored_file::has_copy(dir, META) {
        return Ok(true);
    }
    if ETCD.iter().any(|name| dir.join(name).exists()) {
        return Err(FolderError::OfEtcd { dir: dir.into() });
    }
    let log = dir.join(LOG);
    match fs::read_dir(&log) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("read", &log, &error)),
    }
}

impl Folder {
    /// Opens and locks a data folder and checks that it is the one expected.
    pub fn open(dir: &Path, expected: &Expected) -> Result<Folder, FolderError> {
        let folder = Folder::open_any(dir)?;
        expected.check(dir, &folder.meta)?;
        Ok(folder)
    }

    /// Opens a data folder that may have been begun by a start that came to nothing: one in which nothing was agreed
    /// on yet, and which is not the one expected, or not what `wanted` would begin, is begun again as `wanted`, or
    /// counts as empty if that is `None`.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_or_begin(
        dir: &Path,
        expected: &Expected,
        wanted: Option<&Meta>,
    ) -> Result<Option<Folder>, FolderError> {
        let mut folder = Folder::open_any(dir)?;
        let checked = expected.check(dir, &folder.meta);
        let is_open = folder.meta.state == ReplicaState::Joining;
        match wanted {
            Some(wanted) if is_open && !folder.meta.begins_as(wanted) => {
                folder.record(wanted.clone())?;
            }
            None if is_open && checked.is_err() => {
                folder.discard_unless_agreed()?;
                return Ok(None);
            }
            _ => checked?,
        }
        Ok(Some(folder))
    }

    /// Makes the folder hold no replica, if the one there has agreed to nothing: nobody relies on it.
    pub(crate) fn discard_unless_agreed(self) -> Result<(), FolderError> {
        match self.meta.state {
            ReplicaState::Joining => mirrored_file::remove(&self.dir, META),
            _ => Ok(()),
        }
    }

    fn open_any(dir: &Path) -> Result<Folder, FolderError> {
        if !dir.join(META).exists() && !mirrored_file::has_copy(dir, META) {
            return Err(match holds_data(dir)? {
                true => FolderError::MetaMissing { dir: dir.into() },
                false => FolderError::NoData { dir: dir.into() },
            });
        }
        warn_if_readable_by_others(dir);
        let lock = lock(dir)?;
        let found = mirrored_file::read_copies(dir, META, |bytes| parse_meta(dir, bytes))?;
        let meta = found.content.ok_or_else(|| no_meta(dir))?;
        Ok(Folder {
            dir: dir.into(),
            meta,
            was_damaged: found.is_damaged,
            copies_agree: found.copies_agree,
            _lock: lock,
        })
    }

    /// The identity of the replica whose data this is.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Whether the identity was damaged when the folder was opened, and its copy was not, or the
    /// other way round.
    pub(crate) fn was_damaged(&self) -> bool {
        self.was_damaged
    }

    /// The path of the data folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of the log's segments.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    /// The folders of what is written while the replica runs.
    pub(crate) fn disk_folders(&self) -> Folders {
        disk_folders(&self.dir)
    }

    /// Files of the log, as far as they can be listed.
    pub(crate) fn log_segments(&self) -> u64 {
        let entries = fs::read_dir(self.log_dir()).into_iter().flatten().flatten();
        let is_segment = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            Path::new(&name)
                .extension()
                .is_some_and(|extension| extension == "seg")
        };
        entries.filter(is_segment).count() as u64
    }

    /// The folder of the snapshots.
    #[must_use]
    pub fn snapshots_dir(&self) -> PathBuf {
        self.dir.join(SNAPSHOTS)
    }

    /// Bytes of snapshots, as far as they can be listed.
    pub(crate) fn snapshot_bytes(&self) -> u64 {
        let entries = fs::read_dir(self.snapshots_dir()).into_iter().flatten();
        let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
        sizes.map(|metadata| metadata.len()).sum()
    }

    /// Records that the replica may have spoken. Returns once that survives a crash.
    pub fn mark_started(&mut self) -> Result<(), FolderError> {
        if self.meta.state == ReplicaState::Started && self.copies_agree {
            return Ok(());
        }
        let started = Meta {
            state: ReplicaState::Started,
            ..self.meta.clone()
        };
        self.record(started)
    }

    /// Replaces what is known of the replica. Returns once that survives a crash.
    pub(crate) fn record(&mut self, meta: Meta) -> Result<(), FolderError> {
        write_meta(&self.dir, &meta)?;
        self.meta = meta;
        self.copies_agree = true;
        Ok(())
    }
}

impl Expected {
    /// Whether an identity is as expected. The most telling difference comes first: a wrong protocol says more than the
    /// wrong cluster id that may follow from it.
    pub fn check(&self, dir: &Path, meta: &Meta) -> Result<(), FolderError> {
        let differs = |what, found: String, expected: String| {
            Err(FolderError::Differs {
                dir: dir.into(),
                what,
                found,
                expected,
            })
        };
        match self.cluster {
            Some(cluster) if cluster != meta.cluster => {
                let (found, expected) = (meta.cluster, cluster);
                return Err(FolderError::OtherCluster {
                    dir: dir.into(),
                    found,
                    expected,
                });
            }
            _ => {}
        }
        if self.replica != meta.replica {
            let (found, expected) = (meta.replica, self.replica);
            return Err(FolderError::OtherReplica {
                dir: dir.into(),
                found,
                expected,
            });
        }
        if let Some(protocol) = self
            .protocol
            .as_ref()
            .filter(|name| **name != meta.epoch.protocol)
        {
            return differs("protocol", meta.epoch.protocol.clone(), protocol.clone());
        }
        if let Some(durability) = self
            .durability
            .filter(|mode| *mode != meta.epoch.durability)
        {
            return differs(
                "durability",
                format!("{:?}", meta.epoch.durability).to_lowercase(),
                format!("{durability:?}").to_lowercase(),
            );
        }
        if let Some(params) = self
            .params
            .as_ref()
            .filter(|params| **params != meta.epoch.params)
        {
            return differs("parameters", list(&meta.epoch.params), list(params));
        }
        Ok(())
    }
}

fn list(params: &BTreeMap<String, String>) -> String {
    if params.is_empty() {
        return "none".to_owned();
    }
    params
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Reads a folder's identity without locking it.
pub fn read_meta(dir: &Path) -> Result<Meta, FolderError> {
    let found = mirrored_file::read(dir, META, |bytes| parse_meta(dir, bytes))?;
    found.ok_or_else(|| no_meta(dir))
}

fn parse_meta(dir: &Path, bytes: &[u8]) -> Result<Meta, FolderError> {
    let path = || dir.join(META);
    let text = str::from_utf8(bytes);
    let text = text.map_err(|_| MetaError::Corrupt("it is not text".to_owned()));
    text.and_then(Meta::from_text).map_err(|why| match why {
        MetaError::Corrupt(why) => FolderError::Corrupt { path: path(), why },
        MetaError::Newer(found) => FolderError::Newer {
            path: path(),
            found,
        },
    })
}

fn no_meta(dir: &Path) -> FolderError {
    io_error("read", &dir.join(META), &io::ErrorKind::NotFound.into())
}

/// Writes a folder's identity: from then on it is a replica's.
pub(crate) fn write_meta(dir: &Path, meta: &Meta) -> Result<(), FolderError> {
    mirrored_file::write(dir, META, &meta.to_text())
}

/// Takes the lock that keeps two processes from running one replica. The kernel drops it with
/// the process, however that ends.
fn lock(dir: &Path) -> Result<File, FolderError> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| io_error("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The name of the holder is a courtesy: the lock itself is what counts.
            let _ = file.read_to_string(&mut holder);
            let pid = holder.trim().parse().ok();
            return Err(FolderError::Locked {
                dir: dir.into(),
                pid,
            });
        }
        Err(fs::TryLockError::Error(error)) => return Err(io_error("lock", &path, &error)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|error| io_error("write", &path, &error))?;
    Ok(file)
}

pub(crate) fn io_error(verb: &'static str, path: &Path, error: &io::Error) -> FolderError {
    FolderError::Io {
        verb,
        path: path.into(),
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::meta;

    fn any(replica: u16) -> Expected {
        Expected::any(ReplicaId(replica))
    }

    fn bootstrapped() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("1");
        bootstrap(&dir, &meta(1)).unwrap();
        (home, dir)
    }

    #[test]
    fn a_folder_is_bootstrapped_once_and_remembers_that_it_started() {
        let (_home, dir) = bootstrapped();
        assert_eq!(
            bootstrap(&dir, &meta(1)),
            Err(FolderError::Occupied { dir: dir.clone() })
        );
        let mut folder = Folder::open(&dir, &any(1)).unwrap();
        assert_eq!(folder.meta(), &meta(1));
        folder.mark_started().unwrap();
        drop(folder);
        let folder = Folder::open(&dir, &any(1)).unwrap();
        assert_eq!(folder.meta().state, ReplicaState::Started);
    }

    /// Scenario: everything that can be wrong with a folder, one message each.
    #[test]
    fn every_wrong_folder_has_one_clear_message() {
        type Spoil = fn(&Path) -> Expected;
        let cases: [(Spoil, &str); 9] = [
            (
                |dir| {
                    fs::remove_dir_all(dir).unwrap();
                    any(1)
                },
                "holds no replica, and this one was not told to begin a new cluster",
            ),
            (
                |dir| {
                    fs::remove_file(dir.join("meta.copy")).unwrap();
                    fs::remove_file(dir.join(META)).unwrap();
                    fs::write(dir.join(LOG).join("0000000001.seg"), b"x").unwrap();
                    any(1)
                },
                "holds a log but no file `meta` that says whose it is, nor its copy: the other replicas",
            ),
            (
                |dir| {
                    fs::remove_file(dir.join("meta.copy")).unwrap();
                    fs::write(dir.join(META), b"magic = \"quorate-meta\"\n").unwrap();
                    any(1)
                },
                "meta is damaged (its checksum line is missing), and its copy is of no use either: the other replicas",
            ),
            (
                |dir| {
                    let text = fs::read_to_string(dir.join(META)).unwrap();
                    fs::remove_file(dir.join("meta.copy")).unwrap();
                    fs::write(dir.join(META), text.replace("rabia", "chora")).unwrap();
                    any(1)
                },
                "meta is damaged (its checksum is",
            ),
            (
                |_| Expected {
                    cluster: Some(ClusterId(5)),
                    ..any(1)
                },
                "belongs to cluster 000000000000abcd0000000000000000, not to cluster \
                 00000000000000000000000000000005",
            ),
            (
                |_| any(2),
                "belongs to replica 1, not to replica 2: check --data-dir and --id",
            ),
            (
                |_| Expected {
                    protocol: Some("chora".into()),
                    ..any(1)
                },
                "was bootstrapped with protocol rabia, not chora",
            ),
            (
                |_| Expected {
                    durability: Some(Durability::Memory),
                    ..any(1)
                },
                "was bootstrapped with durability disk, not memory",
            ),
            (
                |_| Expected {
                    params: Some(BTreeMap::new()),
                    ..any(1)
                },
                "was bootstrapped with parameters window=4, not none",
            ),
        ];
        for (spoil, message) in cases {
            let (_home, dir) = bootstrapped();
            let expected = spoil(&dir);
            let error = Folder::open(&dir, &expected).unwrap_err().to_string();
            assert!(error.contains(message), "{error:?} lacks {message:?}");
            assert!(
                error.contains(&dir.display().to_string()),
                "{error:?} says not where"
            );
        }
    }

    /// Each byte of the meta file, and of its copy: damage is noticed and made good from the other,
    /// and if that is damaged as well, named.
    #[test]
    fn damage_to_any_byte_of_the_meta_file_is_noticed_and_repaired() {
        // Putting it right takes syncs.
        const REPAIRED_EVERY: usize = 100;
        let (_home, dir) = bootstrapped();
        let names = [META, "meta.copy"];
        Folder::open(&dir, &any(1)).unwrap().mark_started().unwrap();
        let started = Meta {
            state: ReplicaState::Started,
            ..meta(1)
        };
        let whole = fs::read(dir.join(META)).unwrap();
        assert!(!Folder::open(&dir, &any(1)).unwrap().was_damaged());
        for at in 0..whole.len() {
            for flip in [1 << (at % 8), 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                for name in names {
                    fs::write(dir.join(name), &bytes).unwrap();
                    assert_eq!(read_meta(&dir).as_ref(), Ok(&started), "byte {at}");
                    let mut folder = Folder::open(&dir, &any(1)).unwrap();
                    assert_eq!((folder.meta(), folder.was_damaged()), (&started, true));
                    if at % REPAIRED_EVERY == 0 {
                        folder.mark_started().unwrap();
                        let sound = names.map(|name| fs::read(dir.join(name)).unwrap() == whole);
                        assert_eq!(sound, [true, true], "byte {at} of {name}");
                    }
                    fs::write(dir.join(name), &whole).unwrap();
                }
                fs::write(dir.join(META), &bytes).unwrap();
                fs::write(dir.join("meta.copy"), &bytes).unwrap();
                for error in [
                    read_meta(&dir).unwrap_err(),
                    Folder::open(&dir, &any(1)).err().unwrap(),
                ] {
                    let is_named = matches!(error, FolderError::Corrupt { .. });
                    assert!(is_named, "byte {at}: {error}");
                }
                fs::write(dir.join(META), &whole).unwrap();
                fs::write(dir.join("meta.copy"), &whole).unwrap();
            }
        }
        fs::write(dir.join(LOG).join("0000000001.seg"), b"x").unwrap();
        for name in names {
            fs::remove_file(dir.join(name)).unwrap();
            let mut folder = Folder::open(&dir, &any(1)).unwrap();
            assert_eq!((folder.meta(), folder.was_damaged()), (&started, false));
            folder.mark_started().unwrap();
            assert_eq!(fs::read(dir.join(name)).unwrap(), whole);
        }
    }

    #[test]
    fn a_running_replica_keeps_its_folder_to_itself() {
        let (_home, dir) = bootstrapped();
        let first = Folder::open(&dir, &any(1)).unwrap();
        let pid = Some(std::process::id());
        let error = Folder::open(&dir, &any(1)).unwrap_err();
        assert_eq!(
            error,
            FolderError::Locked {
                dir: dir.clone(),
                pid
            }
        );
        drop(first);
        Folder::open(&dir, &any(1)).unwrap();
    }
}
