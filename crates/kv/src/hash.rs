//! A digest of the store, equal on every replica.

use crate::history::Version;
use crate::store::Store;
use xxhash_rust::xxh3::Xxh3;

/// XXH3-64 over the keys ascending, and within a key over its versions up to `revision`, oldest
/// first, deletions included. A key with no such version is left out.
///
/// Every field is hashed with a fixed width and every byte string with its length before it, so
/// that no two different stores feed the same bytes. Versions that compaction removed do not count,
/// whether their memory is free yet or not: compare replicas at equal compaction.
pub(crate) fn digest(store: &Store, revision: i64) -> u64 {
    let mut hash = Xxh3::new();
    for (key, history) in &store.keys {
        let versions = history.kept(store.compacted, revision);
        if versions.len() == 0 {
            continue;
        }
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(key);
        hash.update(&(versions.len() as u64).to_le_bytes());
        for version in versions {
            update(&mut hash, version);
        }
    }
    hash.digest()
}

fn update(hash: &mut Xxh3, version: &Version) {
    let mut fields = [0; 44];
    fields[..8].copy_from_slice(&version.modified.to_le_bytes());
    fields[8..16].copy_from_slice(&version.created.to_le_bytes());
    fields[16..24].copy_from_slice(&version.version.to_le_bytes());
    fields[24..32].copy_from_slice(&version.lease.to_le_bytes());
    fields[32..40].copy_from_slice(&(version.value.len() as u64).to_le_bytes());
    fields[40..].copy_from_slice(&version.sub.to_le_bytes());
    hash.update(&fields);
    hash.update(&version.value);
}
