//! The files of a backup.

use crate::error::BackupError;
use crate::files::{begin, partial, publish, sync_folder_of};
use crate::segment::{SegmentReader, SegmentWriter};
use quorate_etcd_snapshot::{FileError, FileSource, StateReader};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What the format is called that this program writes.
const FORMAT: u32 = 1;

/// What `about.json` says.
#[derive(Serialize, Deserialize)]
struct About {
    format: u32,
    /// The cluster's number in hexadecimal digits, as `etcdctl member list -w json --hex` shows it.
    cluster: String,
}

/// The folder of a backup.
#[derive(Debug)]
pub struct Folder {
    pub(crate) dir: PathBuf,
    /// Held for as long as the folder is written to.
    _lock: Option<File>,
}

/// A full snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Full {
    /// The file that holds the snapshot.
    pub path: PathBuf,
    /// The revision it has.
    pub revision: i64,
    /// When it was whole, in ms since 1970.
    pub time_ms: u64,
}

/// A segment of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The revision of its first change.
    pub(crate) first: i64,
}

impl Folder {
    /// Opens a backup to be read, while another program may go on with it.
    ///
    /// # Errors
    /// That it is none, or one of a newer program.
    pub fn open(dir: &Path) -> Result<Folder, BackupError> {
        let folder = Folder {
            dir: dir.to_owned(),
            _lock: None,
        };
        match folder.about()? {
            Some(_) => Ok(folder),
            None => {
                let what =
                    "there is no backup: about.json is missing (quorate backup run begins one)";
                Err(BackupError::new(dir, what))
            }
        }
    }

