//! The journals of participants as files, and how far symbols were.
//!
//! A journal is written, and synced, before what it says is done: the numbers of what an engine was sent do not go
//! back, whether the process was killed or the machine lost its power. Syncing is the caller's
//! ([`Journal::take_unsynced`]), so that one sync serves all that came meanwhile.

use crate::book::ParticipantId;
use crate::exchange::SymbolId;
use crate::fix::{self, Client};
use crate::wire::{Reader, WireError, Writer};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// From how many bytes on a journal is written anew where most of it counts no more.
const COMPACT_BYTES: u64 = 4 << 20;
const PREFIX: &str = "fix-";
const SUFFIX: &str = ".journal";
const POSITIONS: &str = "positions";

/// The journal of one participant.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The size from which it is written anew.
    compact_at: u64,
    /// Whether something was written that no sync covers which has begun.
    is_unsynced: bool,
}

fn path(folder: &Path, participant: ParticipantId) -> PathBuf {
    folder.join(format!("{PREFIX}{}{SUFFIX}", participant.0))
}

/// The participants that have a journal in a folder.
pub(super) fn participants(folder: &Path) -> io::Result<Vec<ParticipantId>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        let number = number.and_then(|number| number.parse().ok());
        found.extend(number.map(ParticipantId));
    }
    found.sort_unstable();
    Ok(found)
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600);
    options.open(path)
}

impl Journal {
    /// Opens the journal of a participant, and returns what is in it.
    pub(super) fn open(folder: &Path, participant: ParticipantId) -> io::Result<(Journal, Client)> {
        let path = path(folder, participant);
        let about = |error: WireError| io::Error::other(format!("{}: {error}", path.display()));
        let (file, client, bytes) = match fs::read(&path) {
            Ok(read) if !read.is_empty() => {
                let read = fix::read(&read).map_err(about)?;
                if read.participant != participant {
                    return Err(about(WireError::Value("participant")));
                }
                let bytes = read.bytes as u64;
                let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
                file.set_len(bytes)?;
                file.seek(io::SeekFrom::End(0))?;
                (file, Client::recover(read), bytes)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {
                let mut file = create(&path)?;
                let header = fix::header(participant);
                file.write_all(&header)?;
                sync_folder(&path)?;
                (file, Client::new(participant), header.len() as u64)
            }
        };
        let journal = Journal {
            path,
            file,
            bytes,
            compact_at: COMPACT_BYTES.max(bytes),
            // What is read may never have come to the disk.
            is_unsynced: true,
        };
        Ok((journal, client))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something was written that no sync covers which has begun.
    pub(super) fn is_unsynced(&self) -> bool {
        self.is_unsynced
    }

    /// The file to sync, if something was written since this was last asked.
    pub(super) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        match std::mem::take(&mut self.is_unsynced) {
            true => self.file.try_clone().map(Some),
            false => Ok(None),
        }
    }

    /// Writes what has changed of a client. It survives a crash of the machine once it is synced.
    pub(super) fn append(&mut self, client: &mut Client) -> io::Result<()> {
        let record = client.take_record();
        if record.is_empty() {
            return Ok(());
        }
        self.file.write_all(&record)?;
        self.bytes += record.len() as u64;
        self.is_unsynced = true;
        match self.bytes > self.compact_at {
            true => self.compact(client),
            false => Ok(()),
        }
    }

    /// Writes what counts to a new file, which takes the place of this one.
    fn compact(&mut self, client: &Client) -> io::Result<()> {
        let mut bytes = fix::header(client.participant());
        bytes.extend(client.whole_record());
        let new = self.path.with_extension("new");
        let mut file = create(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)?;
        self.file = file;
        self.bytes = bytes.len() as u64;
        self.compact_at = COMPACT_BYTES.max(2 * self.bytes);
        Ok(())
    }
}

/// Reads how far symbols were; nothing where nobody noted it.
pub(super) fn read_positions(folder: &Path) -> io::Result<BTreeMap<SymbolId, u64>> {
    let path = folder.join(POSITIONS);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read?,
    };
    let positions = Reader::whole(&bytes, |from| {
        let mut positions = BTreeMap::new();
        for _ in 0..from.length(10)? {
            positions.insert(SymbolId(from.u16()?), from.u64()?);
        }
        Ok(positions)
    });
    positions.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// Notes how far symbols are; that is on the disk when this returns.
pub(super) fn write_positions(
    folder: &Path,
    positions: &BTreeMap<SymbolId, u64>,
) -> io::Result<()> {
    let mut out = Writer::default();
    out.length(positions.len());
    for (symbol, position) in positions {
        out.u16(symbol.0);
        out.u64(*position);
    }
    let (new, path) = (folder.join("positions.new"), folder.join(POSITIONS));
    let mut file = create(&new)?;
    file.write_all(&out.bytes)?;
    file.sync_data()?;
    fs::rename(new, &path)?;
    sync_folder(&path)
}

/// Has the name of a file survive a crash of the machine.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
