//! What is in the store, and how much of each segment that is.

use super::Fragment;
use super::format::{TRAILER_BYTES, room_of};
use crate::log::SEGMENT_HEADER_BYTES;
use quorate_core::PayloadId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The name of a fragment, ordered by payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) payload: PayloadId,
    pub(super) code: u8,
    pub(super) index: u8,
}

impl Fragment {
    pub(super) fn key(&self) -> Key {
        Key {
            payload: self.payload,
            code: self.code,
            index: self.index,
        }
    }
}

/// The index of what is live, and the segments it lies in.
///
/// A segment is `dead` once nothing in it is live, and `sparse` while what is live is less than a third
/// of what it has room for: one that is full of what was moved is not. The last one never is: it may be
/// the one that is written to, and its number and boot are what the next life counts on from. Nor is one
/// that is young sparse: where the same keys are put again and again, what little of it is live is
/// about to die, and moving it would be for nothing. What a former life left has no such excuse: its
/// last segment was cut short, and lives that end soon would each leave a file that is nearly empty.
#[derive(Debug, Default)]
pub(super) struct Heap {
    index: BTreeMap<Key, Fragment>,
    segments: BTreeMap<u64, Segment>,
    /// Whether what is in the index is wanted.
    is_settled: bool,
    /// Segments up to this one are a former life's.
    inherited: u64,
    dead: BTreeSet<u64>,
    sparse: BTreeSet<u64>,
    live_bytes: u64,
}

#[derive(Debug)]
struct Segment {
    /// Bytes of its file that records and what the footer says of them can take up.
    room: u32,
    /// Fragments that are live, and what they would take up if they were moved.
    live: u32,
    live_room: u64,
    /// What was put here, whether or not it is still live.
    names: Vec<Key>,
}

impl Heap {
    /// A segment of this size begins or is found.
    pub(super) fn add_segment(&mut self, number: u64, bytes: u32) {
        let segment = Segment {
            room: bytes.saturating_sub(SEGMENT_HEADER_BYTES + TRAILER_BYTES),
            live: 0,
            live_room: 0,
            names: Vec::new(),
        };
        self.segments.insert(number, segment);
    }

    /// The last segment is this one, from now on or still.
    pub(super) fn go_on_in(&mut self, number: u64, bytes: u32) {
        let last = self.last();
        if last == Some(number) {
            return;
        }
        self.add_segment(number, bytes);
        if let Some(former) = last {
            self.judge(former);
        }
        self.judge(number.saturating_sub(YOUNG_SEGMENTS));
    }

    fn last(&self) -> Option<u64> {
        self.segments.last_key_value().map(|(number, _)| *number)
    }

    /// Everything that a former life left and is not wanted is gone: its segments can be judged.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
        self.inherited = self.last().unwrap_or(0);
        let numbers: Vec<u64> = self.segments.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.judge(number));
    }

    /// Puts a fragment in the index. One of the same name lies elsewhere no more.
    pub(super) fn insert(&mut self, fragment: Fragment) {
        let key = fragment.key();
        self.remove(&key);
        let home = self.segments.get_mut(&fragment.at.segment);
        let segment = home.expect("a fragment lies in a segment there is");
        segment.live += 1;
        segment.live_room += room_of(fragment.len);
        segment.names.push(key);
        self.live_bytes += u64::from(fragment.len);
        self.index.insert(key, fragment);
    }

    /// Takes a fragment from the index.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Fragment> {
        let fragment = self.index.remove(key)?;
        let number = fragment.at.segment;
        let segment = self.segments.get_mut(&number);
        let segment = segment.expect("what is live keeps its segment");
        segment.live -= 1;
        segment.live_room -= room_of(fragment.len);
        self.live_bytes -= u64::from(fragment.len);
        self.judge(number);
        Some(fragment)
    }

    /// Whether a segment is worth keeping. Before everything dead is known to be, none is judged.
    fn judge(&mut self, number: u64) {
        let last = self.last().filter(|last| *last != number);
        let (Some(last), Some(segment), true) = (last, self.segments.get(&number), self.is_settled)
        else {
            return;
        };
        let is_dead = segment.live == 0;
        let is_young = number > self.inherited && last - number < YOUNG_SEGMENTS;
        let is_little = segment.live_room * 3 < u64::from(segment.room);
        let is_sparse = !is_dead && !is_young && is_little;
        set(&mut self.dead, number, is_dead);
        set(&mut self.sparse, number, is_sparse);
    }

    /// A segment that is given up: nothing in it is live.
    pub(super) fn drop_segment(&mut self, number: u64) {
        self.segments.remove(&number);
        self.dead.remove(&number);
    }

    /// Segments in which nothing is live.
    pub(super) fn dead(&self) -> &BTreeSet<u64> {
        &self.dead
    }

    /// A segment with little in it of which some was not looked at yet, if there is one.
    pub(super) fn sparse(&self) -> Option<u64> {
        let mut sparse = self.sparse.iter();
        let is_left = |number: &&u64| !self.segments[number].names.is_empty();
        sparse.find(is_left).copied()
    }

    /// Takes the name of one more thing that was put in a segment, live or not.
    pub(super) fn pop_name(&mut self, number: u64) -> Option<Key> {
        self.segments.get_mut(&number)?.names.pop()
    }

    /// The fragment of this name.
    pub(super) fn get(&self, key: &Key) -> Option<&Fragment> {
        self.index.get(key)
    }

    /// The fragments of a payload.
    pub(super) fn of(&self, payload: PayloadId) -> impl Iterator<Item = &Fragment> {
        self.named(payload, 0..=u8::MAX)
    }

    /// The fragments of a payload under some codes.
    pub(super) fn named(
        &self,
        payload: PayloadId,
        codes: RangeInclusive<u8>,
    ) -> impl Iterator<Item = &Fragment> {
        let key = |code, index| Key {
            payload,
            code,
            index,
        };
        let keys = key(*codes.start(), 0)..=key(*codes.end(), u8::MAX);
        self.index.range(keys).map(|(_, fragment)| fragment)
    }

    /// All fragments, in the order of payloads.
    pub(super) fn all(&self) -> impl Iterator<Item = &Fragment> {
        self.index.values()
    }

    /// Bytes of live fragments.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}

fn set(numbers: &mut BTreeSet<u64>, number: u64, is_in: bool) {
    if is_in {
        numbers.insert(number);
    } else {
        numbers.remove(&number);
    }
}

/// So many segments, the last included, are young.
const YOUNG_SEGMENTS: u64 = 4;
