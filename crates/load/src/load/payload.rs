//! Keys and values derived from the seed, so that a reader can tell which write it sees.

use bytes::{BufMut, Bytes, BytesMut};
use quorate_etcd_api::etcdserverpb::RangeRequest;

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key in it.
    pub first: Bytes,
    /// The first key behind it.
    pub end: Bytes,
}

impl KeyRange {
    /// All keys that begin with a prefix, whose last byte is not the highest there is.
    pub fn prefixed(prefix: &str) -> KeyRange {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        KeyRange {
            first: prefix.to_owned().into(),
            end: end.into(),
        }
    }

    /// The request that reads all keys in it.
    pub fn request(self) -> RangeRequest {
        RangeRequest {
            key: self.first,
            range_end: self.end,
            ..RangeRequest::default()
        }
    }
}

/// Derives every key and value of a run.
#[derive(Debug)]
pub struct Payload {
    seed: u64,
    key_bytes: usize,
    value_bytes: usize,
    /// Letters that values are cut from at different offsets: incompressible, yet cheap.
    letters: Bytes,
}

impl Payload {
    /// Keys and values of these sizes in bytes, all drawn from the seed.
    pub fn new(seed: u64, key_bytes: usize, value_bytes: usize) -> Payload {
        let mut random = fastrand::Rng::with_seed(seed);
        let letters = (0..value_bytes + OFFSETS)
            .map(|_| random.alphanumeric() as u8)
            .collect();
        Payload {
            seed,
            key_bytes,
            value_bytes,
            letters,
        }
    }

    /// Bytes a value takes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The key numbered `index` in a key space all clients share.
    pub fn shared_key(&self, index: u64) -> Bytes {
        format!("{index:0width$}", width = self.key_bytes).into()
    }

    /// A key only one client writes. `life` counts how often the slot was given up for a new key.
    pub fn own_key(&self, client: u32, slot: u64, life: u32) -> Bytes {
        let key = format!("{:016x}/{client:05}/{slot:08}.{life}", self.seed);
        format!("{key:_<width$}", width = self.key_bytes).into()
    }

    /// The range of all [`Payload::own_key`].
    pub fn own_range(&self) -> KeyRange {
        KeyRange::prefixed(&format!("{:016x}/", self.seed))
    }

    /// The value that write number `sequence` of `client` writes.
    pub fn value(&self, client: u32, sequence: u64) -> Bytes {
        let identity = format!("{:016x}-{client:05}-{sequence:010};", self.seed);
        let mut value = BytesMut::with_capacity(self.value_bytes.max(identity.len()));
        value.put_slice(identity.as_bytes());
        value.truncate(self.value_bytes);
        let offset = (sequence as usize).wrapping_add(client as usize * 31) % OFFSETS;
        let rest = self.value_bytes - value.len();
        value.put_slice(&self.letters[offset..offset + rest]);
        value.freeze()
    }

    /// Whether `value` is exactly what write number `sequence` of `client` wrote.
    pub fn is_value(&self, value: &[u8], client: u32, sequence: u64) -> bool {
        *self.value(client, sequence) == *value
    }
}

/// The part of a value that names its write, as text; whatever it holds, in a foreign value.
pub fn identity(value: &[u8]) -> String {
    let end = value
        .iter()
        .take(IDENTITY_BYTES)
        .position(|&byte| byte == b';');
    let end = end.unwrap_or(value.len().min(IDENTITY_BYTES));
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// The sequence number inside an identity.
pub fn sequence(value: &[u8]) -> Option<u64> {
    identity(value).rsplit_once('-')?.1.parse().ok()
}

/// Bytes of the longest identity: values shorter than this may not be unique.
pub const IDENTITY_BYTES: usize = 16 + 1 + 5 + 1 + 10 + 1;

const OFFSETS: usize = 4093;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_its_write_and_has_the_size_asked_for() {
        let payload = Payload::new(7, 16, 256);
        let value = payload.value(3, 99);
        assert_eq!(value.len(), 256);
        assert_eq!(identity(&value), "0000000000000007-00003-0000000099");
        assert_eq!(sequence(&value), Some(99));
        assert!(payload.is_value(&value, 3, 99));
        assert!(!payload.is_value(&value, 3, 98));
        assert_eq!(Payload::new(7, 16, 5).value(3, 99).len(), 5);
    }

    #[test]
    fn own_keys_lie_in_their_range_and_have_the_size_asked_for() {
        let payload = Payload::new(u64::MAX, 40, 8);
        let KeyRange { first, end } = payload.own_range();
        let key = payload.own_key(99_999, 12, 3);
        assert_eq!(key.len(), 40);
        assert!(first < key && key < end);
        assert_eq!(payload.shared_key(5).len(), 40);
    }
}
