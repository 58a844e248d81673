//! Fragments of payloads, and payloads of fragments.

use quorate_core::{Payload, Share};
use quorate_erasure::{Codec, FragmentHeader, ReedSolomon};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The codes of an epoch.
pub(crate) struct Coder {
    /// Fragments made: one for each member.
    n: u8,
    /// By `k`, from 2.
    codes: Vec<ReedSolomon>,
}

impl Coder {
    /// Codes with a fragment for each of `n` members.
    pub(crate) fn new(n: usize) -> Coder {
        let code = |k| ReedSolomon::new(k, n).expect("2 <= k <= n");
        Coder {
            n: u8::try_from(n).expect("members are few"),
            codes: (2..=n).map(code).collect(),
        }
    }

    /// Fragments made of each payload.
    pub(crate) fn n(&self) -> u8 {
        self.n
    }

    fn code(&self, k: u8) -> Option<&ReedSolomon> {
        self.codes.get(usize::from(k).checked_sub(2)?)
    }

    /// What each member gets of payloads that are here whole, any `k` of which rebuild them. `None`
    /// for a code that cannot be.
    pub(crate) fn shares(&self, whole: &Arc<Share>, k: u8) -> Option<Vec<Arc<Share>>> {
        debug_assert!(whole.is_whole());
        let n = usize::from(self.n);
        if k == 1 {
            return Some(vec![Arc::clone(whole); n]);
        }
        let code = self.code(k)?;
        let mut shares: Vec<Share> = (0..self.n)
            .map(|index| Share {
                code: k,
                index,
                parts: Vec::with_capacity(whole.parts.len()),
            })
            .collect();
        for payload in &whole.parts {
            let fragments = code.encode(payload, n).ok()?;
            for (share, fragment) in shares.iter_mut().zip(fragments) {
                share.parts.push(fragment);
            }
        }
        Some(shares.into_iter().map(Arc::new).collect())
    }

    /// The header of a fragment of a payload, whose checksum may be known.
    pub(crate) fn header(
        &self,
        share: &Share,
        payload: &Payload,
        (bytes, checksum): (&[u8], Option<u64>),
    ) -> FragmentHeader {
        FragmentHeader {
            n: self.n,
            k: share.code,
            index: share.index,
            payload_len: u64::from(payload.len),
            digest: checksum.unwrap_or_else(|| xxh3_64(bytes)),
        }
    }

    /// A payload out of fragments of one code, if they are enough and the right ones.
    pub(crate) fn rebuild(
        &self,
        payload: &Payload,
        k: u8,
        fragments: &[(usize, bytes::Bytes)],
    ) -> Option<bytes::Bytes> {
        let bytes = match (k, fragments) {
            (1, [(_, whole), ..]) => whole.clone(),
            (1, []) => return None,
            _ => self.code(k)?.decode(fragments, payload.len as usize).ok()?,
        };
        payload.is(&bytes).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn any_k_shares_rebuild_every_payload_and_a_wrong_one_is_noticed() {
        let coder = Coder::new(5);
        let parts: Vec<Bytes> = [1usize, 2, 3, 1000]
            .iter()
            .map(|len| (0..*len).map(|i| i as u8 ^ 0x5a).collect())
            .collect();
        let whole = Arc::new(Share::whole(parts.clone()));
        for k in 1..=5u8 {
            let shares = coder.shares(&whole, k).unwrap();
            for first in 0..=5 - usize::from(k) {
                for (part, bytes) in parts.iter().enumerate() {
                    let payload = Payload::of(bytes.clone());
                    let held = shares.iter().enumerate().skip(first).take(k.into());
                    let mut held: Vec<(usize, Bytes)> = held
                        .map(|(index, share)| (index, share.parts[part].clone()))
                        .collect();
                    assert_eq!(coder.rebuild(&payload, k, &held), Some(bytes.clone()));
                    let mut wrong = held[0].1.to_vec();
                    wrong[0] ^= 1;
                    held[0].1 = wrong.into();
                    assert_eq!(coder.rebuild(&payload, k, &held), None);
                }
            }
        }
        assert!(coder.shares(&whole, 6).is_none());
    }
}
