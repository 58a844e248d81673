//! Records of the machine whose fragments lie in the fragment store: which of them count.

use crate::fragments::FragmentStore;
use crate::log::decode_mark;
use crate::position::Position;
use bytes::Bytes;
use quorate_core::{Attachment, Boot, Decoder, Encoder, EntryId, Record, Wire, WireError};
use std::collections::BTreeMap;

/// A record that a start left out, and with it what rests on it: by its entry, and how many of the fragments that
/// never came rebuild that. What was never said must not come back at a later start, when fragments may be here.
pub(crate) type LeftOut = (EntryId, u8);

/// Where the records lie whose fragments are in the fragment store, and how far each boot knew the log to
/// be durable. A mark of a later boot says nothing of whether a flush had ended.
#[derive(Default)]
pub(crate) struct AttachmentCheck {
    places: BTreeMap<(EntryId, u8), Vec<(Position, u32)>>,
    marked: BTreeMap<u32, Position>,
}

impl AttachmentCheck {
    pub(crate) fn note(&mut self, record: &impl Record, at: Position, boot: u32) {
        if let Some(attachment) = record.attachment() {
            let name = (attachment.entry.id, attachment.code);
            self.places.entry(name).or_default().push((at, boot));
        }
    }

    pub(crate) fn mark(&mut self, boot: u32, body: &Bytes) {
        let marked = self.marked.entry(boot).or_default();
        *marked = decode_mark(body).unwrap_or_default().max(*marked);
    }

    /// Whether any record has a fragment in the fragment store.
    pub(crate) fn refers_to_any(&self) -> bool {
        !self.places.is_empty()
    }

    /// These records so far count no more.
    pub(crate) fn forget(&mut self, left_out: &[LeftOut]) {
        self.places.retain(|of, _| !left_out.contains(of));
    }

    /// Whether the boot that wrote such a record knew it to be durable.
    fn was_durable(&self, entry: EntryId, code: u8) -> bool {
        let places = self.places.get(&(entry, code)).into_iter().flatten();
        let marked = |boot| self.marked.get(&boot).copied().unwrap_or_default();
        places.into_iter().any(|(at, boot)| *at < marked(*boot))
    }

    /// Those whose fragments never came to lie on the disk. The others are told of damage to theirs.
    pub(crate) fn judge<R: Record>(
        &self,
        records: &mut [R],
        fragments: &FragmentStore,
    ) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        for record in records {
            let Some(Attachment { entry, code }) = record.attachment() else {
                continue;
            };
            let (id, parts) = (entry.id, entry.payloads().count() as u32);
            if fragments.held(id, parts, code) {
                continue;
            }
            match self.was_durable(id, code) {
                true => record.drop_attachment(),
                false => left_out.push((id, code)),
            }
        }
        left_out
    }
}

/// What the first record of a start says: which start it is, and what it left out.
pub(crate) fn encode_boot(boot: Boot, left_out: &[LeftOut]) -> Encoder {
    let mut body = Encoder::new();
    body.u64(boot.0);
    for (entry, code) in left_out {
        entry.encode(&mut body);
        body.u8(*code);
    }
    body
}

/// What a start left out, as its first record says.
pub(crate) fn decode_left_out(boot: Bytes) -> Result<Vec<LeftOut>, WireError> {
    let mut input = Decoder::new(boot);
    input.u64()?;
    let mut left_out = Vec::new();
    while input.remaining() > 0 {
        left_out.push((EntryId::decode(&mut input)?, input.u8()?));
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_says_what_it_left_out() {
        let id = |seq| EntryId {
            origin: quorate_core::ReplicaId(3),
            boot: Boot(seq << 40),
            seq,
        };
        for left_out in [vec![], vec![(id(1), 3)], vec![(id(1), 3), (id(700), 1)]] {
            let mut body = encode_boot(Boot(7), &left_out);
            let body = body.take_chunks().concat();
            assert_eq!(body[..8], 7u64.to_le_bytes());
            assert_eq!(decode_left_out(body.clone().into()), Ok(left_out.clone()));
            for cut in 8..body.len() {
                let cut = decode_left_out(Bytes::copy_from_slice(&body[..cut]));
                assert!(cut.ok().is_none_or(|cut| cut.len() < left_out.len()));
            }
        }
    }
}
