//! Loading a snapshot. Its bytes may come from a damaged disk: everything is checked, and nothing is
//! allocated that the bytes themselves do not hold.

use super::auth::RestoredAuth;
use super::{
    AUTH, DELETION, END, FORMAT, HEAD, KEY, LEASE, LEASED_VALUE_REF, LEASED_WRITE, PERMISSION,
    ROLE, Totals, USER, VALUE_REF, WRITE,
};
use crate::flaw::Flaw;
use crate::history::{History, Version};
use crate::lease::{LeaseTerms, TTL_S_MAX, TTL_S_MIN};
use crate::store::{KEY_BYTES, Store, VERSION_BYTES};
use crate::stored_value::StoredValue;
use crate::value_refs::ValueRef;
use bytes::Bytes;
use quorate_core::{Decoder, Wire, WireError};
use std::fmt;
use std::sync::Arc;

/// A snapshot of which some pieces were read.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    /// What the head says.
    head: Option<Head>,
    /// Keys in order, with their versions.
    keys: Vec<(Box<[u8]>, History)>,
    /// The last lease.
    lease: Option<i64>,
    auth: RestoredAuth,
    totals: Totals,
    ended: bool,
}

#[cfg(test)]
impl Loading {
    /// What was read so far.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    revision: i64,
}

/// What is wrong.
struct LoadError(String);

impl From<WireError> for LoadError {
    fn from(error: WireError) -> Self {
        LoadError(error.to_string())
    }
}

fn wrong<T>(what: impl fmt::Display) -> Result<T, LoadError> {
    Err(LoadError(what.to_string()))
}

impl Store {
    pub(crate) fn load_piece(&mut self, piece: Bytes) -> Result<(), String> {
        let mut loading = self.loading.take().unwrap_or_default();
        let result = self.read_piece(&mut loading, piece);
        self.loading = Some(loading);
        result.map_err(|LoadError(what)| format!("the store's part is damaged: {what}"))
    }

    /// Puts what was read in its place, and checks it as a whole.
    pub(crate) fn end_load(&mut self) -> Result<(), String> {
        let loading = self.loading.take().unwrap_or_default();
        if !loading.ended {
            return Err("the store's part is incomplete: it has no end".into());
        }
        let auth = loading.auth.finish();
        self.auth =
            Arc::new(auth.map_err(|what| format!("the store's part contradicts itself: {what}"))?);
        // Sorted, it becomes a tree without gaps in one go.
        self.keys = loading.keys.into_iter().collect();
        self.index_versions()
            .map_err(|what| format!("the store's part contradicts itself: {what}"))?;
        if self.flaw == Some(Flaw::RevisionNotCarried) {
            self.revision = Store::default().revision;
        }
        Ok(())
    }

    fn read_piece(&mut self, loading: &mut Loading, piece: Bytes) -> Result<(), LoadError> {
        if loading.ended {
            return wrong("something follows its end");
        }
        let mut input = Decoder::new(piece.clone());
        while input.remaining() > 0 {
            let kind = input.u8()?;
            let Some(head) = loading.head else {
                self.read_head(kind, loading, &mut input)?;
                continue;
            };
            match kind {
                LEASE => self.read_lease(loading, &mut input)?,
                AUTH | USER | ROLE | PERMISSION => {
                    if !loading.keys.is_empty() {
                        return wrong("users or roles come after keys");
                    }
                    loading.auth.read(kind, &mut input).map_err(LoadError)?;
                }
                KEY => self.read_key(loading, &mut input)?,
                WRITE | LEASED_WRITE | VALUE_REF | LEASED_VALUE_REF | DELETION => {
                    let version = read_version(kind, head, loading, piece.len(), &mut input)?;
                    self.add_version(loading, version)?;
                }
                END => read_end(loading, &mut input)?,
                _ => return wrong(format_args!("there is no record of kind {kind}")),
            }
        }
        loading.totals.add_piece(&piece);
        Ok(())
    }

    fn read_head(
        &mut self,
        kind: u8,
        loading: &mut Loading,
        input: &mut Decoder,
    ) -> Result<(), LoadError> {
        if kind != HEAD {
            return wrong("it does not begin with a head");
        }
        let format = input.varint()?;
        if format != FORMAT {
            return wrong(format_args!(
                "it has format {format}; this program reads format {FORMAT}"
            ));
        }
        let (revision, compacted) = (input.varint()?, input.varint()?);
        let renewals = input.varint()?;
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        if !(1..REVISION_MAX).contains(&revision) || compacted > revision.unsigned_abs() + 1 {
            return wrong(format_args!("revision {revision} cannot be"));
        }
        self.revision = revision;
        self.compacted = compacted.cast_signed() - 1;
        self.leases.set_renewals(renewals);
        loading.head = Some(Head { revision });
        Ok(())
    }

