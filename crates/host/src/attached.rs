//! Records of the machine whose fragments lie in the bulk store: which of them count.

use crate::bulk::BulkStore;
use crate::log::{Position, decode_mark};
use bytes::Bytes;
use quorate_core::{Attachment, EntryId, Record};
use std::collections::BTreeMap;

/// Where the records lie whose fragments are in the bulk store, and how far each boot knew the log to
/// be durable. A mark of a later boot says nothing of whether a flush had ended.
#[derive(Default)]
pub(crate) struct Attached {
    places: BTreeMap<(EntryId, u8), Vec<(Position, u32)>>,
    marked: BTreeMap<u32, Position>,
}

impl Attached {
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

    /// Whether the boot that wrote such a record knew it to be durable.
    fn was_durable(&self, entry: EntryId, code: u8) -> bool {
        let places = self.places.get(&(entry, code)).into_iter().flatten();
        let marked = |boot| self.marked.get(&boot).copied().unwrap_or_default();
        places.into_iter().any(|(at, boot)| *at < marked(*boot))
    }

    /// Takes those out whose fragments never came to lie on the disk, and tells the others of damage
    /// to theirs. Says which entries were in what was taken out.
    pub(crate) fn judge<R: Record>(&self, records: &mut Vec<R>, bulk: &BulkStore) -> Vec<EntryId> {
        let mut dropped = Vec::new();
        records.retain_mut(|record| {
            let Some(Attachment { entry, code }) = record.attachment() else {
                return true;
            };
            let (id, parts) = (entry.id, entry.payloads().count() as u32);
            if bulk.held(id, parts, code) {
                return true;
            }
            let is_known = self.was_durable(id, code);
            if is_known {
                record.bereave();
            } else {
                dropped.push(id);
            }
            is_known
        });
        dropped
    }
}
