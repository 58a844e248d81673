//! What every replica that ever lived has applied, slot by slot.

use quorate_core::{EntryId, RequestId, Slot};
use quorate_host::SnapshotId;
use std::collections::BTreeMap;

use bytes::Bytes;

/// The one sequence all replicas must agree on.
#[derive(Default)]
pub(crate) struct Agreement {
    /// What each slot holds, from slot 0, and who said so first; `None` where nobody said yet.
    slots: Vec<Option<(Option<EntryId>, usize)>>,
    /// The slot of each entry.
    entries: BTreeMap<EntryId, Slot>,
    /// The digest of everything before a slot, and who said so first.
    digests: BTreeMap<Slot, (u64, usize)>,
    /// The snapshot of each slot, and who took it first.
    snapshots: BTreeMap<Slot, (SnapshotId, usize)>,
    /// The answer given to each command: the same whoever gives it, however often.
    answers: BTreeMap<RequestId, (Slot, Bytes)>,
    /// Answered before their slots were applied where they were asked.
    promised: BTreeMap<Slot, RequestId>,
    /// Whether answers ahead of the decision say what commands come to, and no more than about where.
    are_slots_vague: bool,
}

impl Agreement {
    /// Nothing was said yet, by replicas that start with a protocol whose answers name slots, or do not.
    pub(crate) fn new(answers_name_slots: bool) -> Self {
        Agreement {
            are_slots_vague: !answers_name_slots,
            ..Agreement::default()
        }
    }

    /// A command was answered before its slot was applied there.
    pub(crate) fn promised(&mut self, id: RequestId, slot: Slot) {
        self.promised.insert(slot, id);
    }

    /// Everybody has applied everything: so are the slots of all answers.
    pub(crate) fn check_promised(&self) -> Result<(), String> {
        let end = self.slots.iter().rposition(Option::is_some);
        let end = Slot(end.map_or(0, |last| last as u64 + 1));
        match self.promised.range(end..).next() {
            None => Ok(()),
            Some((slot, id)) => Err(format!(
                "{id:?} was answered at {slot:?}, which nobody decided"
            )),
        }
    }

    /// A replica applied a slot.
    pub(crate) fn applied(
        &mut self,
        replica: usize,
        slot: Slot,
        entry: Option<EntryId>,
    ) -> Result<(), String> {
        let index = slot.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        if let Some((first, who)) = self.slots[index] {
            if first == entry {
                return Ok(());
            }
            return Err(format!(
                "slot {slot}: replica {} applied {first:?} and replica {} applied {entry:?}",
                who + 1,
                replica + 1
            ));
        }
        self.slots[index] = Some((entry, replica));
        match entry.and_then(|entry| self.entries.insert(entry, slot)) {
            None => Ok(()),
            Some(before) => Err(format!(
                "{entry:?} was applied in slots {before} and {slot}"
            )),
        }
    }

    /// A replica applied everything before a slot.
    pub(crate) fn digest(&mut self, replica: usize, next: Slot, digest: u64) -> Result<(), String> {
        let (first, who) = *self.digests.entry(next).or_insert((digest, replica));
        if first == digest {
            return Ok(());
        }
        Err(format!(
            "replicas {} and {} differ in what they applied before slot {next}: digests \
             {first:016x} and {digest:016x}",
            who + 1,
            replica + 1
        ))
    }

    /// A replica took a snapshot.
    pub(crate) fn snapshot(&mut self, replica: usize, snapshot: SnapshotId) -> Result<(), String> {
        let taken = self.snapshots.entry(snapshot.slot);
        let (first, who) = *taken.or_insert((snapshot, replica));
        if first == snapshot {
            return Ok(());
        }
        Err(format!(
            "the snapshots of replicas {} and {} differ: {first:?} and {snapshot:?}",
            who + 1,
            replica + 1
        ))
    }

    /// A command was answered.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        slot: Slot,
        result: &Bytes,
    ) -> Result<(), String> {
        let answer = self
            .answers
            .entry(id)
            .or_insert_with(|| (slot, result.clone()));
        let is_same = answer.1 == *result && (answer.0 == slot || self.are_slots_vague);
        if is_same {
            return Ok(());
        }
        Err(format!(
            "{id:?} was answered {answer:?} and then {:?}",
            (slot, result)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, ReplicaId};

    fn entry(seq: u64) -> Option<EntryId> {
        Some(EntryId {
            origin: ReplicaId(1),
            boot: Boot(1),
            seq,
        })
    }

    #[test]
    fn two_replicas_may_not_apply_different_entries_in_a_slot() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.applied(0, Slot(0), entry(1)), Ok(()));
        assert_eq!(agreement.applied(1, Slot(0), entry(1)), Ok(()));
        assert!(agreement.applied(2, Slot(0), None).is_err());
    }

    #[test]
    fn an_entry_may_not_be_applied_in_two_slots() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.applied(0, Slot(0), entry(1)), Ok(()));
        assert!(agreement.applied(0, Slot(1), entry(1)).is_err());
    }

    #[test]
    fn equal_slots_have_equal_digests() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.digest(0, Slot(5), 1), Ok(()));
        assert_eq!(agreement.digest(1, Slot(6), 2), Ok(()));
        assert!(agreement.digest(1, Slot(5), 3).is_err());
    }
}