    fn read_lease(&mut self, loading: &mut Loading, input: &mut Decoder) -> Result<(), LoadError> {
        let id = input.u64()?.cast_signed();
        let ttl_s = i64::try_from(input.varint()?).unwrap_or(i64::MAX);
        let renewal = input.varint()?;
        if loading.lease >= Some(id) || !loading.keys.is_empty() {
            return wrong(format_args!("lease {id} is out of order"));
        }
        if !(TTL_S_MIN..=TTL_S_MAX).contains(&ttl_s) || renewal > self.leases.renewals() {
            return wrong(format_args!("lease {id} cannot be"));
        }
        self.leases.put_back(id, LeaseTerms { ttl_s, renewal });
        loading.lease = Some(id);
        loading.totals.leases += 1;
        Ok(())
    }

    fn read_key(&mut self, loading: &mut Loading, input: &mut Decoder) -> Result<(), LoadError> {
        let key = input.bytes()?;
        if let Some((last, history)) = loading.keys.last()
            && (**last >= key[..] || history.is_empty())
        {
            return wrong("keys are out of order, or one has no version");
        }
        self.bytes += KEY_BYTES + key.len() as u64;
        loading.keys.push((key[..].into(), History::Empty));
        loading.totals.keys += 1;
        Ok(())
    }

    fn add_version(&mut self, loading: &mut Loading, version: Version) -> Result<(), LoadError> {
        let Some((_, history)) = loading.keys.last_mut() else {
            return wrong("a version has no key");
        };
        self.bytes += VERSION_BYTES + version.value.bytes_held();
        if let Some(reference) = version.value.reference()
            && !self.payloads.hold(reference)
        {
            return wrong(format_args!("two values are {:?}", reference.id));
        }
        history.push(version);
        loading.totals.versions += 1;
        Ok(())
    }
}

fn read_version(
    kind: u8,
    head: Head,
    loading: &Loading,
    piece_bytes: usize,
    input: &mut Decoder,
) -> Result<Version, LoadError> {
    let before = loading.keys.last().and_then(|(_, history)| history.last());
    let before = before.map_or((0, 0), |before| (before.modified, before.sub));
    let place = before.0.checked_add_unsigned(input.varint()?);
    let sub = u32::try_from(input.varint()?).unwrap_or(u32::MAX);
    let modified = match place {
        Some(modified) if modified <= head.revision && (modified, sub) > before => modified,
        _ => return wrong("versions are out of order"),
    };
    if kind == DELETION {
        return Ok(Version::deletion(modified, sub));
    }
    let created = modified.checked_sub_unsigned(input.varint()?);
    let version = i64::try_from(input.varint()?).unwrap_or(0);
    let value = match kind {
        VALUE_REF | LEASED_VALUE_REF => StoredValue::by_reference(ValueRef::decode(input)?),
        _ => keep(&input.bytes()?, piece_bytes),
    };
    let lease = match kind {
        LEASED_WRITE | LEASED_VALUE_REF => input.u64()?.cast_signed(),
        _ => 0,
    };
    match created {
        Some(created) if created > 0 && version > 0 => Ok(Version {
            value,
            modified,
            created,
            version,
            lease,
            sub,
        }),
        _ => wrong(format_args!("a version of revision {modified} cannot be")),
    }
}

fn read_end(loading: &mut Loading, input: &mut Decoder) -> Result<(), LoadError> {
    let said = Totals {
        leases: input.varint()?,
        keys: input.varint()?,
        versions: input.varint()?,
        digest: input.u64()?,
    };
    if said != loading.totals {
        return wrong("what came before its end is not what was written");
    }
    input.finish()?;
    loading.ended = true;
    Ok(())
}

/// The value in a form the store can hold on to: a slice of a piece keeps the whole piece.
fn keep(value: &Bytes, piece_bytes: usize) -> StoredValue {
    if value.len() > piece_bytes / 2 {
        StoredValue::share(value)
    } else {
        StoredValue::copy(value)
    }
}

/// Far from where counting on from a revision could overflow.
const REVISION_MAX: i64 = 1 << 62;
