//! Key ranges, as etcd's requests give them.

use std::ops::Bound;

/// The keys a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span<'a> {
    /// The one key that equals these bytes.
    One(&'a [u8]),
    /// This key and every greater one.
    From(&'a [u8]),
    /// From the first, inclusive, to the second, exclusive. Never empty by its bounds.
    Between(&'a [u8], &'a [u8]),
    /// No key: the end is not after the start.
    Nothing,
}

/// Bounds of a range in an ordered map.
type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl<'a> Span<'a> {
    /// Reads a request's `key` and `range_end`.
    pub(crate) fn new(key: &'a [u8], end: &'a [u8]) -> Self {
        match end {
            [] => Span::One(key),
            [0] => Span::From(key),
            end if end <= key => Span::Nothing,
            end => Span::Between(key, end),
        }
    }

    /// Whether a key is meant.
    pub(crate) fn contains(self, key: &[u8]) -> bool {
        match self {
            Span::One(one) => key == one,
            Span::From(start) => key >= start,
            Span::Between(start, end) => start <= key && key < end,
            Span::Nothing => false,
        }
    }

    /// The bounds for an ordered map; `None` for no key at all.
    pub(crate) fn bounds(self) -> Option<Bounds<'a>> {
        match self {
            Span::One(key) => Some((Bound::Included(key), Bound::Included(key))),
            Span::From(start) => Some((Bound::Included(start), Bound::Unbounded)),
            Span::Between(start, end) => Some((Bound::Included(start), Bound::Excluded(end))),
            Span::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conventions_of_range_end() {
        for (key, end, expected) in [
            ("a", "", Span::One(b"a")),
            ("a", "\0", Span::From(b"a")),
            ("\0", "\0", Span::From(b"\0")),
            ("a", "b", Span::Between(b"a", b"b")),
            ("a", "a\0", Span::Between(b"a", b"a\0")),
            ("a", "a", Span::Nothing),
            ("b", "a", Span::Nothing),
        ] {
            assert_eq!(
                Span::new(key.as_bytes(), end.as_bytes()),
                expected,
                "{key:?} {end:?}"
            );
        }
    }
}
