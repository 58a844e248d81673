//! Changes to inputs, the kind that break decoders: flipped bits, lengths that lie, parts that are
//! missing, doubled or taken from elsewhere.

use fastrand::Rng;

/// An input never grows beyond this, in bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 8 << 10;

/// Numbers at the edges of what decoders distinguish.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Changes `input` in a few places. `other` is another input, to take parts from.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    for _ in 0..1 << rng.u8(..4) {
        change(input, other, rng);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    if input.is_empty() {
        return input.push(rng.u8(..));
    }
    let at = rng.usize(..input.len());
    match rng.u8(..11) {
        0 => input[at] ^= 1 << rng.u8(..8),
        1 => input[at] = rng.u8(..),
        2 => input[at] = EDGES[rng.usize(..5)] as u8,
        3 => input[at] = input[at].wrapping_add(rng.u8(..3)).wrapping_sub(1),
        4 => overwrite(input, at, &edge(rng).to_le_bytes()[..1 << rng.u8(1..4)]),
        5 => replace(input, at..at + 1, &varint(edge(rng))),
        6 => input.truncate(at),
        7 => replace(input, part(at, input.len(), rng), &[]),
        8 => {
            let doubled = input[part(at, input.len(), rng)].to_vec();
            replace(input, at..at, &doubled);
        }
        9 => {
            let random: Vec<u8> = (0..rng.usize(1..9)).map(|_| rng.u8(..)).collect();
            replace(input, at..at, &random);
        }
        _ if other.is_empty() => input[at] = !input[at],
        _ => {
            let from = part(rng.usize(..other.len()), other.len(), rng);
            let end = if rng.bool() { at } else { input.len() };
            replace(input, at..end, &other[from]);
        }
    }
}

/// A part of an input of `length` bytes that begins at `at`; mostly a short one.
fn part(at: usize, length: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    let most = length - at;
    let most = if rng.u8(..4) > 0 { most.min(16) } else { most };
    at..at + rng.usize(1..=most)
}

fn edge(rng: &mut Rng) -> u64 {
    let edge = EDGES[rng.usize(..EDGES.len())];
    edge.wrapping_add(rng.u64(..3)).wrapping_sub(1)
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in input[at..].iter_mut().zip(bytes) {
        *place = *byte;
    }
}

fn replace(input: &mut Vec<u8>, range: std::ops::Range<usize>, bytes: &[u8]) {
    input.splice(range, bytes.iter().copied());
}

/// Seven bits a byte, low bits first: how the formats at hand write numbers.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
