//! What a fragment says of itself.

use quorate_core::{Decoder, Encoder, Wire, WireError};
use xxhash_rust::xxh3::xxh3_64;

/// No header is longer than this, in bytes.
pub const FRAGMENT_HEADER_BYTES_MAX: usize = 24;

/// Leads every fragment, on disks and links.
///
/// | bytes | field |
/// |---|---|
/// | 1 | codec: 1 is Reed-Solomon over GF(2^8) |
/// | 1 | matrix |
/// | 1 | `n`: fragments made |
/// | 1 | `k`: fragments that rebuild the payload |
/// | 1 | index |
/// | varint | length of the payload |
/// | 8 | xxh3 of the fragment's bytes |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentHeader {
    /// Fragments made; says nothing about this one's bytes.
    pub n: u8,
    /// Fragments that rebuild the payload.
    pub k: u8,
    /// The index of this fragment, from 0.
    pub index: u8,
    /// Length of the payload, in bytes.
    pub payload_len: u64,
    /// The xxh3 digest of this fragment's bytes.
    pub digest: u64,
}

const CODEC: u8 = 1;
const MATRIX: u8 = crate::Matrix::CauchyOnes as u8;

impl FragmentHeader {
    /// The header of a fragment of these bytes.
    #[must_use]
    pub fn new((n, k): (u8, u8), index: u8, payload_len: u64, bytes: &[u8]) -> FragmentHeader {
        let digest = xxh3_64(bytes);
        FragmentHeader {
            n,
            k,
            index,
            payload_len,
            digest,
        }
    }

    /// Whether these are the fragment's bytes.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let len = self.payload_len.div_ceil(u64::from(self.k));
        bytes.len() as u64 == len && xxh3_64(bytes) == self.digest
    }
}

impl Wire for FragmentHeader {
    fn encode(&self, out: &mut Encoder) {
        [CODEC, MATRIX, self.n, self.k, self.index]
            .iter()
            .for_each(|byte| out.u8(*byte));
        out.varint(self.payload_len);
        out.u64(self.digest);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let [codec, matrix, n, k, index] = input.array()?;
        if codec != CODEC {
            return Err(WireError::Tag("codec", codec));
        }
        if matrix != MATRIX {
            return Err(WireError::Tag("matrix", matrix));
        }
        if k == 0 || n < k || index >= n {
            return Err(WireError::Range("fragment index"));
        }
        Ok(FragmentHeader {
            n,
            k,
            index,
            payload_len: input.varint()?,
            digest: input.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_knows_its_bytes() {
        let header = FragmentHeader::new((5, 3), 4, 7, b"abc");
        let bytes = header.to_bytes();
        assert!(bytes.len() <= FRAGMENT_HEADER_BYTES_MAX);
        assert_eq!(FragmentHeader::from_bytes(bytes), Ok(header));
        assert!(header.matches(b"abc"));
        assert!(!header.matches(b"abd") && !header.matches(b"ab"));
    }

    #[test]
    fn what_no_fragment_says_is_refused() {
        let header = FragmentHeader::new((5, 3), 4, 7, b"abc");
        for (at, value) in [(0, 2), (1, 2), (2, 2), (3, 0), (4, 5)] {
            let mut bytes = header.to_bytes().to_vec();
            bytes[at] = value;
            assert!(
                FragmentHeader::from_bytes(bytes.into()).is_err(),
                "byte {at}"
            );
        }
    }
}
