//! Everything that counts of a store, read out in slices, for a snapshot that another program can read.
//!
//! Versions come by revision: first those older than the compacted revision that were there when it came, by key, then
//! every change from there on. A [`Pin`] keeps them until the last slice.

use crate::auth::ExportedAuth;
use crate::refused::Refused;
use crate::slice::Pin;
use crate::value_refs::{ValueRef, is_value_ref};
use bytes::Bytes;
use quorate_etcd_api::mvccpb::KeyValue;

/// What an export begins with: all that is of one moment, but the versions of keys.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportHead {
    /// The store's revision, and the last that is exported.
    pub revision: i64,
    /// The first revision that can be read; -1 before any compaction.
    pub compacted: i64,
    /// The numbers of all leases, ascending, and the times to live that they were granted with, in seconds.
    pub leases: Vec<(i64, i64)>,
    /// Users and roles.
    pub auth: ExportedAuth,
    /// What to ask for first.
    pub rest: ExportRest,
}

/// What is left of an export, as a query.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportRest {
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) place: ExportPlace,
    pub(crate) pin: Pin,
}

/// How far an export has come.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ExportPlace {
    /// Among versions older than the compacted revision: keys after this one.
    Older(Option<Bytes>),
    /// Among the changes: this place within this revision is the next.
    Changes(i64, u32),
}

/// Some versions of an export.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportPart {
    /// What is older than the compacted revision comes in any order, everything else as it was made.
    pub versions: Vec<ExportedVersion>,
    /// What to ask for next; nothing once all is told.
    pub next: Option<ExportRest>,
}

impl ExportPart {
    /// The values that are kept as payloads, in order.
    ///
    /// # Errors
    /// That the store wrote a reference that cannot be read.
    pub fn value_refs(&self) -> Result<Vec<ValueRef>, Refused> {
        let versions = self.versions.iter();
        versions
            .filter_map(|version| ValueRef::of(&version.kv))
            .collect()
    }

    /// Puts their bytes in their place, in the order of [`ExportPart::value_refs`].
    pub fn fill(&mut self, values: Vec<Bytes>) {
        let apart = self.versions.iter_mut();
        let apart = apart.filter(|version| is_value_ref(&version.kv));
        for (version, value) in apart.zip(values) {
            version.kv.version = -version.kv.version;
            version.kv.value = value;
        }
    }
}

/// A version of a key, or its end.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportedVersion {
    /// Revision of the change.
    pub revision: i64,
    /// The change's place within the revision, from 0.
    pub sub: u32,
    /// Whether the change deleted the key.
    pub is_deletion: bool,
    /// The key, and of a write everything else. The value may be apart: see [`crate::ValueRef::of`].
    pub kv: KeyValue,
}
