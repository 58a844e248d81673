//! The generator: one for each `k`, of which codes with fewer fragments use the first rows.
//!
//! Rows `0..k` are the identity. Parity row `i` is a row of a Cauchy matrix over GF(2^8), with
//! columns scaled so that the first parity row is all ones: `(x_0 + y_j) / (x_i + y_j)` for
//! `x_i = 255 - i`, `y_j = j`. Every square part of a Cauchy matrix can be inverted, and scaling
//! columns does not change that, so any `k` rows of the generator can. Neither `x` nor `y` depends
//! on the number of fragments.

use crate::CodecError;
use rusty_erasure::gf;

/// Data and parity fragments together, at most: all `x` and `y` must be different.
pub const FRAGMENTS_MAX: usize = 255;

/// The generator that fragments were made with; part of every fragment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matrix {
    /// The Cauchy matrix with a first parity row of ones.
    CauchyOnes = 1,
}

/// The coefficient of data fragment `j` in parity fragment `i` (fragment `k + i`).
#[must_use]
pub fn parity_coefficient(i: usize, j: usize) -> u8 {
    assert!(i + j < FRAGMENTS_MAX, "x and y are different");
    let (x_0, x, y) = (255_u8, (255 - i) as u8, j as u8);
    // Addition and subtraction in GF(2^8) are XOR.
    gf::mul(x_0 ^ y, gf::inv(x ^ y))
}

/// The first `n` rows of the generator for `k`.
pub(crate) fn generator(k: usize, n: usize) -> Result<rusty_erasure::Matrix, CodecError> {
    let identity = (0..k).flat_map(|row| (0..k).map(move |column| u8::from(row == column)));
    let parity = (0..n - k).flat_map(|i| (0..k).map(move |j| parity_coefficient(i, j)));
    let rows = identity.chain(parity).collect();
    rusty_erasure::Matrix::from_bytes(n, k, rows).map_err(|_| CodecError::Code { k, n })
}
