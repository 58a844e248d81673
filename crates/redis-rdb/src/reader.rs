//! A file from its beginning to its end, key by key.

use crate::error::{Fault, RdbError};
use crate::source::Source;
use crate::value::{self, Value};
use crate::{AUX, END};
use bytes::Bytes;
use std::io::Read;

/// The newest formats that are read, by the words that files begin with.
const NEWEST: [(&str, u32); 2] = [("REDIS", 12), ("VALKEY", 80)];
/// The first format with a checksum.
const OLDEST: u32 = 5;
/// The bytes before the first field: a word and a number, nine in all.
const HEAD_BYTES: usize = 9;

/// A key, its database and its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// The number of its database.
    pub db: u64,
    /// The name of the key.
    pub name: Bytes,
    /// The last millisecond of its life since the Unix epoch, if it has an end.
    pub expires_ms: Option<u64>,
    /// The value of the key.
    pub value: Value,
}

/// What a file holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// A key and its value.
    Key(Key),
    /// The text of a library of functions.
    Functions(Bytes),
}

/// Reads a file once.
pub struct Reader<R> {
    source: Source<R>,
    db: u64,
    is_over: bool,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read a file of so many bytes.
    ///
    /// # Errors
    /// When it is no RDB, or in a format that is not known.
    pub fn new(from: R, bytes: u64) -> Result<Reader<R>, RdbError> {
        let mut source = Source::new(from, bytes);
        let head = head(&mut source);
        let reader = Reader {
            source,
            db: 0,
            is_over: false,
        };
        match head {
            Ok(()) => Ok(reader),
            Err(fault) => Err(reader.error(fault, None)),
        }
    }

    /// The number of bytes that were read.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.source.at()
    }

    /// What comes next; `None` at the end, when all of the file was found to be whole.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RdbError> {
        if self.is_over {
            return Ok(None);
        }
        let mut key = None;
        let entry = self.entry(&mut key);
        entry.map_err(|fault| self.error(fault, key))
    }

    fn error(&self, fault: Fault, key: Option<Bytes>) -> RdbError {
        RdbError::of_key(fault, self.source.at(), key.as_deref())
    }

    fn entry(&mut self, key: &mut Option<Bytes>) -> Result<Option<Entry>, Fault> {
        let source = &mut self.source;
        let mut expires_ms = None;
        loop {
            match source.byte()? {
                END => {
                    source.finish()?;
                    self.is_over = true;
                    return Ok(None);
                }
                AUX => {
                    source.string()?;
                    source.string()?;
                }
                // How large a database, or what there is of a slot, is going to be.
                0xFB => drop((source.length()?, source.length()?)),
                0xF4 => drop((source.length()?, source.length()?, source.length()?)),
                0xFE => self.db = source.length()?,
                // How seldom, or how often, a key was used.
                0xF8 => drop(source.length()?),
                0xF9 => drop(source.byte()?),
                0xFC => expires_ms = Some(i64::from_le_bytes(source.array()?)),
                0xFD => {
                    let seconds = i64::from(i32::from_le_bytes(source.array()?));
                    expires_ms = Some(seconds * 1000);
                }
                0xF5 => return Ok(Some(Entry::Functions(source.string()?))),
                0xF6 => {
                    return Err(Fault::Refused(
                        "it holds functions as no released server wrote them",
                    ));
                }
                0xF7 => return Err(Fault::Refused("it holds data of a module")),
                kind => {
                    let name = source.string()?;
                    *key = Some(name.clone());
                    let value = value::read(kind, source)?;
                    let expires_ms = expires_ms.map(|end| u64::try_from(end).unwrap_or(0));
                    let db = self.db;
                    return Ok(Some(Entry::Key(Key {
                        db,
                        name,
                        expires_ms,
                        value,
                    })));
                }
            }
        }
    }
}

/// Reads what a file begins with, and checks that its format is known.
pub(crate) fn head<R: Read>(source: &mut Source<R>) -> Result<(), Fault> {
    if source.left() < HEAD_BYTES as u64 {
        return Err(Fault::NoRdb);
    }
    let head = source.array::<HEAD_BYTES>()?;
    for (word, newest) in NEWEST {
        let Some(digits) = head.strip_prefix(word.as_bytes()) else {
            continue;
        };
        let number = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse::<u32>().ok());
        return match number {
            Some(number) if (OLDEST..=newest).contains(&number) => Ok(()),
            Some(number) if number > newest => {
                Err(Fault::Version(String::from_utf8_lossy(&head).into_owned()))
            }
            Some(_) => Err(Fault::Refused(
                "it is older than Redis 2.6, and has no checksum",
            )),
            None => Err(Fault::NoRdb),
        };
    }
    Err(Fault::NoRdb)
}
