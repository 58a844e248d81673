//! Where bytes are read from.

use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read from any place on.
pub trait Source {
    /// How many bytes there are.
    fn bytes(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// What the operating system says, or that there are not so many.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// A file, or the first part of one.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    bytes: u64,
}

impl FileSource {
    /// The whole of a file, as long as it is now.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(FileSource { file, bytes })
    }
}

impl Source for FileSource {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
}

impl Source for Bytes {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let part = from.and_then(|from| self.get(from..from.checked_add(out.len())?));
        let part = part.ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(part);
        Ok(())
    }
}
