//! Attachments without their bytes, for checkers: who has which fragment is all that they look at.

use crate::entry::Entry;
use crate::machine::Carry;
use crate::payload::Share;
use crate::wire::Wire;
use bytes::Bytes;
use std::sync::Arc;

/// Fragments of an entry's payloads, all of them empty.
#[must_use]
pub fn hollow_share(entry: &Entry, code: u8, index: u8) -> Arc<Share> {
    let parts = entry.payloads().map(|_| Bytes::new()).collect();
    Arc::new(Share { code, index, parts })
}

/// What arrives of a message at the member of this index, or is found of its record after a
/// restart: its encoding, and what was attached to it.
///
/// # Panics
/// If it does not decode.
#[must_use]
pub fn carried<T: Carry + Wire>(said: &T, index: u8) -> T {
    let mut there = T::from_bytes(said.to_bytes()).expect("what was said can be read");
    let code = there.attachment().map(|attachment| attachment.code);
    if let (Some(code), Some(entry)) = (code, there.entry_mut()) {
        let share = hollow_share(entry, code, index);
        *entry = entry.clone().with_share(Some(share));
    }
    there
}
