//! Taking a snapshot while the store goes on.
//!
//! Nothing is copied: the history keeps every version anyway, so a cut is a revision, and all it
//! asks of the store is not to free what counts there.

use super::auth;
use super::{
    DELETION, END, FORMAT, HEAD, KEY, LEASE, LEASED_VALUE_REF, LEASED_WRITE, Totals, VALUE_REF,
    WRITE,
};
use crate::auth::AuthState;
use crate::history::{History, Version};
use crate::store::Store;
use crate::stored_value::{Indirect, StoredValue};
use bytes::Bytes;
use quorate_core::{Encoder, Wire};
use std::ops::Bound;
use std::sync::Arc;

/// A snapshot of a store that is being taken.
#[derive(Debug)]
pub struct Cut {
    revision: i64,
    compacted: i64,
    renewals: u64,
    auth: Arc<AuthState>,
    place: Place,
    totals: Totals,
    /// What is written of the next piece.
    out: Encoder,
}

/// How far it has come.
#[derive(Debug)]
enum Place {
    Head,
    /// Leases after this one.
    Leases(Option<i64>),
    /// Users and roles, but for so many records.
    Auth(usize),
    /// Keys after this one; of itself what comes after a revision and a place within it, if it
    /// was cut in two.
    Keys(Option<(Bytes, Option<(i64, u32)>)>),
    End,
    Done,
}

impl Store {
    pub(crate) fn begin_cut(&mut self) -> Cut {
        self.cut_at = Some(self.compacted);
        self.leases.freeze();
        Cut {
            revision: self.revision,
            compacted: self.compacted,
            renewals: self.leases.renewals(),
            auth: Arc::clone(&self.auth),
            place: Place::Head,
            totals: Totals::default(),
            out: Encoder::new(),
        }
    }

    pub(crate) fn next_piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        let mut out = std::mem::take(&mut cut.out);
        loop {
            match &cut.place {
                Place::Head => write_head(cut, &mut out),
                Place::Leases(_) => self.write_leases(cut, bytes, &mut out),
                Place::Auth(done) => {
                    let done = auth::write(&cut.auth, *done, bytes, &mut out);
                    cut.place = done.map_or(Place::Keys(None), Place::Auth);
                }
                Place::Keys(_) => {
                    if !self.write_keys(cut, bytes, &mut out) {
                        cut.out = out;
                        return Some(Bytes::new());
                    }
                }
                Place::End if !out.is_empty() => break,
                Place::End => {
                    write_end(cut, &mut out);
                    break;
                }
                Place::Done => {
                    self.end_cut();
                    return None;
                }
            }
            if out.len() >= bytes {
                break;
            }
        }
        let piece = out.into_bytes();
        cut.totals.add_piece(&piece);
        Some(piece)
    }

    /// Nothing stays pinned.
    pub(crate) fn end_cut(&mut self) {
        self.cut_at = None;
        self.leases.thaw();
    }

    fn write_leases(&mut self, cut: &mut Cut, bytes: usize, out: &mut Encoder) {
        let Place::Leases(after) = &mut cut.place else {
            return;
        };
        while let Some((id, terms)) = self.leases.frozen_after(*after) {
            out.u8(LEASE);
            out.u64(id.cast_unsigned());
            out.varint(terms.ttl_s.unsigned_abs());
            out.varint(terms.renewal);
            cut.totals.leases += 1;
            *after = Some(id);
            if out.len() >= bytes {
                return;
            }
        }
        self.leases.thaw();
        cut.place = Place::Auth(0);
    }

    /// Writes keys until the piece is full. Says no when it has passed so many that do not count
    /// that others should have their turn.
    fn write_keys(&self, cut: &mut Cut, bytes: usize, out: &mut Encoder) -> bool {
        let Place::Keys(after) = &mut cut.place else {
            return true;
        };
        let mut keys = KeyWriter {
            compacted: cut.compacted,
            revision: cut.revision,
            bytes,
            totals: &mut cut.totals,
            out,
        };
        let from = match after.take() {
            None => Bound::Unbounded,
            Some((key, part)) => {
                let rest = part.zip(self.keys.get(&key[..]));
                let part = rest.and_then(|(part, history)| keys.write_versions(history, part));
                if keys.is_full() {
                    *after = Some((key, part));
                    return true;
                }
                Bound::Excluded(key)
            }
        };
        let from = from.as_ref().map(|key| &key[..]);
        let mut passed = 0;
        for (key, history) in self.keys.range::<[u8], _>((from, Bound::Unbounded)) {
            let keys_before = keys.totals.keys;
            let part = keys.write_key(key, history);
            passed += u32::from(keys.totals.keys == keys_before);
            if keys.is_full() || passed >= PASSED_MAX {
                *after = Some((Bytes::copy_from_slice(key), part));
                return keys.is_full();
            }
        }
        cut.place = Place::End;
        true
    }
}

