//! The file of a snapshot, put together from versions as the store tells them.

use prost::Message;
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_snapshot::{FileError, Revision, StateRest, StateWriter};
use quorate_etcd_store::ExportedVersion;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Names that files have for a moment.
const NAME: &str = "etcd-snapshot.tmp";
const OLDER_NAME: &str = "etcd-snapshot-older.tmp";

/// A snapshot that is being written.
pub(super) struct SnapshotFile {
    state: StateWriter<BufWriter<File>>,
    /// Versions older than this revision come in any order.
    compacted: i64,
    older: OlderVersions,
}

/// Versions that are to be sorted: their encodings in a file, and where each is.
struct OlderVersions {
    out: BufWriter<File>,
    places: Vec<VersionPlace>,
    bytes: u64,
}

/// The place of an encoded version. These are all that is in memory of it.
struct VersionPlace {
    revision: i64,
    sub: u32,
    len: u32,
    offset: u64,
}

impl SnapshotFile {
    /// Begins a snapshot in a folder.
    pub(super) fn begin(dir: &Path, compacted: i64) -> Result<Self, FileError> {
        Ok(SnapshotFile {
            state: StateWriter::new(BufWriter::new(nameless(dir, NAME)?))?,
            compacted,
            older: OlderVersions {
                out: BufWriter::new(nameless(dir, OLDER_NAME)?),
                places: Vec::new(),
                bytes: 0,
            },
        })
    }

    /// Adds a version, which is behind all before it unless it is older than the compacted revision.
    pub(super) fn add(&mut self, version: ExportedVersion) -> Result<(), FileError> {
        let revision = revision(version.revision, version.sub);
        if version.revision < self.compacted {
            return Ok(self.older.add(&version)?);
        }
        self.add_older()?;
        self.state.key(revision, version.is_deletion, &version.kv)
    }

    /// Ends the snapshot; says how many bytes it has.
    pub(super) fn finish(mut self, rest: &StateRest) -> Result<(File, u64), FileError> {
        self.add_older()?;
        let (out, bytes) = self.state.finish(rest)?;
        let out = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((out, bytes))
    }

    /// Writes the older versions, once all of them are known.
    fn add_older(&mut self) -> Result<(), FileError> {
        if self.older.places.is_empty() {
            return Ok(());
        }
        let mut places = std::mem::take(&mut self.older.places);
        places.sort_unstable_by_key(|place| (place.revision, place.sub));
        self.older.out.flush()?;
        let mut bytes = Vec::new();
        for place in places {
            bytes.resize(place.len as usize, 0);
            self.older
                .out
                .get_ref()
                .read_exact_at(&mut bytes, place.offset)?;
            let kv = KeyValue::decode(&bytes[..]).map_err(io::Error::other)?;
            self.state
                .key(revision(place.revision, place.sub), false, &kv)?;
        }
        // Its room on the disk is free again.
        self.older.out.get_ref().set_len(0)?;
        Ok(())
    }
}

impl OlderVersions {
    fn add(&mut self, version: &ExportedVersion) -> io::Result<()> {
        let bytes = version.kv.encode_to_vec();
        self.out.write_all(&bytes)?;
        self.places.push(VersionPlace {
            revision: version.revision,
            sub: version.sub,
            len: u32::try_from(bytes.len()).map_err(io::Error::other)?,
            offset: self.bytes,
        });
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn revision(main: i64, sub: u32) -> Revision {
    let sub = sub.into();
    Revision { main, sub }
}

/// Makes a file that has no name any more: it is gone once it is closed.
fn nameless(dir: &Path, name: &str) -> io::Result<File> {
    let path = dir.join(name);
    // A crash in between may have left one, with nothing in it.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_etcd_snapshot::{FileSource, StateReader};

    fn version(revision: i64, sub: u32, is_deletion: bool) -> ExportedVersion {
        ExportedVersion {
            revision,
            sub,
            is_deletion,
            kv: KeyValue {
                key: Bytes::from(format!("{revision}/{sub}")),
                mod_revision: revision,
                ..KeyValue::default()
            },
        }
    }

    #[test]
    fn older_versions_are_sorted_and_nothing_is_left_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let added = [(7, 0), (2, 1), (5, 0), (2, 0), (9, 0), (9, 1), (12, 0)];
        for left in ["", NAME] {
            if !left.is_empty() {
                fs::write(dir.path().join(left), "left by a crash").unwrap();
            }
            let mut file = SnapshotFile::begin(dir.path(), 9).unwrap();
            for (revision, sub) in added {
                file.add(version(revision, sub, revision == 12)).unwrap();
            }
            let (file, bytes) = file.finish(&StateRest::default()).unwrap();
            assert_eq!(file.metadata().unwrap().len(), bytes);
            let reader = StateReader::open(FileSource::new(file).unwrap()).unwrap();
            let mut found = Vec::new();
            let each = reader.each_key(|record| {
                let Revision { main, sub } = record.revision;
                assert_eq!(record.kv.key, format!("{main}/{sub}"));
                found.push((main, sub, record.is_deletion));
                Ok::<_, FileError>(())
            });
            each.unwrap();
            let mut expected = added.map(|(main, sub)| (main, i64::from(sub), main == 12));
            expected.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
