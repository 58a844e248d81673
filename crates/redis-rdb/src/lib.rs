//! Redis's RDB files: read and checked, written, and copied for a replication stream of another name.
//!
//! A [`Reader`] takes a file from anywhere: its length, its version, every length in it and its checksum are checked,
//! and nothing is allocated that the file has no bytes for. It reads strings, lists, sets, hashes and sorted sets in
//! every form that Redis and Valkey write them in. A [`Writer`] writes their plain forms, which every version since
//! Redis 5.0 loads. [`copy_for_stream`] reads no values at all: it is for servers that know them.
//!
//! Nothing here opens a file or reads a clock.

mod copy;
mod error;
mod lzf;
mod packed;
mod reader;
mod source;
mod value;
mod writer;

#[cfg(test)]
mod fuzz;

pub use copy::{copy_for_stream, verify};
pub use error::{Fault, RdbError};
pub use reader::{Entry, Key, Reader};
pub use value::Value;
pub use writer::{Kind, Writer};

/// What stands before the fields of a file that says something of itself.
const AUX: u8 = 0xFA;
/// What stands at the end of a file, before its checksum.
const END: u8 = 0xFF;
/// The bytes of a checksum.
const SUM_BYTES: u64 = 8;

/// The checksum of some bytes, in parts.
fn digest() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Redis)
}
