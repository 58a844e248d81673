//! Fragments of entries that are under way, made once for all who get one.

use super::coder::Coder;
use quorate_core::{Attachment, EntryId, Share};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries whose fragments are kept, at most; those of the oldest are made again if needed.
const KEPT_MAX: usize = 64;

/// Fragments by entry and code.
#[derive(Debug, Default)]
pub(crate) struct Coded {
    shares: BTreeMap<(EntryId, u8), Vec<Arc<Share>>>,
    /// In the order they were made.
    order: std::collections::VecDeque<(EntryId, u8)>,
}

impl Coded {
    /// What the member of this index gets of what is attached; `None` if it cannot be made of what
    /// is at hand.
    pub(crate) fn share(
        &mut self,
        coder: &Coder,
        attachment: Attachment<'_>,
        index: u8,
    ) -> Option<Arc<Share>> {
        let (entry, code) = (attachment.entry, attachment.code);
        let at_hand = entry.share()?;
        if (at_hand.code, at_hand.index) == (code, index) || code == 1 && at_hand.is_whole() {
            return Some(Arc::clone(at_hand));
        }
        if !at_hand.is_whole() {
            return None;
        }
        let key = (entry.id, code);
        if let Some(shares) = self.shares.get(&key) {
            return shares.get(usize::from(index)).cloned();
        }
        let shares = coder.shares(at_hand, code)?;
        let share = shares.get(usize::from(index)).cloned();
        self.shares.insert(key, shares);
        self.order.push_back(key);
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.shares.remove(&oldest);
        }
        share
    }

    /// An entry is decided: nobody gets fragments of it any more but who lacks them.
    pub(crate) fn forget(&mut self, entry: EntryId) {
        self.order.retain(|(id, _)| *id != entry);
        let keys = (entry, 0)..=(entry, u8::MAX);
        let gone: Vec<_> = self.shares.range(keys).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| drop(self.shares.remove(key)));
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
        let first = coded.share(&coder, attached(&entry, 3), 4).unwrap();
        let again = coded.share(&coder, attached(&entry, 3), 4).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && first.parts[0].len() == 10);
        let whole = coded.share(&coder, attached(&entry, 1), 2).unwrap();
        assert!(whole.is_whole());
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
        assert_eq!(
            (coded.shares.len(), coded.order.len()),
            (KEPT_MAX, KEPT_MAX)
        );
    }
}
