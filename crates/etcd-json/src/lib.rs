//! The messages in JSON, as etcd's gateway has them.
//!
//! A table of the kinds of messages says which field has which name, number and kind. JSON is turned into the
//! protobuf encoding and back along that table alone: [`decode`] and [`encode`] know no message by its Rust type, so a
//! gateway needs a few bytes of table for a message, and no code.
//!
//! The mapping is protobuf's own (its page "ProtoJSON Format"), with etcd's choices: fields have the names of the
//! definition, unset ones are left out, and names that are not known are passed over. On the way in both names of a
//! field are taken, numbers as such or as text, bytes in either alphabet of base64, and values of enumerations by name
//! or number.

mod calls;
mod decode;
#[cfg(test)]
mod decode_tests;
mod encode;
#[cfg(test)]
mod table_tests;
mod tables;
mod types;
mod values;

pub use calls::{CALLS, Call, Streams, find_call};
pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, encode, encode_text};
pub use types::MessageType;
pub use values::ValueEnds;
