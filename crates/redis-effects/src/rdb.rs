//! RDB files: where their bytes are, and at which offset of the stream they were taken.

use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// The offset at which every stream begins.
pub const GENESIS_OFFSET: u64 = 1;

/// An RDB that nobody changes any more. It goes when nobody holds it.
pub trait Rdb: Send + Sync {
    /// The length of the file, in bytes.
    fn len(&self) -> u64;

    /// Whether there is nothing in the file.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to so many bytes from an offset on; fewer only at the end.
    ///
    /// # Errors
    /// What the disk says.
    fn read(&self, offset: u64, bytes: usize) -> Result<Bytes, String>;

    /// Where the file is, if it is one.
    fn place(&self) -> Option<PathBuf> {
        None
    }
}

/// Where RDBs of snapshots are written.
pub trait Files: Send + Sync {
    /// A new file that nobody else uses.
    ///
    /// # Errors
    /// What the disk says.
    fn create(&self) -> Result<Box<dyn RdbWriter>, String>;
}

/// An RDB that is being written.
pub trait RdbWriter: Send {
    /// Appends bytes to the file.
    ///
    /// # Errors
    /// What the disk says.
    fn write(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// The file is complete.
    ///
    /// # Errors
    /// What the disk says.
    fn finish(self: Box<Self>) -> Result<Arc<dyn Rdb>, String>;
}

/// An RDB in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryRdb(pub Bytes);

impl Rdb for MemoryRdb {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Bytes, String> {
        let from = usize::try_from(offset).map_or(self.0.len(), |from| from.min(self.0.len()));
        let to = from.saturating_add(bytes).min(self.0.len());
        Ok(self.0.slice(from..to))
    }
}

/// Files in memory, for tests and groups without a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFiles;

impl Files for MemoryFiles {
    fn create(&self) -> Result<Box<dyn RdbWriter>, String> {
        Ok(Box::new(MemoryWriter::default()))
    }
}

#[derive(Default)]
struct MemoryWriter(Vec<u8>);

impl RdbWriter for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Arc<dyn Rdb>, String> {
        Ok(Arc::new(MemoryRdb(self.0.into())))
    }
}

const AUX: u8 = 0xFA;
const END: u8 = 0xFF;

/// Bytes of a file in which its offset is looked for: what a server tells of itself stands at the beginning.
pub(crate) const HEAD_BYTES: usize = 4096;

/// An RDB without keys at [`GENESIS_OFFSET`], which every supported server loads: a server begins with it as the
/// replica of a stream of which it has nothing yet.
#[must_use]
pub fn genesis(stream_id: &str) -> MemoryRdb {
    let mut out = b"REDIS0009".to_vec();
    let offset = GENESIS_OFFSET.to_string();
    let fields = [
        ("repl-stream-db", "0"),
        ("repl-id", stream_id),
        ("repl-offset", &offset),
    ];
    for (name, value) in fields {
        out.push(AUX);
        for text in [name, value] {
            debug_assert!(text.len() < 64, "one byte for the length");
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out.push(END);
    // No checksum.
    out.extend_from_slice(&[0; 8]);
    MemoryRdb(out.into())
}

/// The offset at which an RDB was taken, as its first fields tell it.
#[must_use]
pub fn offset_of(rdb: &dyn Rdb) -> Option<u64> {
    let head = rdb.read(0, HEAD_BYTES).ok()?;
    let magic = head.get(..9)?;
    if !(magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY")) {
        return None;
    }
    let mut rest = &head[9..];
    while let Some((&AUX, fields)) = rest.split_first() {
        let (name, fields) = text(fields)?;
        let (value, fields) = text(fields)?;
        if name == "repl-offset" {
            return value.parse().ok();
        }
        rest = fields;
    }
    None
}

/// A string at the beginning of these bytes as text, which servers write as an integer where it is one.
fn text(input: &[u8]) -> Option<(String, &[u8])> {
    let (&head, rest) = input.split_first()?;
    let (length, rest) = match (head >> 6, head & 0x3f) {
        (0, length) => (usize::from(length), rest),
        (1, high) => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(high) << 8 | usize::from(low), rest)
        }
        (3, kind @ 0..=2) => {
            let bytes = 1 << kind;
            let (digits, rest) = rest.split_at_checked(bytes)?;
            let mut wide = [if digits[bytes - 1] & 0x80 == 0 {
                0
            } else {
                0xff
            }; 8];
            wide[..bytes].copy_from_slice(digits);
            let number = i64::from_le_bytes(wide).to_string();
            return Some((number, rest));
        }
        _ => return None,
    };
    let (bytes, rest) = rest.split_at_checked(length)?;
    Some((String::from_utf8_lossy(bytes).into_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rdb_says_where_the_stream_begins() {
        let first = genesis(&"a".repeat(40));
        assert_eq!(offset_of(&first), Some(GENESIS_OFFSET));
    }

    #[test]
    fn offsets_are_read_as_text_and_as_integers_of_every_width() {
        let with = |value: &[u8]| {
            let mut file = b"VALKEY080\xfa\x05redis\xc0\x07\xfa\x0brepl-offset".to_vec();
            file.extend_from_slice(value);
            file.push(END);
            offset_of(&MemoryRdb(file.into()))
        };
        assert_eq!(with(b"\x0212"), Some(12));
        assert_eq!(with(b"\xc0\x11"), Some(17));
        assert_eq!(with(b"\xc1\x01\x01"), Some(257));
        assert_eq!(with(b"\xc2\x00\x00\x01\x00"), Some(65_536));
        assert_eq!(with(b"\xc0\xff"), None, "negative");
        assert_eq!(with(b"\x03"), None, "cut off");
    }
}
