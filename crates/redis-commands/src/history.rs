//! The bodies since the newest RDB, by their positions.

use crate::body::Entry;
use std::collections::VecDeque;
use std::sync::Arc;

/// Entries that are kept together: a copy of the history shares them.
const CHUNK_ENTRIES: usize = 256;
/// What is counted for keeping an entry, beside its bytes.
const ENTRY_BYTES: u64 = 64;

/// Consecutive entries. A copy is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    begin: u64,
    end: u64,
    bytes: u64,
    /// Bytes of all entries that were ever added.
    pushed: u64,
    chunks: VecDeque<Arc<Chunk>>,
}

/// Some consecutive entries, the first of which has this position.
#[derive(Clone, Debug)]
struct Chunk {
    begin: u64,
    /// Bytes of all entries that were ever added before.
    pushed: u64,
    entries: Vec<Entry>,
}

fn bytes_of(entry: &Entry) -> u64 {
    entry.body.len() as u64 + ENTRY_BYTES
}

impl History {
    pub(crate) fn new(begin: u64) -> History {
        History {
            begin,
            end: begin,
            ..History::default()
        }
    }

    /// The position of the first entry.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// The position behind the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that the entries take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the entries from a position on take.
    pub(crate) fn bytes_from(&self, position: u64) -> u64 {
        if position <= self.begin {
            return self.bytes;
        }
        let after = self.chunks.partition_point(|chunk| chunk.begin <= position);
        let Some(chunk) = after.checked_sub(1).and_then(|at| self.chunks.get(at)) else {
            return 0;
        };
        let before = chunk.entries.iter().take((position - chunk.begin) as usize);
        self.pushed - chunk.pushed - before.map(bytes_of).sum::<u64>()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let before = self.pushed;
        self.bytes += bytes_of(&entry);
        self.pushed += bytes_of(&entry);
        let last = self.chunks.back_mut();
        match last.filter(|chunk| chunk.entries.len() < CHUNK_ENTRIES) {
            Some(chunk) => Arc::make_mut(chunk).entries.push(entry),
            None => self.chunks.push_back(Arc::new(Chunk {
                begin: self.end,
                pushed: before,
                entries: vec![entry],
            })),
        }
        self.end += 1;
    }

    /// Up to so many entries from a position on; `None` if it is forgotten, or is yet to come.
    pub(crate) fn from(&self, position: u64, most: usize) -> Option<Vec<Entry>> {
        if position < self.begin || position > self.end {
            return None;
        }
        let first = self
            .chunks
            .partition_point(|chunk| chunk.begin <= position)
            .saturating_sub(1);
        let skipped = self
            .chunks
            .get(first)
            .map_or(0, |chunk| position - chunk.begin);
        let entries = self.chunks.range(first..).flat_map(|chunk| &chunk.entries);
        Some(entries.skip(skipped as usize).take(most).cloned().collect())
    }

    /// Forgets what is before a position.
    pub(crate) fn forget(&mut self, before: u64) {
        let before = before.min(self.end);
        if let Some(gone) = self.from(self.begin, before.saturating_sub(self.begin) as usize) {
            self.bytes -= gone.iter().map(bytes_of).sum::<u64>();
        }
        self.begin = self.begin.max(before);
        let ends = |chunk: &Chunk| chunk.begin + chunk.entries.len() as u64;
        while (self.chunks.front()).is_some_and(|chunk| ends(chunk) <= self.begin) {
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Origin, body};
    use quorate_redis_store::Request;

    fn entry(number: u64) -> Entry {
        let origin = Origin { boot: 1, number };
        Entry::of(&body(origin, &Request::default())).expect("it is one")
    }

    #[test]
    fn entries_are_found_by_position_until_they_are_forgotten() {
        let mut history = History::new(10);
        (10..1010).for_each(|number| history.push(entry(number)));
        let numbers = |history: &History, from: u64, most: usize| {
            let found = history.from(from, most)?;
            Some(
                found
                    .iter()
                    .map(|entry| entry.origin.number)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(numbers(&history, 10, 2), Some(vec![10, 11]));
        assert_eq!(numbers(&history, 265, 3), Some(vec![265, 266, 267]));
        assert_eq!(numbers(&history, 1008, 9), Some(vec![1008, 1009]));
        assert_eq!(numbers(&history, 1010, 9), Some(vec![]));
        assert_eq!(
            (numbers(&history, 9, 1), numbers(&history, 1011, 1)),
            (None, None)
        );
        let (copy, all) = (history.clone(), history.bytes());
        assert_eq!(
            [0, 10, 266, 522, 900, 1009, 1010, 2000]
                .map(|from| history.bytes_from(from) * 1000 / all),
            [1000, 1000, 744, 488, 110, 1, 0, 0]
        );
        history.forget(600);
        assert_eq!(
            [10, 600, 700, 1010].map(|from| history.bytes_from(from) * 1000 / all),
            [410, 410, 310, 0]
        );
        assert_eq!(numbers(&history, 599, 1), None);
        assert_eq!(numbers(&history, 600, 1), Some(vec![600]));
        assert_eq!(history.bytes() * 1000, all * 410);
        history.forget(2000);
        assert_eq!(
            (history.begin(), history.end(), history.bytes()),
            (1010, 1010, 0)
        );
        history.push(entry(1010));
        assert_eq!(numbers(&history, 1010, 1), Some(vec![1010]));
        assert_eq!(copy.from(10, 2000).map(|all| all.len()), Some(1000));
    }
}