/// Where keys are written to.
struct KeyWriter<'a> {
    compacted: i64,
    revision: i64,
    bytes: usize,
    totals: &'a mut Totals,
    out: &'a mut Encoder,
}

impl KeyWriter<'_> {
    fn is_full(&self) -> bool {
        self.out.len() >= self.bytes
    }

    /// Writes a key, if it counts, and its versions; says after which it stopped, if it did.
    fn write_key(&mut self, key: &[u8], history: &History) -> Option<(i64, u32)> {
        if history.kept(self.compacted, self.revision).len() == 0 {
            return None;
        }
        self.out.u8(KEY);
        self.out.varint(key.len() as u64);
        self.out.slice(key);
        self.totals.keys += 1;
        self.write_versions(history, BEFORE_ALL)
    }

    /// Writes the versions after one; says after which it stopped, if it did.
    fn write_versions(&mut self, history: &History, after: (i64, u32)) -> Option<(i64, u32)> {
        let mut versions = history.kept_after(self.compacted, self.revision, after);
        let mut before = after.0;
        while let Some(version) = versions.next() {
            self.write_version(version, before);
            before = version.modified;
            if self.is_full() && versions.len() > 0 {
                return Some((version.modified, version.sub));
            }
        }
        None
    }

    fn write_version(&mut self, version: &Version, before: i64) {
        self.totals.versions += 1;
        let out = &mut *self.out;
        let is_value_ref = version.value.reference().is_some();
        out.u8(
            match (version.is_live(), is_value_ref, version.lease != 0) {
                (false, ..) => DELETION,
                (true, false, false) => WRITE,
                (true, false, true) => LEASED_WRITE,
                (true, true, false) => VALUE_REF,
                (true, true, true) => LEASED_VALUE_REF,
            },
        );
        out.varint(version.modified.abs_diff(before));
        out.varint(u64::from(version.sub));
        if version.is_live() {
            out.varint(version.modified.abs_diff(version.created));
            out.varint(version.version.unsigned_abs());
            match &version.value {
                StoredValue::Own(value) => {
                    out.varint(value.len() as u64);
                    out.slice(value);
                }
                StoredValue::Indirect(other) => match &**other {
                    Indirect::Shared(value) => out.bytes(value),
                    Indirect::Payload(reference) => reference.encode(out),
                },
            }
            if version.lease != 0 {
                out.u64(version.lease.cast_unsigned());
            }
        }
    }
}

fn write_head(cut: &mut Cut, out: &mut Encoder) {
    out.u8(HEAD);
    out.varint(FORMAT);
    out.varint(cut.revision.unsigned_abs());
    out.varint((cut.compacted + 1).unsigned_abs());
    out.varint(cut.renewals);
    cut.place = Place::Leases(None);
}

fn write_end(cut: &mut Cut, out: &mut Encoder) {
    out.u8(END);
    out.varint(cut.totals.leases);
    out.varint(cut.totals.keys);
    out.varint(cut.totals.versions);
    out.u64(cut.totals.digest);
    cut.place = Place::Done;
}

/// Revisions begin at 1.
const BEFORE_ALL: (i64, u32) = (0, 0);

/// Keys passed over at a time: those that began after the cut, and those not freed yet.
const PASSED_MAX: u32 = 4096;
