//! The log: segments of checksummed records, without any I/O.
//!
//! The byte format is drawn in `docs/reference/log-format.md`. Three ideas carry it:
//!
//! - A record's checksum covers its place (segment number and offset) and the ordinal of the boot
//!   that wrote it, so that a misdirected write, a recycled segment's old content and the remains
//!   of a cut tail are all told from a record that belongs.
//! - Behind each synced flush a *mark* is written, itself unsynced, naming how far the log is
//!   durable. It reaches the disk with the next flush at the latest.
//! - Where reading meets a record that is not valid, a mark that names a later position proves
//!   that acknowledged records are damaged: a gap, behind which reading goes on. Without one, the
//!   rest was never acknowledged: a torn tail, which is cut.

mod format;
#[cfg(test)]
pub(crate) mod fuzz;
mod rest;
mod scan;
mod writer;
mod writes;

pub(crate) use format::{
    ALIGN, BULK_MAGIC, Identity, Kind, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
    crc32c, decode_mark, decode_record, encode_release, padded,
};
pub(crate) use scan::{FoundRecord, Gap, Piece, Scanned, refuse, scan};
pub(crate) use writer::{Beside, LogWriter, Tail};
pub(crate) use writes::{Unsynced, Writes, bytes_of};

use crate::position::Position;
use bytes::Bytes;
use quorate_core::Slot;
use std::io;

/// Where log and snapshots are read from when a host is opened.
pub trait LogSource {
    /// The numbers of the segments that exist, in any order.
    fn list(&mut self) -> io::Result<Vec<u64>>;
    /// The whole content of one segment.
    fn read(&mut self, segment: u64) -> io::Result<Bytes>;
    /// The slots and lengths in bytes of the snapshots that were stored, in any order. Unfinished
    /// ones are not among them; the driver deletes those before.
    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>>;
    /// A part of a snapshot; shorter only at its end.
    fn read_snapshot(&mut self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes>;
    /// The numbers of the fragment store's segments and the lengths of their files in bytes, in any
    /// order. None, where no payloads are stored.
    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        Ok(Vec::new())
    }
    /// Whether there is no fragment store, not even one that holds nothing, where a replica that runs has one.
    fn lacks_fragment_store(&self) -> bool {
        false
    }
    /// A part of a segment of the fragment store, which lies within its file.
    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let _ = (at, len);
        Err(io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests;
