//! Keys in PEM files, as far as tokens need them: RSA, ECDSA and Ed25519 (RFC 7468, RFC 5208, RFC 5280, RFC 5915).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The longest file with a key, in bytes.
const PEM_BYTES_MAX: usize = 64 << 10;

/// One block of a PEM file.
pub(super) struct Block {
    /// What stands behind `BEGIN`.
    pub(super) label: String,
    /// The decoded content.
    pub(super) der: Vec<u8>,
}

/// The first key in a file, behind whatever parameters stand before it.
pub(super) fn first_key(file: &[u8]) -> Result<Block, String> {
    if file.len() > PEM_BYTES_MAX {
        return Err(format!("it is longer than {PEM_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(file).map_err(|_| "it is no PEM file".to_owned())?;
    let mut rest = text;
    while let Some((_, from)) = rest.split_once("-----BEGIN ") {
        let wrong = || "a block in it does not end".to_owned();
        let (label, from) = from.split_once("-----").ok_or_else(wrong)?;
        let (content, behind) = from.split_once("-----END ").ok_or_else(wrong)?;
        rest = behind;
        if !label.ends_with("KEY") {
            continue;
        }
        let content: String = content.split_whitespace().collect();
        let der = STANDARD.decode(content);
        return Ok(Block {
            label: label.to_owned(),
            der: der.map_err(|_| format!("the block {label:?} is not base64"))?,
        });
    }
    Err("there is no key in it".to_owned())
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// The second optional part of an elliptic curve's key.
const EXPLICIT_1: u8 = 0xa1;

/// The key inside a `SubjectPublicKeyInfo`, as its algorithm has it.
pub(super) fn public_key_of(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = take(der, SEQUENCE)?;
    let (_, rest) = take(info, SEQUENCE)?;
    bits(take(rest, BIT_STRING)?.0)
}

/// The private and the public part of an `ECPrivateKey`.
pub(super) fn parts_of_ec_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, _) = take(der, SEQUENCE)?;
    (_, rest) = take(rest, INTEGER)?;
    let private;
    (private, rest) = take(rest, OCTET_STRING)?;
    while let Some((tag, content, behind)) = next(rest) {
        if tag == EXPLICIT_1 {
            return Some((private, bits(take(content, BIT_STRING)?.0)?));
        }
        rest = behind;
    }
    None
}

/// Bits that are whole bytes.
fn bits(content: &[u8]) -> Option<&[u8]> {
    let (unused, bytes) = content.split_first()?;
    (*unused == 0).then_some(bytes)
}

/// Takes one value with this tag: its content, and what follows it.
fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = next(der)?;
    (found == tag).then_some((content, rest))
}

fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => {
            let (bytes, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        // No key is that long.
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_a_file_is_found() {
        let file = "comment\n-----BEGIN EC PARAMETERS-----\nBgg=\n-----END EC PARAMETERS-----\n\
                    -----BEGIN PRIVATE KEY-----\nAQID\r\nBA==\n-----END PRIVATE KEY-----\n";
        let key = first_key(file.as_bytes()).expect("there is one");
        assert_eq!(
            (&*key.label, &key.der[..]),
            ("PRIVATE KEY", &[1, 2, 3, 4][..])
        );
    }

    #[test]
    fn what_is_no_key_is_named() {
        for (file, why) in [
            (&b""[..], "there is no key in it"),
            (b"\xff", "it is no PEM file"),
            (b"-----BEGIN X KEY", "a block in it does not end"),
            (b"-----BEGIN KEY-----AQ==", "a block in it does not end"),
            (
                b"-----BEGIN KEY-----!-----END KEY-----",
                "the block \"KEY\" is not base64",
            ),
            (
                b"-----BEGIN CERTIFICATE-----AQ==-----END CERTIFICATE-----",
                "there is no key in it",
            ),
        ] {
            assert_eq!(first_key(file).err().as_deref(), Some(why), "{file:?}");
        }
        assert!(first_key(&[b'x'; PEM_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn der_bears_any_bytes() {
        let info = [0x30, 9, 0x30, 2, 5, 0, 0x03, 3, 0, 7, 8];
        assert_eq!(public_key_of(&info), Some(&[7, 8][..]));
        for length in 0..info.len() {
            assert_eq!(public_key_of(&info[..length]), None);
        }
        let key = [0x30, 14, 2, 1, 1, 4, 1, 9, 0xa1, 5, 3, 3, 0, 7, 8, 0];
        assert_eq!(parts_of_ec_key(&key), Some((&[9][..], &[7, 8][..])));
        let mut state = 1u64;
        for _ in 0..50_000 {
            let mut bytes = key;
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                bytes[(state >> 40) as usize % key.len()] = (state >> 50) as u8;
            }
            // Whatever they are, without a panic.
            let _ = (public_key_of(&bytes), parts_of_ec_key(&bytes));
        }
    }
}
