//! RESP, the protocol of Redis: requests as servers read them, and replies as they write them.
//!
//! [`RequestParser`] takes requests off the front of a buffer, however the bytes arrive, within [`Limits`]; what is
//! wrong with a request is told in Redis's words ([`ProtocolError`]). [`ReplyWriter`] writes replies in the second or
//! the third version ([`Resp`]). [`Reply`] reads them again, for tests and tools, and [`reply_bytes`] only measures
//! them.

mod error;
#[cfg(test)]
mod fuzz;
mod inline;
mod number;
mod reply;
mod request;
mod skip;
mod version;
mod writer;

pub use error::ProtocolError;
pub use inline::split_words;
pub use number::{format_double, parse_integer};
pub use reply::Reply;
pub use request::{Limits, RequestParser, encode_request};
pub use skip::{ReplyError, reply_bytes};
pub use version::Resp;
pub use writer::ReplyWriter;
