//! The ways in which a request breaks the protocol.

use std::fmt;

/// A request that breaks the protocol: where the next one begins is unknown, so the connection has to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// The line with the number of arguments does not end.
    MultibulkLineTooLong,
    /// The number of arguments is none, or too large.
    MultibulkLength,
    /// More arguments than a client may send before it has said who it is.
    UnauthenticatedMultibulkLength,
    /// The line with the length of an argument does not end.
    BulkLineTooLong,
    /// An argument begins with this byte in the place of a dollar sign.
    NoDollar(u8),
    /// The length of an argument is none, or too large.
    BulkLength,
    /// A longer argument than a client may send before it has said who it is.
    UnauthenticatedBulkLength,
    /// The arguments together are longer than a request may be.
    RequestTooLong,
    /// The line of an inline request does not end.
    InlineTooLong,
    /// A quotation of an inline request does not end, or is followed by something else than a space.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::MultibulkLineTooLong => "too big mbulk count string",
            ProtocolError::MultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::BulkLineTooLong => "too big bulk count string",
            ProtocolError::NoDollar(found) => {
                return write!(f, "expected '$', got '{}'", char::from(*found));
            }
            ProtocolError::BulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::RequestTooLong => "request is larger than this server takes",
            ProtocolError::InlineTooLong => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}
