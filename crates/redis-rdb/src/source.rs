//! The bytes of a file, of which the length is known, and what lengths and strings among them say.

use crate::error::Fault;
use crate::{SUM_BYTES, digest, lzf};
use bytes::Bytes;
use std::io::Read;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest string that a server writes, in bytes.
const STRING_BYTES_MAX: u64 = 512 << 20;

/// The bytes of a file before its checksum, each read once.
pub(crate) struct Source<R> {
    from: R,
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
    /// Bytes that are not in the buffer yet.
    unread: u64,
    /// Bytes that were taken.
    at: u64,
    sum: crc_fast::Digest,
}

/// A length, or a number in the place of a string.
enum Head {
    Length(u64),
    Number(i64),
    Compressed,
}

impl<R: Read> Source<R> {
    /// A file of so many bytes, its checksum among them.
    pub(crate) fn new(from: R, bytes: u64) -> Source<R> {
        Source {
            from,
            buffer: Vec::new(),
            taken: 0,
            unread: bytes.saturating_sub(SUM_BYTES),
            at: 0,
            sum: digest(),
        }
    }

    /// The number of bytes that were taken.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The number of bytes that were not taken yet, without the checksum.
    pub(crate) fn left(&self) -> u64 {
        self.unread + (self.buffer.len() - self.taken) as u64
    }

    /// Reads more into the buffer, of which nothing is left.
    fn fill(&mut self) -> Result<(), Fault> {
        let bytes = self.unread.min(BUFFER_BYTES as u64) as usize;
        if bytes == 0 {
            return Err(Fault::Short);
        }
        self.buffer.resize(bytes, 0);
        self.taken = 0;
        let read = self.from.read_exact(&mut self.buffer);
        if read.is_err() {
            self.buffer.clear();
        }
        read?;
        self.unread -= bytes as u64;
        self.sum.update(&self.buffer);
        Ok(())
    }

    /// Up to so many bytes, at least one.
    pub(crate) fn some(&mut self, bytes_max: usize) -> Result<&[u8], Fault> {
        if self.taken == self.buffer.len() {
            self.fill()?;
        }
        let from = self.taken;
        self.taken = self.buffer.len().min(from.saturating_add(bytes_max));
        self.at += (self.taken - from) as u64;
        Ok(&self.buffer[from..self.taken])
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.some(1)?[0])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            let some = self.some(N - filled)?;
            array[filled..filled + some.len()].copy_from_slice(some);
            filled += some.len();
        }
        Ok(array)
    }

    /// A given number of bytes, if the file has them.
    pub(crate) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, Fault> {
        if length > self.left() {
            return Err(Fault::Short);
        }
        if length > STRING_BYTES_MAX {
            return Err(Fault::Damaged("a string longer than 512 MiB"));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        while bytes.len() < length as usize {
            let left = length as usize - bytes.len();
            bytes.extend_from_slice(self.some(left)?);
        }
        Ok(bytes)
    }

    /// A number of things, each of which takes a byte at least.
    pub(crate) fn count(&mut self) -> Result<usize, Fault> {
        let count = self.length()?;
        match usize::try_from(count) {
            Ok(found) if count <= self.left() => Ok(found),
            _ => Err(Fault::Short),
        }
    }

    pub(crate) fn length(&mut self) -> Result<u64, Fault> {
        match self.head()? {
            Head::Length(length) => Ok(length),
            Head::Number(_) | Head::Compressed => {
                Err(Fault::Damaged("a string where a length belongs"))
            }
        }
    }

    fn head(&mut self) -> Result<Head, Fault> {
        let first = self.byte()?;
        Ok(match (first >> 6, first & 0x3f) {
            (0, length) => Head::Length(u64::from(length)),
            (1, high) => Head::Length(u64::from(high) << 8 | u64::from(self.byte()?)),
            (2, 0) => Head::Length(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 1) => Head::Length(u64::from_be_bytes(self.array()?)),
            (3, 0) => Head::Number(i64::from(i8::from_le_bytes(self.array()?))),
            (3, 1) => Head::Number(i64::from(i16::from_le_bytes(self.array()?))),
            (3, 2) => Head::Number(i64::from(i32::from_le_bytes(self.array()?))),
            (3, 3) => Head::Compressed,
            _ => return Err(Fault::Damaged("no length")),
        })
    }

    /// A string, in whichever way it is written.
    pub(crate) fn string(&mut self) -> Result<Bytes, Fault> {
        match self.head()? {
            Head::Length(length) => Ok(self.bytes(length)?.into()),
            Head::Number(number) => Ok(number.to_string().into()),
            Head::Compressed => {
                let (short, long) = (self.length()?, self.length()?);
                let compressed = self.bytes(short)?;
                let length = usize::try_from(long)
                    .ok()
                    .filter(|_| long <= STRING_BYTES_MAX);
                let text = length.and_then(|length| lzf::decompress(&compressed, length));
                text.map(Bytes::from)
                    .ok_or(Fault::Damaged("a compressed string"))
            }
        }
    }

    /// Reads the checksum, behind the last byte, and compares it. One of zero says that there is none.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        if self.left() > 0 {
            return Err(Fault::Damaged("more bytes behind its end"));
        }
        let mut stored = [0; SUM_BYTES as usize];
        self.from.read_exact(&mut stored)?;
        match u64::from_le_bytes(stored) {
            0 => Ok(()),
            stored if stored == self.sum.finalize() => Ok(()),
            _ => Err(Fault::Checksum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        let mut sum = digest();
        sum.update(b"123456789");
        assert_eq!(sum.finalize(), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn lengths_reach_no_further_than_the_file() {
        for (bytes, length) in [
            (&b"\x05"[..], Some(5)),
            (b"\x41\x00", Some(256)),
            (b"\x80\x00\x01\x00\x00", Some(65_536)),
            (b"\x81\x00\x00\x00\x01\x00\x00\x00\x00", Some(1 << 32)),
            (b"\x82", None),
            (b"\x80\x00", None),
            (b"\xc0\x01", None),
        ] {
            let file = [bytes, &[0; 8]].concat();
            let mut source = Source::new(&file[..], file.len() as u64);
            assert_eq!(source.length().ok(), length, "{bytes:?}");
        }
        let file = [&b"\x81\x00\x00\x00\xff\x00\x00\x00\x00a"[..], &[0; 8]].concat();
        let mut source = Source::new(&file[..], file.len() as u64);
        assert!(matches!(source.string(), Err(Fault::Short)));
    }
}
