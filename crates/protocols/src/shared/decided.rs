//! The entries decided so far, and those that never will be.

use bytes::Bytes;
use quorate_core::{Base, Decoder, Encoder, Entry, EntryId, EntrySet, Slot, Wire, WireError};

/// The entries decided so far, complete and replicated, so that one decided a second time is
/// skipped everywhere alike. Those that the log made void count as decided: if they are after all,
/// they are skipped, too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DecidedSet {
    /// The names of the entries.
    pub entries: EntrySet,
}

impl Base for DecidedSet {
    fn advance(&mut self, _: Slot, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.entries.insert(entry.id);
            voided_by(entry).into_iter().for_each(|id| {
                self.entries.insert(id);
            });
        }
    }

    fn contains(&self, entry: EntryId) -> bool {
        self.entries.contains(entry)
    }
}

impl Wire for DecidedSet {
    fn encode(&self, out: &mut Encoder) {
        self.entries.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let entries = EntrySet::decode(input)?;
        Ok(DecidedSet { entries })
    }
}

const ID_BYTES_MIN: usize = 10;

/// Writes a list of names.
pub(crate) fn encode_ids(ids: &[EntryId], out: &mut Encoder) {
    out.varint(ids.len() as u64);
    ids.iter().for_each(|id| id.encode(out));
}

/// Reads a list of names.
pub(crate) fn decode_ids(input: &mut Decoder) -> Result<Vec<EntryId>, WireError> {
    let count = input.count(ID_BYTES_MIN)?;
    (0..count).map(|_| EntryId::decode(input)).collect()
}

/// An entry that makes others void where it is decided. It has the oldest stamp there is, so that it goes
/// before what it is about wherever entries are taken by age.
pub(crate) fn void(id: EntryId, ids: &[EntryId]) -> Entry {
    let mut body = Encoder::new();
    encode_ids(ids, &mut body);
    Entry::notice(id, 0, body.into_bytes())
}

/// What an entry makes void. It does not take effect from there on, unless it did before.
pub(crate) fn voided_by(entry: &Entry) -> Vec<EntryId> {
    let read = |body: &Bytes| decode_ids(&mut Decoder::new(body.clone())).ok();
    entry.told().and_then(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, ReplicaId};

    fn id(origin: u16, seq: u64) -> EntryId {
        let (origin, boot) = (ReplicaId(origin), Boot(1));
        EntryId { origin, boot, seq }
    }

    #[test]
    fn what_is_void_counts_as_decided() {
        let dead = [id(2, 1), id(2, 7), id(3, 1)];
        let entry = Entry::from_bytes(void(id(1, 4), &dead).to_bytes()).unwrap();
        assert_eq!(voided_by(&entry), dead);
        assert_eq!((entry.stamp_ns, entry.commands().count()), (0, 0));
        let mut done = DecidedSet::default();
        done.advance(Slot(0), Some(&entry));
        let all = dead.into_iter().chain([entry.id]);
        assert!(all.into_iter().all(|id| done.contains(id)));
        assert!(!done.contains(id(2, 2)));
    }

    #[test]
    fn what_tells_nothing_voids_nothing() {
        let nothing = Entry::notice(id(1, 1), 5, Bytes::new());
        let torn = Entry::notice(id(1, 1), 5, Bytes::from_static(&[200, 1]));
        assert!(voided_by(&nothing).is_empty() && voided_by(&torn).is_empty());
    }
}
