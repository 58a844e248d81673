//! What changed, in the order in which it did: the road from a revision to its events.
//!
//! A change is a revision and a key; the rest is in the key's own history. Keys are packed into
//! blocks, so that a change costs little more than its key.

use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};
use std::collections::VecDeque;

/// One change of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyChange<'a> {
    /// The revision it belongs to.
    pub(crate) revision: i64,
    /// The change's place within the revision, from 0 without gaps.
    pub(crate) sub: u32,
    /// What was changed.
    pub(crate) key: &'a [u8],
}

/// All changes that are still kept, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    blocks: VecDeque<Block>,
    bytes: u64,
}

/// Consecutive changes. An entry is the distance in revisions to the one before it, the length of
/// its key, and the key.
#[derive(Debug)]
struct Block {
    /// Revision and place of the first entry that is kept; its distance says nothing.
    first: (i64, u32),
    /// Where that entry begins.
    from: usize,
    /// Revision of the last entry.
    last: i64,
    bytes: Vec<u8>,
}

/// Size of a block, unless one key is larger.
const BLOCK_BYTES: usize = 4096;

impl Journal {
    /// Appends a change; changes come in order.
    pub(crate) fn push(&mut self, change: KeyChange<'_>) {
        let length = 10 + encoded_len_varint(change.key.len() as u64) + change.key.len();
        let room =
            (self.blocks.back()).is_some_and(|b| b.bytes.capacity() >= b.bytes.len() + length);
        if !room {
            self.blocks.push_back(Block {
                first: (change.revision, change.sub),
                from: 0,
                last: change.revision,
                bytes: Vec::with_capacity(BLOCK_BYTES.max(length)),
            });
        }
        if let Some(block) = self.blocks.back_mut() {
            debug_assert!(block.last <= change.revision);
            let before = block.bytes.len();
            let distance = change.revision.abs_diff(block.last);
            encode_varint(distance, &mut block.bytes);
            encode_varint(change.key.len() as u64, &mut block.bytes);
            block.bytes.extend_from_slice(change.key);
            block.last = change.revision;
            self.bytes += (block.bytes.len() - before) as u64;
        }
    }

    /// Memory held, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest change kept.
    pub(crate) fn first(&self) -> Option<KeyChange<'_>> {
        Entries::of(self.blocks.front()?).next()
    }

    /// Forgets the oldest change.
    pub(crate) fn drop_first(&mut self) {
        let Some(block) = self.blocks.front_mut() else {
            return;
        };
        let mut entries = Entries::of(block);
        entries.next();
        let from = block.bytes.len() - entries.rest.len();
        let next = entries.next().map(|change| (change.revision, change.sub));
        self.bytes -= (from - block.from) as u64;
        match next {
            Some(first) => (block.first, block.from) = (first, from),
            None => drop(self.blocks.pop_front()),
        }
    }

    /// Forgets the changes from a revision on, and says of which keys they were, the newest first.
    pub(crate) fn take_since(&mut self, revision: i64) -> Vec<Box<[u8]>> {
        let mut keys: Vec<Box<[u8]>> = self.since(revision).map(|c| c.key.into()).collect();
        keys.reverse();
        while self.blocks.back().is_some_and(|b| b.last >= revision) {
            let Some(mut block) = self.blocks.pop_back() else {
                break;
            };
            let bytes = block.bytes.len() - block.from;
            if let Some((end, last)) = block.end_before(revision) {
                self.bytes -= (block.bytes.len() - end) as u64;
                block.bytes.truncate(end);
                block.last = last;
                self.blocks.push_back(block);
            } else {
                self.bytes -= bytes as u64;
            }
        }
        keys
    }

    /// The changes from a revision on.
    pub(crate) fn since(&self, revision: i64) -> impl Iterator<Item = KeyChange<'_>> {
        let blocks = self.blocks.partition_point(|block| block.last < revision);
        (self.blocks.range(blocks..))
            .flat_map(Entries::of)
            .skip_while(move |change| change.revision < revision)
    }

    /// The changes of one revision from a place within it on.
    pub(crate) fn within(&self, revision: i64, sub: u32) -> impl Iterator<Item = KeyChange<'_>> {
        let from = (revision, sub);
        let blocks = self.blocks.partition_point(|block| block.first <= from);
        (self.blocks.range(blocks.saturating_sub(1)..))
            .flat_map(Entries::of)
            .skip_while(move |change| (change.revision, change.sub) < from)
            .take_while(move |change| change.revision == revision)
    }
}

