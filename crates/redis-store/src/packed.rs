//! Few short fields and their values, in one piece of memory.

use crate::text::Text;
use std::sync::Arc;

/// Pairs in the order in which they came. A copy is shared until one of both changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Packed {
    /// Each pair: the lengths of both parts, a byte each, then the parts.
    bytes: Arc<Vec<u8>>,
    len: usize,
}

impl Packed {
    /// Bytes of a field or value, at most.
    pub(crate) const PART_BYTES_MAX: usize = 64;

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let mut pairs = self.iter();
        pairs.find(|pair| pair.0 == field).map(|pair| pair.1)
    }

    /// Sets a field in its place, or adds it at the end. Whether it was there.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let place = self.place(field);
        let bytes = Arc::make_mut(&mut self.bytes);
        match place {
            Some((start, end)) => {
                let value_at = start + 2 + field.len();
                bytes[start + 1] = value.len() as u8;
                bytes.splice(value_at..end, value.iter().copied());
                true
            }
            None => {
                bytes.extend([field.len() as u8, value.len() as u8]);
                bytes.extend_from_slice(field);
                bytes.extend_from_slice(value);
                self.len += 1;
                false
            }
        }
    }

    /// Takes a field out. Whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((start, end)) = self.place(field) else {
            return false;
        };
        Arc::make_mut(&mut self.bytes).drain(start..end);
        self.len -= 1;
        true
    }

    /// Where the pair of a field begins and ends.
    fn place(&self, field: &[u8]) -> Option<(usize, usize)> {
        let mut start = 0;
        for (name, value) in self.iter() {
            let end = start + 2 + name.len() + value.len();
            if name == field {
                return Some((start, end));
            }
            start = end;
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (&[field, value], parts) = rest.split_first_chunk()?;
            let (field, parts) = parts.split_at(usize::from(field));
            let (value, parts) = parts.split_at(usize::from(value));
            rest = parts;
            Some((field, value))
        })
    }

    /// All pairs, each in memory of its own.
    pub(crate) fn to_texts(&self) -> impl Iterator<Item = (Text, Text)> {
        let pairs = self.iter();
        pairs.map(|(field, value)| (field.into(), value.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_places_and_copies_stay() {
        let mut packed = Packed::default();
        for (field, value) in [("a", "1"), ("bb", ""), ("", "3")] {
            assert!(!packed.set(field.as_bytes(), value.as_bytes()));
        }
        let copy = packed.clone();
        assert!(packed.set(b"a", b"longer than before"));
        assert!(packed.remove(b"bb") && !packed.remove(b"bb"));
        let pairs: Vec<_> = packed.iter().collect();
        assert_eq!(
            pairs,
            [(&b"a"[..], &b"longer than before"[..]), (b"", b"3")]
        );
        assert_eq!((packed.len(), copy.len()), (2, 3));
        assert_eq!(copy.get(b"bb"), Some(&b""[..]));
        assert_eq!(packed.get(b"bb"), None);
    }
}
