//! Leases: keys that go when their time is over.
//!
//! The store has no clock. It says which countdowns to run ([`Countdown`]); when one ends, its
//! command comes back through the log. It names the renewal it was started for, so a lease that was
//! renewed in the meantime lives on, whichever replica's clock was first.

use crate::command;
use crate::flaw::Flaw;
use crate::refused::Refused;
use crate::store::Store;
use crate::write::WriteTransaction;
use bytes::Bytes;
use quorate_core::{At, Countdown};
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseRevokeRequest, LeaseRevokeResponse,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_64;

/// All leases, and the keys that go with them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: BTreeMap<i64, Lease>,
    /// Renewals so far, of all leases; the number of a renewal is never given again.
    renewals: u64,
    /// Leases that began, were renewed or ended since the countdowns were last asked for.
    changed: BTreeSet<i64>,
    /// While a snapshot is taken: what those that changed since were before, if they were.
    before: Option<BTreeMap<i64, Option<LeaseTerms>>>,
}

#[derive(Debug)]
struct Lease {
    terms: LeaseTerms,
    keys: BTreeSet<Box<[u8]>>,
}

impl Lease {
    fn keys(&self) -> Vec<Bytes> {
        let keys = self.keys.iter();
        keys.map(|key| Bytes::copy_from_slice(key)).collect()
    }
}

/// What a lease is apart from its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseTerms {
    /// The lease's time to live, in seconds.
    pub(crate) ttl_s: i64,
    /// The renewal that counts; the grant is one.
    pub(crate) renewal: u64,
}

/// What is known of a lease. How much time is left only the countdowns know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseInfo {
    /// The store's revision.
    pub revision: i64,
    /// The lease's time to live, in seconds; `None` if there is no such lease.
    pub ttl_s: Option<i64>,
    /// The keys of the lease, ascending, if they were asked for.
    pub keys: Vec<Bytes>,
}

/// The end of a lease's time, as a command. Has no effect after another renewal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LeaseExpiry {
    /// The lease whose time is over.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// The renewal since which the time was counted.
    #[prost(uint64, tag = "2")]
    pub renewal: u64,
}

/// The least time to live, in seconds: etcd's, with its default timing. Less is rounded up.
pub const TTL_S_MIN: i64 = 2;
/// The greatest time to live, in seconds. More is refused.
pub const TTL_S_MAX: i64 = 9_000_000_000;

impl Leases {
    pub(crate) fn exists(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// A key's lease changes; 0 is none.
    pub(crate) fn attach(&mut self, key: &[u8], old: i64, new: i64) {
        if old == new {
            return;
        }
        if let Some(lease) = self.by_id.get_mut(&old) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.by_id.get_mut(&new) {
            lease.keys.insert(key.into());
        }
    }

    /// The keys of a lease, ascending; none of one that does not exist.
    pub(crate) fn keys(&self, id: i64) -> impl Iterator<Item = &[u8]> {
        let lease = self.by_id.get(&id).into_iter();
        lease.flat_map(|lease| lease.keys.iter().map(|key| &**key))
    }

    /// All numbers, ascending.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.by_id.keys().copied().collect()
    }

    /// All numbers, ascending, each with its time to live in seconds.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (i64, i64)> {
        let leases = self.by_id.iter();
        leases.map(|(id, lease)| (*id, lease.terms.ttl_s))
    }

    /// Renewals so far.
    pub(crate) fn renewals(&self) -> u64 {
        self.renewals
    }

    /// A snapshot begins: the leases as they are now can be read until it is over.
    pub(crate) fn freeze(&mut self) {
        self.before = Some(BTreeMap::new());
    }

    /// Nobody wants to know any more what the leases were.
    pub(crate) fn thaw(&mut self) {
        self.before = None;
    }

    /// The next lease after a number, as it was when the snapshot began.
    pub(crate) fn frozen_after(&self, after: Option<i64>) -> Option<(i64, LeaseTerms)> {
        let before = self.before.as_ref()?;
        let mut from = after.map_or(Bound::Unbounded, Bound::Excluded);
        loop {
            let now = self.by_id.range((from, Bound::Unbounded)).next();
            let then = before.range((from, Bound::Unbounded)).next();
            match (now, then) {
                (Some((id, lease)), then) if then.is_none_or(|(other, _)| id < other) => {
                    return Some((*id, lease.terms));
                }
                (_, Some((id, Some(terms)))) => return Some((*id, *terms)),
                // It began since.
                (_, Some((id, None))) => from = Bound::Excluded(*id),
                (_, None) => return None,
            }
        }
    }

    /// Puts a lease of a snapshot in its place.
    pub(crate) fn put_back(&mut self, id: i64, terms: LeaseTerms) {
        let keys = BTreeSet::new();
        self.by_id.insert(id, Lease { terms, keys });
        self.changed.insert(id);
    }

    /// Sets the number of renewals so far, as a snapshot says.
    pub(crate) fn set_renewals(&mut self, renewals: u64) {
        self.renewals = renewals;
    }

    fn grant(&mut self, id: i64, ttl_s: i64) {
        self.changing(id);
        let renewal = 0;
        self.put_back(id, LeaseTerms { ttl_s, renewal });
    }

    fn renew(&mut self, id: i64) -> Option<i64> {
        self.changing(id);
        let lease = self.by_id.get_mut(&id)?;
        self.renewals += 1;
        lease.terms.renewal = self.renewals;
        self.changed.insert(id);
        Some(lease.terms.ttl_s)
    }

    fn remove(&mut self, id: i64) -> Option<Lease> {
        self.changing(id);
        self.changed.insert(id);
        self.by_id.remove(&id)
    }

    /// Notes what a lease is before it changes, if a snapshot may still want it.
    fn changing(&mut self, id: i64) {
        if let Some(before) = &mut self.before {
            let terms = || self.by_id.get(&id).map(|lease| lease.terms);
            before.entry(id).or_insert_with(terms);
        }
    }

    /// A number nobody has: equal on every replica, and not to be guessed from the last one.
    fn choose(&self, at: At) -> i64 {
        let mut place = [0; 20];
        place[..8].copy_from_slice(&at.slot.0.to_le_bytes());
        place[8..12].copy_from_slice(&at.index.to_le_bytes());
        let mut attempt = at.stamp_ns;
        loop {
            place[12..].copy_from_slice(&attempt.to_le_bytes());
            let id = (xxh3_64(&place) >> 1).cast_signed();
            if id != 0 && !self.exists(id) {
                return id;
            }
            attempt = attempt.wrapping_add(1);
        }
    }
}

