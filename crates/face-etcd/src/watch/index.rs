//! Who watches a key: found without asking everybody.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// A watcher's number.
pub(crate) type MemberId = u64;

/// Where a range ends; `Never` is the greatest end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    Before(Bytes),
    Never,
}

/// Watchers by key and by range.
#[derive(Debug, Default)]
pub(crate) struct Index {
    keys: BTreeMap<Bytes, BTreeSet<MemberId>>,
    ranges: Ranges,
}

impl Index {
    /// Adds a watcher of a key, or of a range in the way of etcd's requests.
    pub(crate) fn insert(&mut self, key: &Bytes, range_end: &Bytes, id: MemberId) {
        match end(range_end) {
            None => drop(self.keys.entry(key.clone()).or_default().insert(id)),
            Some(end) => self.ranges.insert(key, end, id),
        }
    }

    /// Takes a watcher out.
    pub(crate) fn remove(&mut self, key: &Bytes, range_end: &Bytes, id: MemberId) {
        if let Some(end) = end(range_end) {
            return self.ranges.remove(key, &end, id);
        }
        if let Some(members) = self.keys.get_mut(key) {
            members.remove(&id);
            if members.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    /// Visits everybody who watches a key.
    pub(crate) fn visit(&self, key: &Bytes, mut visit: impl FnMut(MemberId)) {
        for id in self.keys.get(key).into_iter().flatten() {
            visit(*id);
        }
        self.ranges.visit(key, &mut visit);
    }
}

/// The end of a range; `None` for a single key.
fn end(range_end: &Bytes) -> Option<End> {
    match &range_end[..] {
        [] => None,
        [0] => Some(End::Never),
        _ => Some(End::Before(range_end.clone())),
    }
}

/// One range and who watches it.
#[derive(Debug)]
struct Range {
    start: Bytes,
    end: End,
    members: BTreeSet<MemberId>,
}

/// Ranges by start, in blocks that know how far they reach: a look-up passes over the blocks that
/// end before the key. Never an empty block.
#[derive(Debug, Default)]
struct Ranges(Vec<Block>);

#[derive(Debug)]
struct Block {
    ranges: Vec<Range>,
    reach: End,
}

/// Ranges in a block at most.
const BLOCK_RANGES: usize = 64;

impl Ranges {
    fn insert(&mut self, start: &Bytes, end: End, id: MemberId) {
        let members = BTreeSet::from([id]);
        let place = self.block_of(start, &end);
        let Some(block) = self.0.get_mut(place) else {
            let range = Range {
                start: start.clone(),
                end,
                members,
            };
            return self.0.push(Block::new(vec![range]));
        };
        match block.find(start, &end) {
            Ok(found) => drop(block.ranges[found].members.insert(id)),
            Err(free) => {
                let start = start.clone();
                block.reach = block.reach.clone().max(end.clone());
                let range = Range {
                    start,
                    end,
                    members,
                };
                block.ranges.insert(free, range);
            }
        }
        if block.ranges.len() > BLOCK_RANGES {
            let right = block.ranges.split_off(BLOCK_RANGES / 2);
            *block = Block::new(std::mem::take(&mut block.ranges));
            self.0.insert(place + 1, Block::new(right));
        }
    }

    fn remove(&mut self, start: &Bytes, end: &End, id: MemberId) {
        let place = self.block_of(start, end);
        let Some(block) = self.0.get_mut(place) else {
            return;
        };
        let Ok(found) = block.find(start, end) else {
            return;
        };
        block.ranges[found].members.remove(&id);
        if !block.ranges[found].members.is_empty() {
            return;
        }
        block.ranges.remove(found);
        if block.ranges.is_empty() {
            self.0.remove(place);
        } else {
            *block = Block::new(std::mem::take(&mut block.ranges));
        }
    }

    fn visit(&self, key: &Bytes, visit: &mut impl FnMut(MemberId)) {
        let past = |end: &End| *end == End::Never || *end > End::Before(key.clone());
        let blocks = self
            .0
            .partition_point(|block| block.ranges[0].start <= *key);
        for block in self.0[..blocks].iter().filter(|block| past(&block.reach)) {
            let begun = block.ranges.iter().take_while(|range| range.start <= *key);
            for range in begun.filter(|range| past(&range.end)) {
                range.members.iter().for_each(|id| visit(*id));
            }
        }
    }

    /// The block in which a range is, or would be; the first if there is none before it.
    fn block_of(&self, start: &Bytes, end: &End) -> usize {
        let after = self.0.partition_point(|block| {
            (&block.ranges[0].start, &block.ranges[0].end) <= (start, end)
        });
        after.saturating_sub(1)
    }
}

impl Block {
    fn new(ranges: Vec<Range>) -> Self {
        let ends = ranges.iter().map(|range| range.end.clone());
        let reach = ends.max().unwrap_or(End::Before(Bytes::new()));
        Block { ranges, reach }
    }

    fn find(&self, start: &Bytes, end: &End) -> Result<usize, usize> {
        (self.ranges).binary_search_by(|range| (&range.start, &range.end).cmp(&(start, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of numbers good enough to mix things up.
    fn next(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *state >> 33
    }

    fn key(state: &mut u64) -> Bytes {
        let length = 1 + next(state) % 2;
        (0..length)
            .map(|_| b'a' + (next(state) % 20) as u8)
            .collect()
    }

    fn within(key: &[u8], start: &[u8], end: &[u8]) -> bool {
        match end {
            b"" => key == start,
            b"\0" => key >= start,
            _ => start <= key && key < end,
        }
    }

    #[test]
    fn everybody_who_watches_a_key_is_found_and_nobody_else() {
        let state = &mut 5;
        let mut index = Index::default();
        let mut all: Vec<(Bytes, Bytes, MemberId)> = Vec::new();
        for id in 0..6000 {
            if next(state).is_multiple_of(3) && !all.is_empty() {
                let (start, end, id) = all.swap_remove(next(state) as usize % all.len());
                index.remove(&start, &end, id);
            } else {
                let start = key(state);
                let end = match next(state) % 6 {
                    0 => Bytes::new(),
                    1 => Bytes::from_static(b"\0"),
                    _ => key(state),
                };
                index.insert(&start, &end, id);
                all.push((start, end, id));
            }
            if id % 20 == 0 {
                let key = key(state);
                let mut found = Vec::new();
                index.visit(&key, |id| found.push(id));
                found.sort_unstable();
                let watches = all.iter().filter(|(s, e, _)| within(&key, s, e));
                let mut expected: Vec<_> = watches.map(|(.., id)| *id).collect();
                expected.sort_unstable();
                assert_eq!(found, expected);
            }
        }
        for (start, end, id) in all {
            index.remove(&start, &end, id);
        }
        assert!(index.keys.is_empty() && index.ranges.0.is_empty());
    }
}
