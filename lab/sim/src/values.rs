//! Values that are kept apart, as clients stored them: what the store's references stand for.
//!
//! Judges compare values, so a reference in an answer is replaced by the value that a client stored
//! under its digest. That replicas can give the bytes is another matter: clients ask for payloads
//! too, during the faults and, all that are live, at every replica in the end.

use bytes::Bytes;
use quorate_core::Payload;
use quorate_etcd_store::{Refused, ValueRef};
use std::collections::BTreeMap;

/// Every value that was kept apart.
#[derive(Default)]
pub(crate) struct Values {
    /// How long values are that are kept apart, in bytes; `None` if none are.
    pub(crate) payload_min: Option<usize>,
    by_digest: BTreeMap<u128, Bytes>,
}

impl Values {
    /// A client is about to store these.
    pub(crate) fn note(&mut self, payloads: &[Payload]) {
        for payload in payloads {
            if let Some(bytes) = &payload.bytes {
                self.by_digest.insert(payload.digest, bytes.clone());
            }
        }
    }

    /// What these references stand for, in order.
    pub(crate) fn of(
        &self,
        references: Result<Vec<ValueRef>, Refused>,
    ) -> Result<Vec<Bytes>, String> {
        let references = references.map_err(|why| format!("no reference: {why:?}"))?;
        let value = |reference: &ValueRef| {
            let value = self.by_digest.get(&reference.digest);
            let value = value.filter(|bytes| bytes.len() == reference.len as usize);
            value
                .cloned()
                .ok_or_else(|| format!("nobody stored what {reference:?} stands for"))
        };
        references.iter().map(value).collect()
    }
}
