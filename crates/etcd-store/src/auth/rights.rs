//! The keys that a user may read and write: the ranges of all its roles, merged.

use bytes::Bytes;
use quorate_etcd_api::authpb::{Permission, PermissionType};

/// The ways in which keys are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading and watching.
    Read,
    /// Writing and deleting.
    Write,
}

/// Where a range ends. The variants stand in order: nothing is beyond the open end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    Before(Bytes),
    Open,
}

impl End {
    /// The end of a range that begins with `key`, as requests and permissions give it.
    fn of(key: &Bytes, range_end: &Bytes) -> End {
        match &range_end[..] {
            // A single key ends before the next key there can be.
            [] => {
                let mut next = Vec::with_capacity(key.len() + 1);
                next.extend_from_slice(key);
                next.push(0);
                End::Before(next.into())
            }
            [0] => End::Open,
            _ => End::Before(range_end.clone()),
        }
    }

    /// Whether the end of a range that a request gives is not beyond this one. A single key has no end of its own.
    fn reaches(&self, range_end: &[u8]) -> bool {
        match (self, range_end) {
            (_, []) | (End::Open, _) => true,
            (End::Before(_), [0]) => false,
            (End::Before(end), range_end) => range_end <= &end[..],
        }
    }

    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < &end[..],
            End::Open => true,
        }
    }
}

/// Ranges of keys in order, none of which touches the next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ranges(Vec<(Bytes, End)>);

impl Ranges {
    fn merged(mut ranges: Vec<(Bytes, End)>) -> Ranges {
        ranges.sort_unstable();
        let mut merged: Vec<(Bytes, End)> = Vec::new();
        for (start, end) in ranges {
            match merged.last_mut() {
                Some((_, reach))
                    if reach.is_after(&start) || *reach == End::Before(start.clone()) =>
                {
                    if *reach < end {
                        *reach = end;
                    }
                }
                _ => merged.push((start, end)),
            }
        }
        Ranges(merged)
    }

    /// Whether all keys of a range are among these.
    fn contain(&self, key: &[u8], range_end: &[u8]) -> bool {
        let after = self.0.partition_point(|(start, _)| &start[..] <= key);
        let found = after.checked_sub(1).and_then(|at| self.0.get(at));
        found.is_some_and(|(_, end)| end.is_after(key) && end.reaches(range_end))
    }
}

/// The keys that a user may read, and those that it may write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rights {
    read: Ranges,
    write: Ranges,
}

impl Rights {
    /// The sum of these permissions.
    pub(crate) fn of<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> Rights {
        let (mut read, mut write) = (Vec::new(), Vec::new());
        for permission in permissions {
            let end = End::of(&permission.key, &permission.range_end);
            let range = (permission.key.clone(), end);
            match PermissionType::try_from(permission.perm_type) {
                Ok(PermissionType::Read) => read.push(range),
                Ok(PermissionType::Write) => write.push(range),
                Ok(PermissionType::Readwrite) => {
                    read.push(range.clone());
                    write.push(range);
                }
                Err(_) => {}
            }
        }
        Rights {
            read: Ranges::merged(read),
            write: Ranges::merged(write),
        }
    }

    /// Whether a whole range may be used in this way.
    pub(crate) fn allow(&self, access: Access, key: &[u8], range_end: &[u8]) -> bool {
        match access {
            Access::Read => self.read.contain(key, range_end),
            Access::Write => self.write.contain(key, range_end),
        }
    }
}

/// Whether a permission may be about this range: the key is there, and the end is after it or open.
pub(crate) fn is_range(key: &[u8], range_end: &[u8]) -> bool {
    !key.is_empty() && (range_end.is_empty() || range_end == b"\0" || key < range_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(granted: &[(&'static str, &'static str, PermissionType)]) -> Rights {
        let permission =
            |(key, end, kind): &(&'static str, &'static str, PermissionType)| Permission {
                perm_type: *kind as i32,
                key: Bytes::from_static(key.as_bytes()),
                range_end: Bytes::from_static(end.as_bytes()),
            };
        let granted: Vec<Permission> = granted.iter().map(permission).collect();
        Rights::of(&granted)
    }

    fn may(rights: &Rights, access: Access, key: &'static str, end: &'static str) -> bool {
        rights.allow(access, key.as_bytes(), end.as_bytes())
    }

    #[test]
    fn a_range_must_be_contained_in_the_merged_ranges() {
        use PermissionType::Read;
        let rights = rights(&[
            ("a", "c", Read),
            ("b", "e", Read),
            ("e", "g", Read),
            ("k", "", Read),
        ]);
        for (key, end, expected) in [
            ("a", "", true),
            ("a", "g", true),
            ("b", "f", true),
            ("a", "h", false),
            ("Z", "b", false),
            ("g", "", false),
            ("k", "", true),
            ("k", "k\0", true),
            ("k\0", "", false),
            ("k", "l", false),
            ("a", "\0", false),
            ("k", "\0", false),
        ] {
            assert_eq!(
                may(&rights, Access::Read, key, end),
                expected,
                "{key:?} {end:?}"
            );
            assert!(!may(&rights, Access::Write, key, end), "{key:?} {end:?}");
        }
    }

    #[test]
    fn only_an_open_end_contains_an_open_end() {
        use PermissionType::Write;
        let open = rights(&[("b", "\0", Write), ("c", "d", Write)]);
        for (key, end, expected) in [
            ("b", "\0", true),
            ("c", "\0", true),
            ("x", "z", true),
            ("a", "\0", false),
            ("\0", "\0", false),
        ] {
            assert_eq!(
                may(&open, Access::Write, key, end),
                expected,
                "{key:?} {end:?}"
            );
        }
        let all = rights(&[("\0", "\0", Write)]);
        assert!(may(&all, Access::Write, "\0", "\0") && may(&all, Access::Write, "a", ""));
    }

    #[test]
    fn reading_and_writing_are_permitted_apart() {
        use PermissionType::{Read, Readwrite, Write};
        let rights = rights(&[("r", "", Read), ("w", "", Write), ("b", "", Readwrite)]);
        for (key, read, write) in [("r", true, false), ("w", false, true), ("b", true, true)] {
            assert_eq!(may(&rights, Access::Read, key, ""), read, "{key}");
            assert_eq!(may(&rights, Access::Write, key, ""), write, "{key}");
        }
        let unknown = Permission {
            perm_type: 9,
            key: Bytes::from_static(b"k"),
            range_end: Bytes::new(),
        };
        assert_eq!(Rights::of([&unknown]), Rights::default());
    }

    #[test]
    fn which_ranges_a_permission_may_have() {
        for (key, end, expected) in [
            ("a", "", true),
            ("a", "b", true),
            ("a", "\0", true),
            ("\0", "\0", true),
            ("", "", false),
            ("", "b", false),
            ("b", "a", false),
            ("a", "a", false),
        ] {
            assert_eq!(
                is_range(key.as_bytes(), end.as_bytes()),
                expected,
                "{key:?} {end:?}"
            );
        }
    }
}