impl Store {
    pub(crate) fn grant(&mut self, at: At, request: &LeaseGrantRequest) -> Result<Bytes, Refused> {
        if request.ttl > TTL_S_MAX {
            return Err(Refused::LeaseTtlTooLarge);
        }
        if self.leases.exists(request.id) {
            return Err(Refused::LeaseExists);
        }
        let id = match request.id {
            0 => self.leases.choose(at),
            id => id,
        };
        self.leases.grant(id, request.ttl.max(TTL_S_MIN));
        let response = LeaseGrantResponse {
            id,
            ttl: self.leases.renew(id).unwrap_or_default(),
            ..LeaseGrantResponse::default()
        };
        Ok(command::applied(self.revision, &response))
    }

    pub(crate) fn revoke(&mut self, request: &LeaseRevokeRequest) -> Result<Bytes, Refused> {
        if !self.leases.exists(request.id) {
            return Err(Refused::LeaseNotFound);
        }
        Ok(self.end_lease(request.id))
    }

    /// A lease that is gone has no time left; that is no error.
    pub(crate) fn renew(&mut self, request: &LeaseKeepAliveRequest) -> Bytes {
        let response = LeaseKeepAliveResponse {
            header: None,
            id: request.id,
            ttl: self.leases.renew(request.id).unwrap_or(0),
        };
        command::applied(self.revision, &response)
    }

    pub(crate) fn expire(&mut self, expiry: &LeaseExpiry) -> Bytes {
        let lease = self.leases.by_id.get(&expiry.id);
        let is_any = self.flaw == Some(Flaw::ExpiryIgnoresRenewals);
        if lease.is_some_and(|lease| is_any || lease.terms.renewal == expiry.renewal) {
            return self.end_lease(expiry.id);
        }
        command::applied(self.revision, &LeaseRevokeResponse::default())
    }

    /// What is known of a lease, with its keys if they are asked for.
    pub(crate) fn lease(&self, id: i64, keys: bool) -> LeaseInfo {
        let lease = self.leases.by_id.get(&id);
        LeaseInfo {
            revision: self.revision,
            ttl_s: lease.map(|lease| lease.terms.ttl_s),
            keys: lease.filter(|_| keys).map_or_else(Vec::new, Lease::keys),
        }
    }

    /// The countdowns that changed since the last call.
    pub(crate) fn countdowns(&mut self) -> Vec<Countdown> {
        let changed = std::mem::take(&mut self.leases.changed);
        let countdown = |id: i64| match self.leases.by_id.get(&id) {
            Some(lease) => Countdown::Start {
                id: id.cast_unsigned(),
                after_ns: lease
                    .terms
                    .ttl_s
                    .unsigned_abs()
                    .saturating_mul(1_000_000_000),
                command: command::encode_expiry(&LeaseExpiry {
                    id,
                    renewal: lease.terms.renewal,
                }),
            },
            None => Countdown::Stop {
                id: id.cast_unsigned(),
            },
        };
        changed.into_iter().map(countdown).collect()
    }

    /// Ends a lease. All of its keys go in one revision; without keys no revision is taken.
    fn end_lease(&mut self, id: i64) -> Bytes {
        let keys = self.leases.remove(id).map(|lease| lease.keys);
        let mut writer = WriteTransaction::new(self);
        for key in keys.into_iter().flatten() {
            writer.delete_key(&key);
        }
        command::applied(writer.finish(), &LeaseRevokeResponse::default())
    }
}
