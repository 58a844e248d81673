//! Segments: changes behind each other.
//!
//! A segment begins with `magic | first revision u64 | checksum of both u32`. Each record is `length u32 | checksum of
//! the change u32 | checksum of both u32 | a [`Change`]`; numbers are little-endian, checksums CRC-32C. Each revision
//! is one more than the one before.

use crate::error::BackupError;
use crate::files::sync_folder_of;
use crc_fast::{CrcAlgorithm, checksum};
use prost::Message;
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_snapshot::LeaseRecord;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"QBACKUP1";
const HEADER_BYTES: usize = 20;
/// The length and the checksums before a record.
const HEAD_BYTES: usize = 12;
/// Bytes that gather before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Everything that one revision changed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Change {
    /// When the backup received it.
    #[prost(uint64, tag = "1")]
    pub time_ms: u64,
    /// The revision that did it.
    #[prost(int64, tag = "2")]
    pub revision: i64,
    /// What happened to keys, in the order in which it did.
    #[prost(message, repeated, tag = "3")]
    pub events: Vec<Event>,
    /// The leases that keys of this revision were bound to, where no earlier change of the segment has told of them.
    #[prost(message, repeated, tag = "4")]
    pub leases: Vec<LeaseRecord>,
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A segment that grows.
#[derive(Debug)]
pub struct SegmentWriter {
    path: PathBuf,
    out: BufWriter<File>,
    next: i64,
    bytes: u64,
    body: Vec<u8>,
}

impl SegmentWriter {
    /// Begins a segment with the change of the revision `first`. What is not synced may be lost with the machine.
    pub(crate) fn create(path: &Path, first: i64) -> Result<SegmentWriter, BackupError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file.map_err(BackupError::of(path))?);
        let header = header(first);
        // Whoever reads meanwhile finds a segment.
        let written = out.write_all(&header).and_then(|()| out.flush());
        written.map_err(BackupError::of(path))?;
        sync_folder_of(path)?;
        Ok(SegmentWriter {
            path: path.to_owned(),
            out,
            next: first,
            bytes: header.len() as u64,
            body: Vec::new(),
        })
    }

    /// Adds the next change.
    ///
    /// # Errors
    /// That it is not the next, or what the operating system says; then the segment is at its end, wherever that is.
    pub fn append(&mut self, change: &Change) -> Result<(), BackupError> {
        if change.revision != self.next {
            let (next, got) = (self.next, change.revision);
            let what = format!("revision {next} comes next, and the cluster told of {got}");
            return Err(BackupError::new(&self.path, what));
        }
        self.body.clear();
        change
            .encode(&mut self.body)
            .expect("a vector takes everything");
        let length = u32::try_from(self.body.len())
            .map_err(|_| BackupError::new(&self.path, "a change of 4 GiB does not fit"))?;
        let head = head(length, crc(&self.body));
        let written = self
            .out
            .write_all(&head)
            .and_then(|()| self.out.write_all(&self.body));
        written.map_err(BackupError::of(&self.path))?;
        self.bytes += (HEAD_BYTES + self.body.len()) as u64;
        self.next += 1;
        Ok(())
    }

    /// Has everything so far survive a crash of the machine.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&mut self) -> Result<(), BackupError> {
        let flushed = self.out.flush();
        let synced = flushed.and_then(|()| self.out.get_ref().sync_data());
        synced.map_err(BackupError::of(&self.path))
    }

    /// The revision that comes next.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.next
    }

    /// How long the segment is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn header(first: i64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&first.to_le_bytes());
    let crc = crc(&header[..16]);
    header[16..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn head(length: u32, body: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&body.to_le_bytes());
    let crc = crc(&head[..8]);
    head[8..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// A segment that is read.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    path: PathBuf,
    input: BufReader<File>,
    /// The bytes that were not read.
    left: u64,
    next: i64,
    is_torn: bool,
}

impl SegmentReader {
    /// Opens the segment that is to begin with the revision `first`.
    pub(crate) fn open(path: &Path, first: i64) -> Result<SegmentReader, BackupError> {
        let file = File::open(path).map_err(BackupError::of(path))?;
        let left = file.metadata().map_err(BackupError::of(path))?.len();
        let mut reader = SegmentReader {
            path: path.to_owned(),
            input: BufReader::with_capacity(BUFFER_BYTES, file),
            left,
            next: first,
            is_torn: false,
        };
        let mut found = [0; HEADER_BYTES];
        reader.is_torn = !reader.fill(&mut found)?;
        if !reader.is_torn && found != header(first) {
            return Err(BackupError::new(
                path,
                "it does not begin as a segment of changes of its name does: it is damaged, or another file",
            ));
        }
        Ok(reader)
    }

    /// The next change; `None` at the end, or where the rest was never written whole.
    pub(crate) fn next_change(&mut self) -> Result<Option<Change>, BackupError> {
        let mut found = [0; HEAD_BYTES];
        if self.is_torn || self.left == 0 {
            return Ok(None);
        }
        if !self.fill(&mut found)? {
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h, ..] = found;
        let (length, of_body) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        if found != head(length, of_body) {
            return self.torn_or_damaged();
        }
        // Never more memory than the file is long.
        if u64::from(length) > self.left {
            self.is_torn = true;
            return Ok(None);
        }
        let mut body = vec![0; length as usize];
        self.fill(&mut body)?;
        if crc(&body) != of_body {
            return self.torn_or_damaged();
        }
        let change = Change::decode(&body[..]).map_err(|_| self.damaged("it cannot be read"))?;
        if change.revision != self.next {
            return Err(self.damaged(&format!("it is of revision {}", change.revision)));
        }
        self.next += 1;
        Ok(Some(change))
    }

    /// The revision after the last change that was read.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// Whether the end was found in the middle of a record.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    fn damaged(&self, what: &str) -> BackupError {
        let next = self.next;
        BackupError::new(
            &self.path,
            format!("the record of revision {next} is damaged: {what}"),
        )
    }

    /// Reads so many bytes; false if there are fewer, which ends the segment.
    fn fill(&mut self, out: &mut [u8]) -> Result<bool, BackupError> {
        if self.left < out.len() as u64 {
            self.is_torn = true;
            return Ok(false);
        }
        let read = self.input.read_exact(out);
        read.map_err(BackupError::of(&self.path))?;
        self.left -= out.len() as u64;
        Ok(true)
    }

    /// What a wrong checksum means: a crash leaves bytes that were never written as zeros, at the end alone.
    fn torn_or_damaged(&mut self) -> Result<Option<Change>, BackupError> {
        if !self.is_rest_zero()? {
            return Err(self.damaged("its checksum is wrong"));
        }
        self.is_torn = true;
        Ok(None)
    }

    fn is_rest_zero(&mut self) -> Result<bool, BackupError> {
        let mut part = [0; 4096];
        loop {
            let read = match self.input.read(&mut part) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(BackupError::of(&self.path))?,
            };
            if read == 0 {
                return Ok(true);
            }
            if part[..read].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
    }
}
