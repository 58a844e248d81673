//! Revisions as keys of the `key` bucket.

/// One change: the revision that it belongs to, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Revision {
    /// The revision of the store.
    pub main: i64,
    /// The change's place within the revision, from 0.
    pub sub: i64,
}

const BYTES: usize = 17;
const DELETION: u8 = b't';

impl Revision {
    /// The bytes that stand for it; one more for a deletion.
    #[must_use]
    pub fn to_bytes(self, is_deletion: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES + 1);
        bytes.extend_from_slice(&self.main.to_be_bytes());
        bytes.push(b'_');
        bytes.extend_from_slice(&self.sub.to_be_bytes());
        if is_deletion {
            bytes.push(DELETION);
        }
        bytes
    }

    /// The revision that bytes stand for, and whether it is that of a deletion.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, bool)> {
        let is_deletion = match bytes.get(BYTES..)? {
            [] => false,
            [DELETION] => true,
            _ => return None,
        };
        let main = i64::from_be_bytes(bytes[..8].try_into().ok()?);
        let sub = i64::from_be_bytes(bytes[9..BYTES].try_into().ok()?);
        let is_one = bytes[8] == b'_' && main >= 0 && sub >= 0;
        is_one.then_some((Revision { main, sub }, is_deletion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_read_back_and_nothing_else_does() {
        let revision = Revision { main: 513, sub: 7 };
        let bytes = revision.to_bytes(false);
        assert_eq!(bytes[..], *b"\0\0\0\0\0\0\x02\x01_\0\0\0\0\0\0\0\x07");
        for is_deletion in [false, true] {
            let bytes = revision.to_bytes(is_deletion);
            assert_eq!(Revision::from_bytes(&bytes), Some((revision, is_deletion)));
            assert_eq!(Revision::from_bytes(&bytes[..16]), None);
        }
        assert_eq!(Revision::from_bytes(&[b'_'; 19]), None);
        assert_eq!(Revision::from_bytes(&[0xff; 17]), None);
        assert_eq!(Revision::from_bytes(b""), None);
    }
}
