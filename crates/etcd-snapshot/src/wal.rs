//! etcd's write-ahead log: how far it goes.
//!
//! A folder of files, named after the first entry of each. A file is a run of frames: 8 bytes, little-endian, whose
//! lower 56 bits are the length of a record and whose highest byte is that of the padding behind it; then the
//! record. Its checksum is over the data of all records so far; the first record of a file says where it stood. Room
//! that was only set aside is zeros. What was being written during a crash is torn, at the end of the last file.

use crate::error::FileError;
use bytes::{Buf, Bytes};
use crc_fast::{CrcAlgorithm, Digest};
use prost::Message;
use std::path::{Path, PathBuf};

const FRAME_BYTES: usize = 8;
const LENGTH_BITS: u32 = 56;
/// Says that the lower bits beside it are the length of a padding.
const PADDED: u8 = 0x80;
const ENTRY: i64 = 2;
const STATE: i64 = 3;
const CHECKSUM: i64 = 4;

/// How far a log goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WalEnd {
    /// The last entry; 0 if there is none.
    pub last: u64,
    /// The last entry that is noted as decided.
    pub committed: u64,
}

/// A record of the log (`walpb.Record`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct WalRecord {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(uint32, tag = "2")]
    checksum: u32,
    #[prost(bytes = "bytes", tag = "3")]
    data: Bytes,
}

/// What counts here of an entry (`raftpb.Entry`).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct EntryHead {
    #[prost(uint64, tag = "3")]
    index: u64,
}

/// What counts here of a member's state (`raftpb.HardState`).
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct HardState {
    #[prost(uint64, tag = "3")]
    commit: u64,
}

/// Reads the log in a folder.
///
/// # Errors
/// What the operating system says, or what is damaged before the end.
pub fn read_end(dir: &Path) -> Result<WalEnd, FileError> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut scan = Scan::default();
    for (at, path) in paths.iter().enumerate() {
        let bytes = Bytes::from(std::fs::read(path)?);
        let is_last = at + 1 == paths.len();
        scan.file(bytes, is_last).map_err(|why| match why {
            FileError::Damaged(what) => FileError::Damaged(format!("{}: {what}", path.display())),
            FileError::Io(error) => FileError::Io(error),
        })?;
    }
    Ok(scan.end)
}

/// A log of which some files were read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Scan {
    pub(crate) end: WalEnd,
    /// The checksum so far.
    checksum: u32,
}

impl Scan {
    /// Reads the next file. Only the last one may end in the middle of a record.
    pub(crate) fn file(&mut self, mut rest: Bytes, is_last: bool) -> Result<(), FileError> {
        let whole = rest.len();
        while rest.len() >= FRAME_BYTES {
            let at = whole - rest.len();
            let frame = rest.get_u64_le();
            if frame == 0 {
                return Ok(());
            }
            let length = (frame & ((1 << LENGTH_BITS) - 1)) as usize;
            let top = (frame >> LENGTH_BITS) as u8;
            let padding = if top & PADDED == 0 {
                0
            } else {
                usize::from(top & 7)
            };
            let record = (length <= rest.len()).then(|| rest.split_to(length));
            rest.advance(padding.min(rest.len()));
            let record = record.and_then(|bytes| WalRecord::decode(bytes).ok());
            match record.filter(|record| self.is_whole(record)) {
                Some(record) => self.take(&record),
                None if is_last => return Ok(()),
                None => {
                    let what = format!("the record at byte {at} is damaged");
                    return Err(FileError::Damaged(what));
                }
            }
        }
        Ok(())
    }

    /// Checks a record's checksum, and goes on from it.
    fn is_whole(&mut self, record: &WalRecord) -> bool {
        if record.kind == CHECKSUM {
            // It repeats how the file before ended; the first file begins at 0.
            let is_right = self.checksum == 0 || self.checksum == record.checksum;
            self.checksum = record.checksum;
            return is_right;
        }
        let checksum = crc32c_on(self.checksum, &record.data);
        let is_right = checksum == record.checksum;
        if is_right {
            self.checksum = checksum;
        }
        is_right
    }

    fn take(&mut self, record: &WalRecord) {
        match record.kind {
            ENTRY => {
                // A later entry of a lower index takes the place of those from there on.
                if let Ok(entry) = EntryHead::decode(record.data.clone()) {
                    self.end.last = entry.index;
                }
            }
            STATE => {
                if let Ok(state) = HardState::decode(record.data.clone()) {
                    self.end.committed = state.commit;
                }
            }
            _ => {}
        }
    }
}

/// The CRC-32C of what `before` is of, and these bytes behind it.
fn crc32c_on(before: u32, bytes: &[u8]) -> u32 {
    let state = u64::from(!before);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bytes::BufMut;

    /// A file of a log that goes on from a checksum: its bytes, and the checksum behind it.
    pub(crate) fn file(mut checksum: u32, records: &[(i64, Vec<u8>)]) -> (Vec<u8>, u32) {
        let mut out = Vec::new();
        for (kind, data) in records {
            if *kind != CHECKSUM {
                checksum = crc32c_on(checksum, data);
            }
            let record = WalRecord {
                kind: *kind,
                checksum,
                data: data.clone().into(),
            };
            let bytes = record.encode_to_vec();
            let padding = (8 - bytes.len() % 8) % 8;
            let top = if padding == 0 {
                0
            } else {
                PADDED | padding as u8
            };
            out.put_u64_le(bytes.len() as u64 | u64::from(top) << LENGTH_BITS);
            out.put_slice(&bytes);
            out.put_bytes(0, padding);
        }
        (out, checksum)
    }

    pub(crate) fn entry(index: u64) -> (i64, Vec<u8>) {
        (ENTRY, EntryHead { index }.encode_to_vec())
    }

    pub(crate) fn state(commit: u64) -> (i64, Vec<u8>) {
        (STATE, HardState { commit }.encode_to_vec())
    }

    pub(crate) fn seal() -> (i64, Vec<u8>) {
        (CHECKSUM, Vec::new())
    }

    #[test]
    fn checksums_of_parts_come_to_that_of_the_whole() {
        let whole = crc_fast::crc32_iscsi(b"one two");
        assert_eq!(crc32c_on(crc32c_on(0, b"one"), b" two"), whole);
    }

    #[test]
    fn the_end_is_found_over_files_room_set_aside_and_a_torn_record() {
        let (mut first, checksum) = file(0, &[seal(), entry(4), state(4), entry(5)]);
        first.resize(first.len() + 512, 0);
        let (second, _) = file(checksum, &[seal(), entry(6), entry(7), state(6), entry(6)]);
        let read = |second: &[u8], is_last| {
            let mut scan = Scan::default();
            scan.file(first.clone().into(), false).unwrap();
            scan.file(second.to_vec().into(), is_last)
                .map(|()| scan.end)
        };
        let (last, committed) = (6, 6);
        assert_eq!(read(&second, true).unwrap(), WalEnd { last, committed });
        let torn = &second[..second.len() - 9];
        let last = 7;
        assert_eq!(read(torn, true).unwrap(), WalEnd { last, committed });
        assert!(
            read(torn, false)
                .unwrap_err()
                .to_string()
                .contains("damaged")
        );
        let mut wrong = second.clone();
        wrong[30] ^= 1;
        assert!(read(&wrong, false).is_err());
    }
}