impl Block {
    /// Where the entries of earlier revisions end, and the last of these; `None` if there are none.
    fn end_before(&self, revision: i64) -> Option<(usize, i64)> {
        let mut entries = Entries::of(self);
        let mut end = None;
        while let Some(change) = entries.next().filter(|c| c.revision < revision) {
            let at = self.bytes.len() - entries.rest.len();
            end = Some((at, change.revision));
        }
        end
    }
}

/// The entries of one block.
struct Entries<'a> {
    rest: &'a [u8],
    /// Revision and place of the entry before, unless there is none.
    before: Option<(i64, u32)>,
    first: (i64, u32),
}

impl<'a> Entries<'a> {
    fn of(block: &'a Block) -> Self {
        Entries {
            rest: &block.bytes[block.from..],
            before: None,
            first: block.first,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = KeyChange<'a>;

    fn next(&mut self) -> Option<KeyChange<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut number = || decode_varint(&mut self.rest).expect("the journal wrote it itself");
        let (distance, length) = (number(), number());
        let (key, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        let (revision, sub) = match self.before {
            None => self.first,
            Some((revision, sub)) if distance == 0 => (revision, sub + 1),
            Some((revision, _)) => (revision.saturating_add_unsigned(distance), 0),
        };
        self.before = Some((revision, sub));
        Some(KeyChange { revision, sub, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_from_any_revision_and_after_forgetting_any_part() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut journal, mut model) = (Journal::default(), VecDeque::new());
        let (mut revision, mut sub) = (2, 0);
        for _ in 0..20_000 {
            match rng.u8(..8) {
                0 => {
                    journal.drop_first();
                    model.pop_front();
                    continue;
                }
                // A gap: not every revision need be known.
                1 => (revision, sub) = (revision + rng.i64(1..400), 0),
                2..=4 => (revision, sub) = (revision + 1, 0),
                _ => sub += 1,
            }
            let long = rng.u32(..500) == 0;
            let key = vec![rng.u8(..); if long { 9000 } else { rng.usize(..40) }];
            journal.push(KeyChange {
                revision,
                sub,
                key: &key,
            });
            model.push_back((revision, sub, key));
        }
        let all = |from: i64| -> Vec<(i64, u32, Vec<u8>)> {
            let changes = journal.since(from);
            changes
                .map(|c| (c.revision, c.sub, c.key.to_vec()))
                .collect()
        };
        assert!(model.len() > 3000);
        assert_eq!(all(0), Vec::from(model.clone()));
        for (from, ..) in model.iter().step_by(97) {
            let expected: Vec<_> = model.iter().filter(|c| c.0 >= *from).cloned().collect();
            assert_eq!(all(*from), expected);
        }
        for (revision, sub, _) in model.iter().step_by(97) {
            for sub in [*sub, sub + 3] {
                let subs: Vec<_> = journal.within(*revision, sub).map(|c| c.sub).collect();
                let of_it = model.iter().filter(|c| c.0 == *revision && c.1 >= sub);
                assert_eq!(subs, of_it.map(|c| c.1).collect::<Vec<_>>());
            }
        }
        for _ in 0..model.len() {
            journal.drop_first();
        }
        assert_eq!((journal.first(), journal.bytes()), (None, 0));
    }
}
