//! Payloads to fragments and back.
//!
//! A payload is cut into `k` data fragments of equal length, and parity fragments are made of
//! those; any `k` fragments rebuild it. Fragment `i` depends on the payload, `k` and `i` alone,
//! never on how many fragments there are: members come and go without re-coding.
//!
//! Everything here is arithmetic on bytes. Who computes it, and on which thread, is the caller's.

mod header;
mod matrix;
mod reed_solomon;

pub use header::{FRAGMENT_HEADER_BYTES_MAX, FragmentHeader};
pub use matrix::{FRAGMENTS_MAX, Matrix, parity_coefficient};
pub use reed_solomon::ReedSolomon;

use bytes::Bytes;
use std::fmt;

/// A way to code payloads: any `k` of the fragments rebuild one.
pub trait Codec {
    /// Data fragments, and fragments that rebuild a payload.
    fn k(&self) -> usize;

    /// Length of each fragment of a payload of this many bytes.
    fn fragment_len(&self, payload_len: usize) -> usize {
        payload_len.div_ceil(self.k())
    }

    /// Fragments `0..n` of a payload. Data fragments are slices of it, but for one that has to be
    /// padded.
    ///
    /// # Errors
    /// If there cannot be that many.
    fn encode(&self, payload: &Bytes, n: usize) -> Result<Vec<Bytes>, CodecError>;

    /// Rebuilds a payload of this many bytes from `k` or more fragments, each with its index.
    ///
    /// # Errors
    /// If they are too few, not apart, or not as long as they should be. Wrong bytes are not
    /// noticed here: that is what the payload's digest is for.
    fn decode(&self, fragments: &[(usize, Bytes)], payload_len: usize)
    -> Result<Bytes, CodecError>;
}

/// Why something could not be coded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodecError {
    /// `k` data fragments of `n` cannot be.
    Code {
        /// The number of data fragments.
        k: usize,
        /// The number of fragments.
        n: usize,
    },
    /// Fewer than `k` different fragments.
    TooFew {
        /// The number of different fragments given.
        have: usize,
        /// The number of fragments that rebuild a payload.
        need: usize,
    },
    /// A fragment of another length.
    Length {
        /// The index of the fragment.
        index: usize,
        /// The fragment's length, in bytes.
        len: usize,
        /// The length that a fragment should have, in bytes.
        expected: usize,
    },
    /// A fragment with an index that no fragment has.
    Index(usize),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Code { k, n } => write!(f, "no code of {n} fragments, {k} of them data"),
            CodecError::TooFew { have, need } => write!(f, "{have} fragments, {need} needed"),
            CodecError::Length {
                index,
                len,
                expected,
            } => write!(f, "fragment {index} is {len} bytes long, not {expected}"),
            CodecError::Index(index) => write!(f, "there is no fragment {index}"),
        }
    }
}

impl std::error::Error for CodecError {}
