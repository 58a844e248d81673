//! Files in the plain forms, which every version since Redis 5.0 loads.

use crate::{AUX, END, digest};
use std::io::{self, Write};

/// The format: that of Redis 5.0.
const HEAD: &[u8] = b"REDIS0009";
/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A string: one text.
    Str,
    /// A list: a count, and as many texts.
    List,
    /// A set: a count, and as many texts.
    Set,
    /// A hash: a count, and twice as many texts.
    Hash,
    /// A sorted set: a count, and as many texts, each with a score behind it.
    Sorted,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Str => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::Hash => 4,
            Kind::Sorted => 5,
        }
    }
}

/// Writes a file once.
pub struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    sum: crc_fast::Digest,
}

impl<W> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file, with fields that say something of it.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn new(out: W, fields: &[(&str, &str)]) -> io::Result<Writer<W>> {
        let mut writer = Writer::begin(out, HEAD)?;
        for (name, value) in fields {
            writer.field(name.as_bytes(), value.as_bytes())?;
        }
        Ok(writer)
    }

    /// Begins a file of any format.
    pub(crate) fn begin(out: W, head: &[u8]) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            sum: digest(),
        };
        writer.put(head)?;
        Ok(writer)
    }

    /// What the file says of itself.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.put(&[AUX])?;
        self.text(name)?;
        self.text(value)
    }

    /// Begins a database, of which so many keys and ends follow.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn database(&mut self, db: u64, keys: u64, ends: u64) -> io::Result<()> {
        self.put(&[0xFE])?;
        self.length(db)?;
        self.put(&[0xFB])?;
        self.length(keys)?;
        self.length(ends)
    }

    /// Begins a key, whose value of this kind follows.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn key(&mut self, name: &[u8], expires_ms: Option<u64>, kind: Kind) -> io::Result<()> {
        if let Some(end) = expires_ms {
            self.put(&[0xFC])?;
            self.put(&end.to_le_bytes())?;
        }
        self.put(&[kind.number()])?;
        self.text(name)
    }

    /// Writes a count of elements.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match length {
            0..0x40 => self.put(&[length as u8]),
            0x40..0x4000 => self.put(&[0x40 | (length >> 8) as u8, length as u8]),
            0x4000..=0xffff_ffff => {
                self.put(&[0x80])?;
                self.put(&(length as u32).to_be_bytes())
            }
            _ => {
                self.put(&[0x81])?;
                self.put(&length.to_be_bytes())
            }
        }
    }

    /// Writes a text.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.length(text.len() as u64)?;
        self.put(text)
    }

    /// Writes a score.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn score(&mut self, score: f64) -> io::Result<()> {
        self.put(&score.to_le_bytes())
    }

    /// Ends the file; what was written to is given back.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(&[END])?;
        self.end()
    }

    /// Writes the checksum behind the last byte.
    pub(crate) fn end(mut self) -> io::Result<W> {
        self.flush()?;
        self.out.write_all(&self.sum.finalize().to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.sum.update(bytes);
            return self.out.write_all(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sum.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
