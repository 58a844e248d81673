//! SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a keyed function of a few words.

/// The secret of an epoch. Sums of values that a client can predict would be open to attack;
/// so it never leaves the members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prf {
    k0: u64,
    k1: u64,
}

impl Prf {
    /// The function under this key.
    #[must_use]
    pub fn new(k0: u64, k1: u64) -> Prf {
        Prf { k0, k1 }
    }

    /// The value of a sequence of words, of which none is a prefix of another.
    #[must_use]
    pub fn of(&self, words: impl IntoIterator<Item = u64>) -> u128 {
        let mut v = [
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        ];
        let mut count = 0u64;
        for word in words {
            compress(&mut v, word);
            count += 1;
        }
        compress(&mut v, (count * 8) << 56);
        v[2] ^= 0xee;
        (0..4).for_each(|_| round(&mut v));
        let low = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
        (0..4).for_each(|_| round(&mut v));
        let high = v[0] ^ v[1] ^ v[2] ^ v[3];
        u128::from(high) << 64 | u128::from(low)
    }
}

fn compress(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the reference implementation's vectors: key 00 to 0f, inputs of no byte and of 00 to 07.
    #[test]
    fn it_is_siphash_2_4_128() {
        let prf = Prf::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let bytes = prf.of([]).to_le_bytes();
        let expected = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        assert_eq!(bytes, expected);
        let bytes = prf.of([0x0706_0504_0302_0100]).to_le_bytes();
        let expected = [
            0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14,
            0x97, 0xb4,
        ];
        assert_eq!(bytes, expected);
    }
}
