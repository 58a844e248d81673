//! Fragments of entries that are under way, made once for all who get one.

use super::coder::Coder;
use quorate_core::{Attachment, EntryId, Share};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Entries whose fragments are kept, at most; those of the oldest are made again if needed.
const KEPT_MAX: usize = 64;
/// Their bytes, at most, unless one entry alone has more.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What one member gets, and the XXH3-64 of each part of it, if they are known.
pub(crate) type Coming = (Arc<Share>, Arc<[u64]>);

/// What all members get of the payloads of an entry.
#[derive(Debug)]
pub(crate) struct Made(Vec<Coming>);

impl Made {
    /// `None` for a code that cannot be.
    pub(crate) fn of(coder: &Coder, whole: &Arc<Share>, code: u8) -> Option<Made> {
        let mut shares = coder.shares(whole, code)?;
        let checksums = |share: &Share| share.parts.iter().map(|part| xxh3_64(part)).collect();
        if code == 1 {
            let share = shares.pop()?;
            let checksums: Arc<[u64]> = checksums(&share);
            return Some(Made(vec![(share, checksums); shares.len() + 1]));
        }
        let with_checksums = |share: Arc<Share>| (Arc::clone(&share), checksums(&share));
        Some(Made(shares.into_iter().map(with_checksums).collect()))
    }

    /// Bytes in memory: who gets the whole shares it.
    fn bytes(&self) -> usize {
        let Made(all) = self;
        let apart = match all.first() {
            Some((share, _)) if share.is_whole() => 1,
            _ => all.len(),
        };
        all.iter().take(apart).map(|(share, _)| share.len()).sum()
    }
}

/// Fragments by entry and code.
#[derive(Debug, Default)]
pub(crate) struct Coded {
    made: BTreeMap<(EntryId, u8), Made>,
    /// In the order they were made.
    order: VecDeque<(EntryId, u8)>,
    /// Of all fragments.
    bytes: usize,
}

impl Coded {
    /// What the member of this index gets of what is attached; `None` if it cannot be made of what
    /// is at hand.
    pub(crate) fn share(
        &mut self,
        coder: &Coder,
        attachment: Attachment<'_>,
        index: u8,
    ) -> Option<Coming> {
        let (entry, code) = (attachment.entry, attachment.code);
        let at_hand = entry.share()?;
        if !at_hand.is_whole() {
            let is_it = (at_hand.code, at_hand.index) == (code, index);
            return is_it.then(|| (Arc::clone(at_hand), Arc::default()));
        }
        let of = (entry.id, code);
        if !self.has(of) {
            self.keep(of, Made::of(coder, at_hand, code)?);
        }
        self.made[&of].0.get(usize::from(index)).cloned()
    }

    /// Whether the fragments of an entry under a code are here.
    pub(crate) fn has(&self, of: (EntryId, u8)) -> bool {
        self.made.contains_key(&of)
    }

    /// Keeps fragments for who gets them.
    pub(crate) fn keep(&mut self, of: (EntryId, u8), made: Made) {
        self.bytes += made.bytes();
        match self.made.insert(of, made) {
            Some(before) => self.bytes -= before.bytes(),
            None => self.order.push_back(of),
        }
        let is_over = |kept: &Self| kept.order.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX;
        while is_over(self)
            && self.order.len() > 1
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(&oldest);
        }
    }

    /// An entry is decided: nobody gets fragments of it any more but who lacks them.
    pub(crate) fn forget(&mut self, entry: EntryId) {
        self.order.retain(|(id, _)| *id != entry);
        let keys = (entry, 0)..=(entry, u8::MAX);
        let gone: Vec<_> = self.made.range(keys).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, of: &(EntryId, u8)) {
        if let Some(made) = self.made.remove(of) {
            self.bytes -= made.bytes();
        }
    }

    /// Bytes of all fragments but the last entry's, and the most there may be.
    pub(crate) fn size(&self) -> (usize, usize) {
        let last = self.order.back().and_then(|of| self.made.get(of));
        (self.bytes - last.map_or(0, Made::bytes), KEPT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_core::{Class, Command, EntryBuilder, Payload, Principal, RequestId};

    fn entry(seq: u64) -> quorate_core::Entry {
        let mut builder = EntryBuilder::default();
        builder.push(&Command {
            id: RequestId::default(),
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: Bytes::new(),
            payloads: vec![Payload::of(Bytes::from(vec![seq as u8; 30]))],
        });
        let id = EntryId {
            seq,
            ..EntryId::default()
        };
        builder.finish(id, 0)
    }

    #[test]
    fn fragments_are_made_once_and_of_the_whole_only() {
        let (coder, mut coded) = (Coder::new(5), Coded::default());
        let entry = entry(1);
        let attached = |entry, code| Attachment { entry, code };
        let (first, checksums) = coded.share(&coder, attached(&entry, 3), 4).unwrap();
        let (again, _) = coded.share(&coder, attached(&entry, 3), 4).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && first.parts[0].len() == 10);
        assert_eq!(checksums[..], [xxh3_64(&first.parts[0])]);
        let (whole, checksums) = coded.share(&coder, attached(&entry, 1), 2).unwrap();
        assert!(whole.is_whole());
        assert_eq!(checksums[..], [xxh3_64(&whole.parts[0])]);
        let holder = entry.clone().with_share(Some(first));
        assert!(coded.share(&coder, attached(&holder, 3), 4).is_some());
        assert!(coded.share(&coder, attached(&holder, 3), 1).is_none());
        assert!(
            coded
                .share(&coder, attached(&entry.clone().with_share(None), 3), 1)
                .is_none()
        );
    }

    #[test]
    fn only_so_many_are_kept_and_none_of_what_is_decided() {
        let (coder, mut coded) = (Coder::new(5), Coded::default());
        for seq in 0..200 {
            let entry = entry(seq);
            let attachment = Attachment {
                entry: &entry,
                code: 3,
            };
            assert!(coded.share(&coder, attachment, 1).is_some());
            if seq % 2 == 0 {
                coded.forget(entry.id);
            }
        }
        assert_eq!((coded.made.len(), coded.order.len()), (KEPT_MAX, KEPT_MAX));
        // Five fragments of ten bytes.
        assert_eq!(coded.bytes, 50 * KEPT_MAX);
        for seq in (1..200).step_by(2) {
            coded.forget(entry(seq).id);
        }
        assert_eq!((coded.bytes, coded.size().0), (0, 0));
    }
}
