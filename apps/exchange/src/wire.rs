//! Numbers at fixed places in bytes, the most significant byte first.

use std::fmt;

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end before the message does.
    Short,
    /// Bytes follow the end of the message.
    Long,
    /// A field, named here, has a value that means nothing.
    Value(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Short => f.write_str("the message is cut off"),
            WireError::Long => f.write_str("something follows the message"),
            WireError::Value(field) => write!(f, "the field `{field}` has no such value"),
        }
    }
}

impl std::error::Error for WireError {}

/// Writes fields one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// The length of a list that follows.
    pub(crate) fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }
}

/// Reads fields one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Takes the first message out of bytes; `None` where its end is still to come.
    pub(crate) fn take<T>(
        bytes: &mut Vec<u8>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        let mut from = Reader::new(bytes);
        match read(&mut from) {
            Ok(message) => {
                let taken = bytes.len() - from.rest.len();
                bytes.drain(..taken);
                Ok(Some(message))
            }
            Err(WireError::Short) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What all of some bytes mean.
    pub(crate) fn whole<T>(
        bytes: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let mut from = Reader::new(bytes);
        let value = read(&mut from)?;
        from.end().map(|()| value)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// The next so many bytes.
    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (first, rest) = self.rest.split_at_checked(length).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Whether nothing follows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Value(field)),
        }
    }

    /// The length of a list whose entries have at least `least` bytes: the bytes at hand bound it.
    pub(crate) fn length(&mut self, least: usize) -> Result<usize, WireError> {
        let length = usize::try_from(self.u32()?).map_err(|_| WireError::Short)?;
        let bytes = length.checked_mul(least.max(1)).ok_or(WireError::Short)?;
        if bytes > self.rest.len() {
            return Err(WireError::Short);
        }
        Ok(length)
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&self) -> Result<(), WireError> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(WireError::Long),
        }
    }
}
