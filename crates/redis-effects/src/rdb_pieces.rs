//! An RDB as pieces of a snapshot, given and taken.

use crate::rdb::{Files, Rdb, RdbWriter};
use bytes::Bytes;
use quorate_core::Encoder;
use std::fmt;
use std::sync::Arc;

/// A piece of a snapshot: one byte for its kind, and its bytes.
pub(crate) fn tagged(kind: u8, bytes: &[u8]) -> Bytes {
    let mut piece = Encoder::with_capacity(1 + bytes.len());
    piece.u8(kind);
    piece.slice(bytes);
    piece.into_bytes()
}

/// An RDB that is given piece by piece.
pub struct RdbPieces {
    rdb: Arc<dyn Rdb>,
    given: u64,
}

impl RdbPieces {
    /// All pieces of an RDB.
    #[must_use]
    pub fn new(rdb: Arc<dyn Rdb>) -> Self {
        RdbPieces { rdb, given: 0 }
    }

    /// Up to so many bytes of the RDB behind one for their kind; `None` once all were given. Where the RDB cannot be
    /// read at present, an empty piece: it is tried again.
    pub fn next_piece(&mut self, kind: u8, bytes: usize) -> Option<Bytes> {
        if self.given >= self.rdb.len() {
            return None;
        }
        let read = self.rdb.read(self.given, bytes).unwrap_or_default();
        self.given += read.len() as u64;
        Some(match read.is_empty() {
            true => read,
            false => tagged(kind, &read),
        })
    }
}

impl fmt::Debug for RdbPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdbPieces")
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

/// An RDB that comes piece by piece, without the bytes for their kinds.
#[derive(Default)]
pub struct RdbLoading {
    left: u64,
    writer: Option<Box<dyn RdbWriter>>,
    rdb: Option<Arc<dyn Rdb>>,
}

impl RdbLoading {
    /// Begins a new file, of which this many bytes are to come.
    ///
    /// # Errors
    /// What the disk says.
    pub fn begin(&mut self, bytes: u64, files: &dyn Files) -> Result<(), String> {
        self.left = bytes;
        self.writer = Some(files.create()?);
        Ok(())
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes, at most [`RdbLoading::left`].
    ///
    /// # Errors
    /// What the disk says.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.left -= bytes.len() as u64;
        self.writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.write(bytes))
    }

    /// All bytes were there.
    ///
    /// # Errors
    /// What the disk says.
    pub fn finish(&mut self) -> Result<(), String> {
        if let Some(writer) = self.writer.take() {
            self.rdb = Some(writer.finish()?);
        }
        Ok(())
    }

    /// The file, once it is finished.
    #[must_use]
    pub fn rdb(&self) -> Option<&Arc<dyn Rdb>> {
        self.rdb.as_ref()
    }
}

impl fmt::Debug for RdbLoading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdbLoading")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
