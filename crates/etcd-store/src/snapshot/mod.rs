//! The store as a snapshot.
//!
//! A snapshot is a run of pieces, a piece a run of records, a record one byte for its kind and what
//! belongs to it (numbers are varints unless it is said otherwise):
//!
//! | kind | what | content |
//! |---|---|---|
//! | 1 | head | format version; revision; compacted revision + 1; renewals of leases so far |
//! | 2 | lease | number (8 bytes, little-endian); seconds to live; the renewal that counts |
//! | 3 | key | its bytes, with their length; its versions follow, oldest first |
//! | 4 | write | revision, less that of the version before; place within it; revision less that of creation; version; value, with its length |
//! | 5 | write with a lease | the same; then the lease's number (8 bytes, little-endian) |
//! | 6 | deletion | revision, as above; place within it |
//! | 8 | write of a value that is kept as a payload | as 4; but for the value its payload's name and length, and its digest (16 bytes, little-endian) |
//! | 9 | the same, with a lease | as 8; then the lease's number, as in 5 |
//! | 10 | users and roles | whether authentication is on (one byte); the auth revision |
//! | 11 | user | name and bcrypt hash, with their lengths; whether it has no password (one byte); its roles |
//! | 12 | role | name, with its length; its permissions follow, by their ranges |
//! | 13 | permission | etcd's number of its kind; key and end of its range, with their lengths |
//! | 7 | end | leases, keys and versions before it; digest of the pieces before it (8 bytes, little-endian) |
//!
//! Roles of a user are their count, then names with their lengths.
//!
//! The head comes first, then leases, users, roles and keys, each ascending, then the end, a piece of its own. Of users
//! and roles there is nothing where there never were any, so that older programs read what they know.
//! The versions of a key are those that count at the cut ([`History::kept`]), whatever of the
//! others is not freed yet: so the bytes depend on the commands applied before the cut alone. Which
//! keys a lease has, and the journal, follow from the versions and are not written.
//!
//! [`History::kept`]: crate::history::History::kept

mod auth;
mod cut;
#[cfg(test)]
mod fuzz;
mod load;

pub use cut::Cut;
pub(crate) use load::Loading;

use xxhash_rust::xxh3::xxh3_64_with_seed;

const HEAD: u8 = 1;
const LEASE: u8 = 2;
const KEY: u8 = 3;
const WRITE: u8 = 4;
const LEASED_WRITE: u8 = 5;
const DELETION: u8 = 6;
const END: u8 = 7;
const VALUE_REF: u8 = 8;
const LEASED_VALUE_REF: u8 = 9;
const AUTH: u8 = 10;
const USER: u8 = 11;
const ROLE: u8 = 12;
const PERMISSION: u8 = 13;

/// The version of this format.
const FORMAT: u64 = 1;

/// What was written or read so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Totals {
    leases: u64,
    keys: u64,
    versions: u64,
    /// Chained over the pieces.
    digest: u64,
}

impl Totals {
    fn add_piece(&mut self, piece: &[u8]) {
        self.digest = xxh3_64_with_seed(piece, self.digest);
    }
}
