//! SHA-256 (FIPS 180-4), which ends every snapshot that a client takes.

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 32;

const BLOCK_BYTES: usize = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (§4.2.2).
const ROUND: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// A digest over bytes that come in parts.
#[derive(Clone, Debug)]
pub struct Sha256 {
    state: [u32; 8],
    /// The beginning of a block that is not whole.
    pending: [u8; BLOCK_BYTES],
    bytes_total: u64,
}

impl Default for Sha256 {
    fn default() -> Self {
        Sha256 {
            // The square roots of the first eight primes (§5.3.3).
            state: [
                0x6a09_e667,
                0xbb67_ae85,
                0x3c6e_f372,
                0xa54f_f53a,
                0x510e_527f,
                0x9b05_688c,
                0x1f83_d9ab,
                0x5be0_cd19,
            ],
            pending: [0; BLOCK_BYTES],
            bytes_total: 0,
        }
    }
}

impl Sha256 {
    /// Takes the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let held = self.held();
        self.bytes_total += bytes.len() as u64;
        if held > 0 {
            let taken = bytes.len().min(BLOCK_BYTES - held);
            self.pending[held..held + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if held + taken < BLOCK_BYTES {
                return;
            }
            let block = self.pending;
            self.compress(&block);
        }
        let mut blocks = bytes.chunks_exact(BLOCK_BYTES);
        for block in &mut blocks {
            self.compress(block);
        }
        let rest = blocks.remainder();
        self.pending[..rest.len()].copy_from_slice(rest);
    }

    /// The digest of everything taken.
    #[must_use]
    pub fn finish(mut self) -> [u8; DIGEST_BYTES] {
        let bits = self.bytes_total.wrapping_mul(8);
        // A one bit, and zeros until the length ends a block (§5.1.1).
        let held = self.held();
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        let room = BLOCK_BYTES - 8;
        let zeros_end = if held < room {
            room - held
        } else {
            room + BLOCK_BYTES - held
        };
        padding[zeros_end..zeros_end + 8].copy_from_slice(&bits.to_be_bytes());
        self.update(&padding[..zeros_end + 8]);
        let mut digest = [0; DIGEST_BYTES];
        for (out, word) in digest.chunks_exact_mut(4).zip(self.state) {
            out.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }

    fn held(&self) -> usize {
        (self.bytes_total % BLOCK_BYTES as u64) as usize
    }

    /// Mixes one block into the state (§6.2.2).
    fn compress(&mut self, block: &[u8]) {
        let mut words = [0; 64];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..64 {
            let (early, late) = (words[at - 15], words[at - 2]);
            let early = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let late = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            let sum = late.wrapping_add(words[at - 7]).wrapping_add(early);
            words[at] = sum.wrapping_add(words[at - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (word, round) in words.iter().zip(ROUND) {
            let big = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(big).wrapping_add(choice);
            let first = first.wrapping_add(round).wrapping_add(*word);
            let big = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(big.wrapping_add(majority)));
        }
        for (word, add) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(add);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(parts: &[&[u8]]) -> String {
        let mut digest = Sha256::default();
        parts.iter().for_each(|part| digest.update(part));
        let bytes = digest.finish();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples of the standard, and of NIST's page of intermediate values.
    #[test]
    fn the_digests_of_the_standard_come_out() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&[]), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&[b"abc"]), abc);
        let two_blocks = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&[text]), two_blocks);
        let million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(hex(&[&vec![b'a'; 1_000_000]]), million);
    }

    #[test]
    fn parts_of_any_length_come_to_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..300_u32).map(|at| (at * 7) as u8).collect();
        for step in [1, 3, 55, 56, 63, 64, 65, 119, 128, 299] {
            let parts: Vec<&[u8]> = bytes.chunks(step).collect();
            assert_eq!(hex(&parts), hex(&[&bytes]), "parts of {step} bytes");
        }
    }
}
