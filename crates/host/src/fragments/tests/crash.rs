//! Random lives of a store, ended at any point, against a map of what must be there.

use super::*;
use fastrand::Rng;
use std::collections::BTreeSet;

/// From which length on bytes go behind, by seed.
const LONG_BYTES_MIN: [usize; 3] = [usize::MAX, 2_000, 1];
const STEP_BYTES: usize = 1_000;

/// What is known of one payload.
#[derive(Clone, Copy, Debug)]
struct Known {
    len: usize,
    /// Whether a synced flush brought it to the disk.
    is_durable: bool,
    /// Whether it is dead, and nothing that says so is durable yet.
    is_dying: bool,
}

/// A store, its disk, and a map that says what the store has to hold.
struct World {
    store: FragmentStore,
    disk: Disk,
    /// What released segments held: a loss of power may undo that they were deleted.
    gone: BTreeMap<u64, Vec<u8>>,
    known: BTreeMap<PayloadId, Known>,
    reads: Vec<LogRead>,
    /// The step that the disk performs.
    step: Option<Write>,
    seq: u64,
    rng: Rng,
    long_bytes_min: usize,
    steps: usize,
    lives: usize,
    moved: usize,
    released: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut store = FragmentStore::create(identity(), SEGMENT_BYTES);
        store.put_behind(LONG_BYTES_MIN[seed as usize % 3], STEP_BYTES);
        World {
            store,
            long_bytes_min: LONG_BYTES_MIN[seed as usize % 3],
            disk: Disk::default(),
            gone: BTreeMap::new(),
            known: BTreeMap::new(),
            reads: Vec::new(),
            seq: 0,
            rng: Rng::with_seed(seed),
            step: None,
            steps: 0,
            lives: 0,
            moved: 0,
            released: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..5 => self.append(),
            5..9 => self.free(),
            9..12 => self.flush(),
            12..15 => self.tidy(),
            15..19 => self.step_behind(),
            _ if self.rng.bool() => self.kill(),
            _ => self.lose_power(),
        }
        assert_eq!(self.store.fragments().count(), self.live().count());
    }

    fn live(&self) -> impl Iterator<Item = (&PayloadId, &Known)> {
        self.known.iter().filter(|(_, known)| !known.is_dying)
    }

    fn append(&mut self) {
        let parts = self.rng.u32(1..4);
        let lens: Vec<usize> = (0..parts).map(|_| self.rng.usize(..3000)).collect();
        let (entry, mut share) = (entry(self.seq), share(self.seq, 0));
        share.parts.clear();
        for (part, len) in (0..parts).zip(&lens) {
            let id = PayloadId { entry, part };
            share.parts.push(content(id, *len));
            let known = Known {
                len: *len,
                is_durable: false,
                is_dying: false,
            };
            self.known.insert(id, known);
        }
        let lengths: Vec<u32> = lens.iter().map(|len| *len as u32).collect();
        self.store.append(entry, 3, (&share, &[]), 0, &lengths);
        self.seq += 1;
    }

    /// The disk begins a step or ends one; the process may end in between.
    fn step_behind(&mut self) {
        let Some(step) = self.step.take() else {
            self.step = self.store.take_step();
            if let Some(step) = &self.step {
                self.disk.write(std::slice::from_ref(step));
            }
            return;
        };
        self.disk.sync(&[step]);
        let before = self.behind();
        self.store.stepped();
        self.steps += 1;
        let after = self.behind();
        for id in before.difference(&after) {
            self.known.get_mut(id).unwrap().is_durable = true;
        }
    }

    /// The payloads whose bytes are behind.
    fn behind(&self) -> BTreeSet<PayloadId> {
        let of = |id: &PayloadId| self.store.behind(*id, 2).is_some();
        let live = self.live().map(|(id, _)| *id);
        live.filter(of).collect()
    }

    /// The application has no use for some of the payloads any more.
    fn free(&mut self) {
        for _ in 0..self.rng.usize(1..6) {
            let live: Vec<PayloadId> = self.live().map(|(id, _)| *id).collect();
            let Some(id) = self.rng.choice(live) else {
                return;
            };
            self.store.free(id);
            self.known.get_mut(&id).unwrap().is_dying = true;
        }
    }

    /// A flush, during which more may happen, and the process may end.
    fn flush(&mut self) {
        let sync = self.rng.bool();
        let writes = self.store.take_writes(sync);
        let behind = self.behind();
        let covered = self.known.keys().filter(|id| !behind.contains(id));
        let covered: Vec<PayloadId> = covered.copied().collect();
        let dying = |known: &Known| known.is_dying;
        let buried: Vec<PayloadId> = self.known_where(dying);
        self.disk.write(&writes);
        match self.rng.u8(..8) {
            0 => return self.lose_power(),
            1 => return self.kill(),
            2 => self.append(),
            3 => self.free(),
            _ => {}
        }
        if sync {
            self.disk.sync(&writes);
            for id in covered {
                self.known.get_mut(&id).unwrap().is_durable = true;
            }
            self.known.retain(|id, _| !buried.contains(id));
        }
        self.store.flushed();
        self.release();
    }

    fn known_where(&self, is_meant: impl Fn(&Known) -> bool) -> Vec<PayloadId> {
        let meant = self.known.iter().filter(|(_, known)| is_meant(known));
        meant.map(|(id, _)| *id).collect()
    }

    fn release(&mut self) {
        let released = self.store.take_release();
        self.released += released.len();
        for segment in &released {
            // One that held nothing of use for long may never have been synced.
            let content = self.disk.synced.get(segment);
            self.gone
                .extend(content.map(|content| (*segment, content.clone())));
        }
        self.disk.release(&released);
    }

    fn tidy(&mut self) {
        self.store.tidy(&mut self.reads);
        for _ in 0..self.rng.usize(..4) {
            if self.reads.is_empty() {
                return;
            }
            let place = self.rng.usize(..self.reads.len());
            let read = self.reads.swap_remove(place);
            let file = self.disk.written.get(&read.at.segment);
            let bytes = match file {
                Some(_) => Ok(self.disk.perform(&read)),
                None => Err("it was released".to_owned()),
            };
            let done = self.store.read_done(read.token, bytes);
            assert_eq!(done, ReadBack::Nothing);
            self.moved += 1;
        }
    }

    /// The process ends; what was written is still in the page cache.
    fn kill(&mut self) {
        self.open();
    }

    /// Power fails: of what was not synced, some survives.
    fn lose_power(&mut self) {
        let mut image = self.disk.synced.clone();
        for write in std::mem::take(&mut self.disk.unsynced) {
            let survivors = survivors(&write, &mut self.rng);
            for write in survivors {
                let recycled = || self.disk.recycled.clone().unwrap_or_default();
                put(image.entry(write.segment).or_insert_with(recycled), &write);
            }
        }
        for (segment, content) in std::mem::take(&mut self.gone) {
            if self.rng.u8(..4) == 0 {
                image.insert(segment, content);
            }
        }
        self.disk.written = image.clone();
        self.disk.synced = image;
        self.open();
        for known in self.known.values_mut() {
            known.is_durable = true;
        }
    }

    /// Opens the store anew. What died lately may be live again: nothing that says otherwise was
    /// durable.
    fn open(&mut self) {
        self.lives += 1;
        self.reads.clear();
        self.step = None;
        for known in self.known.values_mut() {
            known.is_dying &= self.rng.bool();
        }
        self.known.retain(|_, known| !known.is_dying);
        let (mut store, opened) = self.disk.open();
        assert_eq!(opened.damage, []);
        store.put_behind(self.long_bytes_min, STEP_BYTES);
        store.retain(|id| self.known.contains_key(&id));
        for (id, known) in std::mem::take(&mut self.known) {
            let found = read(&mut store, &self.disk, id, 2);
            match found {
                Outcome::Bytes(bytes) => {
                    assert_eq!(bytes, content(id, known.len));
                    self.known.insert(id, known);
                }
                Outcome::None => assert!(!known.is_durable, "{id:?} was durable"),
                Outcome::Damaged => panic!("{id:?} was listed and is not whole"),
            }
        }
        self.store = store;
    }
}

/// What is left of a write that was not synced: all, nothing, a beginning, or some sectors.
fn survivors(write: &Write, rng: &mut Rng) -> Vec<Write> {
    let bytes = write.chunks.concat();
    let part = |from: usize, to: usize| Write {
        offset: write.offset + from as u32,
        chunks: vec![Bytes::copy_from_slice(&bytes[from..to])],
        ..write.clone()
    };
    match rng.u8(..4) {
        0 => vec![part(0, bytes.len())],
        1 => Vec::new(),
        2 => vec![part(0, rng.usize(..=bytes.len()))],
        _ => (0..bytes.len())
            .step_by(64)
            .filter(|_| rng.bool())
            .map(|from| part(from, (from + 64).min(bytes.len())))
            .collect(),
    }
}

#[test]
fn what_is_live_and_durable_outlives_any_end_at_any_point() {
    let (mut lives, mut moved, mut released, mut steps) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.kill();
        lives += world.lives;
        moved += world.moved;
        released += world.released;
        steps += world.steps;
    }
    assert!(
        [lives, moved, released, steps]
            .iter()
            .all(|count| *count > 1_000),
        "{lives} {moved} {released} {steps}"
    );
}
