//! The code against an oracle: the definition, computed with the field arithmetic of another
//! implementation (`reed-solomon-erasure`), byte by byte; and its own decoding of our fragments.

use bytes::Bytes;
use quorate_erasure::{Codec, CodecError, ReedSolomon};
use reed_solomon_erasure::galois_8;

const N_MAX: usize = 9;

fn payload(len: usize) -> Bytes {
    let mut rng = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Fragment `index` by the definition.
fn fragment_by_definition(payload: &[u8], k: usize, index: usize) -> Vec<u8> {
    let len = payload.len().div_ceil(k);
    let byte = |piece: usize, at: usize| payload.get(piece * len + at).copied().unwrap_or(0);
    let Some(i) = index.checked_sub(k) else {
        return (0..len).map(|at| byte(index, at)).collect();
    };
    let coefficient = |j: usize| {
        let (x, y) = ((255 - i) as u8, j as u8);
        galois_8::div(galois_8::add(255, y), galois_8::add(x, y))
    };
    let sum = |at: usize| {
        let products = (0..k).map(|j| galois_8::mul(coefficient(j), byte(j, at)));
        products.fold(0, galois_8::add)
    };
    (0..len).map(sum).collect()
}

#[test]
fn every_fragment_is_as_defined_whatever_n() {
    for k in 1..=N_MAX {
        let codec = ReedSolomon::new(k, N_MAX).unwrap();
        for len in [0, 1, k, k + 1, 100, 1000] {
            let payload = payload(len);
            for n in k..=N_MAX {
                let fragments = codec.encode(&payload, n).unwrap();
                assert_eq!(fragments.len(), n);
                for (index, fragment) in fragments.iter().enumerate() {
                    let expected = fragment_by_definition(&payload, k, index);
                    assert_eq!(
                        fragment[..],
                        expected[..],
                        "k = {k}, n = {n}, fragment {index}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_k_of_n_fragments_give_the_payload_back() {
    for k in 1..=N_MAX {
        let codec = ReedSolomon::new(k, N_MAX).unwrap();
        for len in [1, 33, 200] {
            let payload = payload(len);
            for n in k..=N_MAX {
                let fragments = codec.encode(&payload, n).unwrap();
                for set in (0..1u32 << n).filter(|set| set.count_ones() as usize == k) {
                    let members = (0..n).filter(|index| set & 1 << index != 0);
                    let some: Vec<_> = members.map(|i| (i, fragments[i].clone())).collect();
                    let decoded = codec.decode(&some, len);
                    assert_eq!(
                        decoded.as_ref(),
                        Ok(&payload),
                        "k = {k}, n = {n}, set {set:b}"
                    );
                }
            }
        }
    }
}

#[test]
fn too_few_or_wrong_fragments_are_refused() {
    let codec = ReedSolomon::new(3, 5).unwrap();
    let payload = payload(100);
    let fragments = codec.encode(&payload, 5).unwrap();
    let take = |indices: &[usize]| -> Vec<(usize, Bytes)> {
        indices
            .iter()
            .map(|i| (*i, fragments[*i].clone()))
            .collect()
    };
    let too_few = CodecError::TooFew { have: 2, need: 3 };
    assert_eq!(codec.decode(&take(&[1, 4]), 100), Err(too_few.clone()));
    assert_eq!(codec.decode(&take(&[1, 4, 4]), 100), Err(too_few));
    assert!(codec.decode(&take(&[0, 1, 2]), 90).is_err());
    let mut wrong = take(&[0, 1, 2]);
    wrong[0].0 = 7;
    assert_eq!(codec.decode(&wrong, 100), Err(CodecError::Index(7)));
    assert!(ReedSolomon::new(0, 3).is_err() && ReedSolomon::new(4, 3).is_err());
    assert!(ReedSolomon::new(3, 256).is_err() && codec.encode(&payload, 6).is_err());
}
