//! Whether one version of a key satisfies a condition of a transaction.

use crate::history::Version;
use crate::refused::Refused;
use crate::value_refs::ValueRef;
use quorate_etcd_api::etcdserverpb::Compare;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use std::cell::OnceCell;
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_128;

/// The value that others are compared with.
pub(crate) struct Operand<'a> {
    value: &'a [u8],
    /// Only what is kept as a payload is compared by it.
    digest: OnceCell<u128>,
}

impl<'a> Operand<'a> {
    /// That of a condition; an operand of another kind counts as the empty value.
    pub(crate) fn of(condition: &'a Compare) -> Self {
        let value = match &condition.target_union {
            Some(TargetUnion::Value(value)) => &value[..],
            _ => &[],
        };
        let digest = OnceCell::new();
        Operand { value, digest }
    }

    /// How a value that is kept as a payload compares; `None` if only its bytes could tell.
    fn compare(&self, apart: &ValueRef) -> Option<Ordering> {
        let digest = || *self.digest.get_or_init(|| xxh3_128(self.value));
        if apart.len as usize == self.value.len() && apart.digest == digest() {
            return Some(Ordering::Equal);
        }
        self.value.is_empty().then_some(Ordering::Greater)
    }
}

/// Whether one version satisfies a condition. An operand of another kind than the target counts as
/// zero; an unknown relation always holds. Both are etcd's way.
pub(crate) fn satisfies(
    condition: &Compare,
    operand: &Operand<'_>,
    version: &Version,
) -> Result<bool, Refused> {
    use TargetUnion::{CreateRevision, Lease, ModRevision, Version as Versions};
    let number = &condition.target_union;
    let ordering = match (CompareTarget::try_from(condition.target), number) {
        (Ok(CompareTarget::Value), _) => match version.value.bytes() {
            Ok(bytes) => Some(bytes.cmp(operand.value)),
            Err(reference) => operand.compare(reference),
        },
        (Ok(CompareTarget::Version), Some(Versions(n))) => Some(version.version.cmp(n)),
        (Ok(CompareTarget::Version), _) => Some(version.version.cmp(&0)),
        (Ok(CompareTarget::Create), Some(CreateRevision(n))) => Some(version.created.cmp(n)),
        (Ok(CompareTarget::Create), _) => Some(version.created.cmp(&0)),
        (Ok(CompareTarget::Mod), Some(ModRevision(n))) => Some(version.modified.cmp(n)),
        (Ok(CompareTarget::Mod), _) => Some(version.modified.cmp(&0)),
        (Ok(CompareTarget::Lease), Some(Lease(n))) => Some(version.lease.cmp(n)),
        (Ok(CompareTarget::Lease), _) => Some(version.lease.cmp(&0)),
        (Err(_), _) => Some(Ordering::Equal),
    };
    relates(condition, ordering)
}

/// Whether an ordering is what a condition asks for. One that is not known is not equality.
fn relates(condition: &Compare, ordering: Option<Ordering>) -> Result<bool, Refused> {
    Ok(match CompareResult::try_from(condition.result) {
        Ok(CompareResult::Equal) => ordering == Some(Ordering::Equal),
        Ok(CompareResult::NotEqual) => ordering != Some(Ordering::Equal),
        Ok(CompareResult::Greater) => ordering.ok_or(Refused::NeedsValue)?.is_gt(),
        Ok(CompareResult::Less) => ordering.ok_or(Refused::NeedsValue)?.is_lt(),
        Err(_) => true,
    })
}