    /// Opens a backup of a cluster to go on with it, or begins one in an empty folder. Nobody else writes there until
    /// the folder is dropped.
    ///
    /// # Errors
    /// That it is of another cluster, that another program writes there, or what the operating system says.
    pub fn begin(dir: &Path, cluster: u64) -> Result<Folder, BackupError> {
        fs::create_dir_all(dir).map_err(BackupError::of(dir))?;
        let lock = File::open(dir).map_err(BackupError::of(dir))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| BackupError::new(dir, "another quorate backup writes there"))?;
        let folder = Folder {
            dir: dir.to_owned(),
            _lock: Some(lock),
        };
        match folder.about()? {
            Some(about) if about.cluster == format!("{cluster:x}") => Ok(folder),
            Some(about) => Err(BackupError::new(
                dir,
                format!(
                    "it has backups of the cluster {}, and this cluster is {cluster:x}: name another folder",
                    about.cluster
                ),
            )),
            None if fs::read_dir(dir)
                .map_err(BackupError::of(dir))?
                .next()
                .is_some() =>
            {
                let what = "the folder is not empty, and has no about.json: a backup begins in an empty folder";
                Err(BackupError::new(dir, what))
            }
            None => folder.write_about(cluster).map(|()| folder),
        }
    }

    fn about(&self) -> Result<Option<About>, BackupError> {
        let path = self.dir.join("about.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(BackupError::of(&path))?,
        };
        let about: About = serde_json::from_slice(&text).map_err(|why| {
            BackupError::new(&path, format!("it says nothing of a backup: {why}"))
        })?;
        if about.format > FORMAT {
            let format = about.format;
            let what =
                format!("a newer program wrote it (format {format}, known is {FORMAT}): use that");
            return Err(BackupError::new(&path, what));
        }
        Ok(Some(about))
    }

    fn write_about(&self, cluster: u64) -> Result<(), BackupError> {
        let about = About {
            format: FORMAT,
            cluster: format!("{cluster:x}"),
        };
        self.write(
            "about.json",
            &serde_json::to_vec(&about).expect("two fields"),
        )
    }

    /// Writes a small file, whole or not at all.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let path = self.dir.join(name);
        let partial = partial(&path);
        let mut file = begin(&partial)?;
        file.write_all(content).map_err(BackupError::of(&partial))?;
        publish(&file, &partial, &path)
    }

    /// A file for a full snapshot as it comes in.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn begin_full(&self) -> Result<File, BackupError> {
        begin(&self.partial_full())
    }

    fn partial_full(&self) -> PathBuf {
        self.dir.join("full.partial")
    }

    /// What happened to the file that [`Folder::begin_full`] gave.
    #[must_use]
    pub fn partial_failed(&self, error: io::Error) -> BackupError {
        BackupError::of(&self.partial_full())(error)
    }

    /// Takes the file that [`Folder::begin_full`] gave and that has all of a snapshot now, and checks every record of
    /// it.
    ///
    /// # Errors
    /// That the snapshot is damaged, or what the operating system says.
    pub fn add_full(&self, file: &File, time_ms: u64) -> Result<Full, BackupError> {
        let partial = self.partial_full();
        let revision = check_full(&partial)?;
        let path = self
            .dir
            .join(format!("full-{revision:020}-{time_ms:014}.db"));
        publish(file, &partial, &path)?;
        Ok(Full {
            path,
            revision,
            time_ms,
        })
    }

    /// Begins a segment of changes.
    ///
    /// # Errors
    /// That there is one of this revision already with changes in it, or what the operating system says.
    pub fn begin_segment(&self, first: i64) -> Result<SegmentWriter, BackupError> {
        let path = self.dir.join(format!("changes-{first:020}.log"));
        if path.exists() && self.next_of(&path, first)? == first {
            fs::remove_file(&path).map_err(BackupError::of(&path))?;
        }
        SegmentWriter::create(&path, first)
    }

    fn next_of(&self, path: &Path, first: i64) -> Result<i64, BackupError> {
        let mut reader = SegmentReader::open(path, first)?;
        while reader.next_change()?.is_some() {}
        Ok(reader.next())
    }

    /// The revision of the first change that the backup has not: changes from there on may follow. `None` before the
    /// first full snapshot.
    ///
    /// # Errors
    /// What is wrong with the last segment.
    pub fn next(&self) -> Result<Option<i64>, BackupError> {
        let full = self.fulls()?.pop().map(|full| full.revision + 1);
        let changes = match self.segments()?.pop() {
            Some(last) => Some(self.next_of(&last.path, last.first)?),
            None => None,
        };
        Ok(full.max(changes.filter(|_| full.is_some())))
    }

    /// All full snapshots, by revision.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn fulls(&self) -> Result<Vec<Full>, BackupError> {
        self.files(|path, name| {
            let name = name.strip_prefix("full-")?.strip_suffix(".db")?;
            let (revision, time_ms) = name.split_once('-')?;
            Some(Full {
                path,
                revision: revision.parse().ok()?,
                time_ms: time_ms.parse().ok()?,
            })
        })
        .map(|mut fulls| {
            fulls.sort_by_key(|full| (full.revision, full.time_ms));
            fulls
        })
    }

    /// All segments, by revision.
    pub(crate) fn segments(&self) -> Result<Vec<Segment>, BackupError> {
        self.files(|path, name| {
            let first = name.strip_prefix("changes-")?.strip_suffix(".log")?;
            let first = first.parse().ok()?;
            Some(Segment { path, first })
        })
        .map(|mut segments| {
            segments.sort_by_key(|segment| segment.first);
            segments
        })
    }

    fn files<T>(&self, parse: impl Fn(PathBuf, &str) -> Option<T>) -> Result<Vec<T>, BackupError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(BackupError::of(&self.dir))? {
            let entry = entry.map_err(BackupError::of(&self.dir))?;
            let name = entry.file_name();
            found.extend(name.to_str().and_then(|name| parse(entry.path(), name)));
        }
        Ok(found)
    }

    /// Removes all full snapshots but so many, the newest, and the changes that only they needed; says how many files
    /// that were.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn keep(&self, fulls: usize) -> Result<usize, BackupError> {
        let all = self.fulls()?;
        let Some(oldest) = all.len().checked_sub(fulls.max(1)).map(|from| &all[from]) else {
            return Ok(0);
        };
        let old = all.iter().take_while(|full| *full != oldest);
        let mut unneeded: Vec<PathBuf> = old.map(|full| full.path.clone()).collect();
        let segments = self.segments()?;
        // A segment ends where the next one begins, or before.
        let pairs = segments.iter().zip(segments.iter().skip(1));
        let before = pairs.filter(|(_, next)| next.first <= oldest.revision + 1);
        unneeded.extend(before.map(|(segment, _)| segment.path.clone()));
        for path in &unneeded {
            fs::remove_file(path).map_err(BackupError::of(path))?;
        }
        sync_folder_of(&oldest.path)?;
        Ok(unneeded.len())
    }
}

/// Checks a full snapshot: its digest, and that every version of every key can be read. Returns its revision.
pub(crate) fn check_full(path: &Path) -> Result<i64, BackupError> {
    let check = || {
        let reader = StateReader::open_snapshot(FileSource::new(File::open(path)?)?)?;
        let mut revision = reader.summary()?.compacted.max(1);
        reader.each_key(|record| {
            revision = revision.max(record.revision.main);
            Ok::<_, FileError>(())
        })?;
        reader.leases()?;
        reader.users()?;
        reader.roles()?;
        Ok::<_, FileError>(revision)
    };
    check().map_err(BackupError::of(path))
}
