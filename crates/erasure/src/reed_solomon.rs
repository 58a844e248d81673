//! Reed-Solomon codes over GF(2^8), with the generator of `matrix.rs`.

use crate::matrix::{FRAGMENTS_MAX, generator};
use crate::{Codec, CodecError};
use bytes::{Bytes, BytesMut};
use rusty_erasure::Coder;

/// The codes with `k` data fragments. Coefficients are expanded once, for as many fragments as
/// were named when it was made.
pub struct ReedSolomon {
    k: usize,
    n_max: usize,
    /// By number of parity fragments, from 1.
    coders: Vec<Coder>,
}

impl ReedSolomon {
    /// Codes with `k` data fragments and up to `n_max` fragments.
    ///
    /// # Errors
    /// If `k` is 0 or `n_max` is less than `k` or more than [`FRAGMENTS_MAX`].
    pub fn new(k: usize, n_max: usize) -> Result<ReedSolomon, CodecError> {
        if k == 0 || n_max < k || n_max > FRAGMENTS_MAX {
            return Err(CodecError::Code { k, n: n_max });
        }
        let coder = |n: usize| {
            let matrix = generator(k, n)?;
            rusty_erasure::coder(matrix).map_err(|_| CodecError::Code { k, n })
        };
        let coders = (k + 1..=n_max).map(coder).collect::<Result<_, _>>()?;
        Ok(ReedSolomon { k, n_max, coders })
    }

    /// The data fragments: slices, but for what has to be padded.
    fn data(&self, payload: &Bytes) -> Vec<Bytes> {
        let len = self.fragment_len(payload.len());
        let slice = |index: usize| {
            let from = (index * len).min(payload.len());
            let piece = payload.slice(from..(from + len).min(payload.len()));
            if piece.len() == len {
                return piece;
            }
            let mut padded = BytesMut::zeroed(len);
            padded[..piece.len()].copy_from_slice(&piece);
            padded.freeze()
        };
        (0..self.k).map(slice).collect()
    }

    fn check(&self, fragments: &[(usize, Bytes)], len: usize) -> Result<(), CodecError> {
        for (index, bytes) in fragments {
            if *index >= self.n_max {
                return Err(CodecError::Index(*index));
            }
            if bytes.len() != len {
                return Err(CodecError::Length {
                    index: *index,
                    len: bytes.len(),
                    expected: len,
                });
            }
        }
        Ok(())
    }
}

impl Codec for ReedSolomon {
    fn k(&self) -> usize {
        self.k
    }

    fn encode(&self, payload: &Bytes, n: usize) -> Result<Vec<Bytes>, CodecError> {
        let k = self.k;
        if n < k || n > self.n_max {
            return Err(CodecError::Code { k, n });
        }
        let mut fragments = self.data(payload);
        let len = self.fragment_len(payload.len());
        let mut parity = vec![BytesMut::zeroed(len); n - k];
        if n > k && len > 0 {
            let data: Vec<&[u8]> = fragments.iter().map(|bytes| &bytes[..]).collect();
            let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|bytes| &mut bytes[..]).collect();
            if n == k + 1 {
                xor(&data, out[0]);
            } else {
                let coder = &self.coders[n - k - 1];
                coder
                    .encode(&data, &mut out)
                    .expect("lengths and counts are right");
            }
        }
        fragments.extend(parity.into_iter().map(BytesMut::freeze));
        Ok(fragments)
    }

    fn decode(
        &self,
        fragments: &[(usize, Bytes)],
        payload_len: usize,
    ) -> Result<Bytes, CodecError> {
        let (k, len) = (self.k, self.fragment_len(payload_len));
        self.check(fragments, len)?;
        let n = fragments
            .iter()
            .map(|(index, _)| index + 1)
            .max()
            .unwrap_or(0)
            .max(k);
        let mut shards: Vec<Option<&[u8]>> = vec![None; n];
        for (index, bytes) in fragments {
            shards[*index] = Some(bytes);
        }
        let have = shards.iter().flatten().count();
        if have < k {
            return Err(CodecError::TooFew { have, need: k });
        }
        let lost: Vec<usize> = (0..k).filter(|index| shards[*index].is_none()).collect();
        let mut payload = BytesMut::zeroed(k * len);
        let mut pieces: Vec<&mut [u8]> = payload.chunks_mut(len.max(1)).collect();
        for (piece, shard) in pieces.iter_mut().zip(&shards) {
            if let Some(shard) = shard {
                piece.copy_from_slice(shard);
            }
        }
        if !lost.is_empty() && len > 0 {
            let is_lost = |(index, _): &(usize, &mut &mut [u8])| lost.contains(index);
            let out = pieces.iter_mut().enumerate().filter(is_lost);
            let mut out: Vec<&mut [u8]> = out.map(|(_, piece)| &mut **piece).collect();
            if n == k + 1 && lost.len() == 1 {
                let others: Vec<&[u8]> = shards.iter().flatten().copied().collect();
                xor(&others, out[0]);
            } else {
                let coder = &self.coders[n - k - 1];
                coder
                    .recover(&shards, &lost, &mut out)
                    .expect("any k rows of the generator can be inverted");
            }
        }
        payload.truncate(payload_len);
        Ok(payload.freeze())
    }
}

/// The first parity fragment; any one of the fragments it is made of, given the others and it.
fn xor(sources: &[&[u8]], out: &mut [u8]) {
    match sources {
        [one] => out.copy_from_slice(one),
        _ => rusty_erasure::raid::xor_gen(sources, out).expect("lengths are equal"),
    }
}
