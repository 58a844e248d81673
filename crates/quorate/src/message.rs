//! What is sent through the log and back: commands and replies.

use crate::format::{self, FormatError};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A command or a reply, which has a form in bytes.
///
/// Every type that serde reads and writes is one, in the form of [`encode`](crate::encode). [`Raw`] is one whose bytes
/// are its form; so is any other type without serde that implements this.
pub trait Message: Sized + Send + 'static {
    /// The bytes of this message.
    ///
    /// # Errors
    /// Why it has none.
    fn to_bytes(&self) -> Result<Bytes, FormatError>;

    /// The message with these bytes. Must not panic: a client may have sent anything.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn from_bytes(bytes: &Bytes) -> Result<Self, FormatError>;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Message for T {
    fn to_bytes(&self) -> Result<Bytes, FormatError> {
        format::encode(self).map(Bytes::from)
    }

    fn from_bytes(bytes: &Bytes) -> Result<Self, FormatError> {
        format::decode(bytes)
    }
}

/// Bytes as they are, for who has a format of their own. They are shared, not copied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Raw(pub Bytes);

impl Message for Raw {
    fn to_bytes(&self) -> Result<Bytes, FormatError> {
        Ok(self.0.clone())
    }

    fn from_bytes(bytes: &Bytes) -> Result<Self, FormatError> {
        Ok(Raw(bytes.clone()))
    }
}
