//! What etcd keeps in its buckets.
//!
//! | bucket | keys | values |
//! |---|---|---|
//! | `key` | a [`Revision`], `t` behind it where it deleted | key, value and numbers, as the API has them |
//! | `lease` | number of a lease | [`LeaseRecord`] |
//! | `meta` | `consistent_index`, `term` | a number |
//! | | `confState`, `storageVersion` | JSON; text |
//! | | `finishedCompactRev`, `scheduledCompactRev` | a [`Revision`] |
//! | `auth` | `authEnabled`, `authRevision` | one byte; a number |
//! | `authUsers`, `authRoles` | name | [`UserRecord`], [`RoleRecord`] |
//! | `members`, `members_removed` | number in hexadecimal digits | [`MemberRecord`] in JSON; nothing of note |
//! | `cluster` | `clusterVersion`, `downgrade` | text; JSON |
//! | `alarm` | member and kind | nothing |
//!
//! A number is 8 bytes, big-endian. A revision is its number, `_`, and the number of the place within it.

mod reader;
mod records;
mod revision;
mod writer;

pub use reader::{KeyRecord, StateReader, Summary};
pub use records::{
    LeaseRecord, MemberRecord, PermissionRecord, RoleRecord, UserOptions, UserRecord,
};
pub use revision::Revision;
pub use writer::{StateRest, StateWriter};

const KEY: &[u8] = b"key";
const LEASE: &[u8] = b"lease";
const META: &[u8] = b"meta";
const AUTH: &[u8] = b"auth";
const AUTH_USERS: &[u8] = b"authUsers";
const AUTH_ROLES: &[u8] = b"authRoles";
const MEMBERS: &[u8] = b"members";
const MEMBERS_REMOVED: &[u8] = b"members_removed";
const CLUSTER: &[u8] = b"cluster";
const ALARM: &[u8] = b"alarm";

const CONSISTENT_INDEX: &[u8] = b"consistent_index";
const TERM: &[u8] = b"term";
const CONF_STATE: &[u8] = b"confState";
const STORAGE_VERSION: &[u8] = b"storageVersion";
const FINISHED_COMPACTION: &[u8] = b"finishedCompactRev";
const SCHEDULED_COMPACTION: &[u8] = b"scheduledCompactRev";
const AUTH_ENABLED: &[u8] = b"authEnabled";
const AUTH_REVISION: &[u8] = b"authRevision";
