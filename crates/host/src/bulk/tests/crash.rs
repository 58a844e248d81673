//! Random lives of a store, ended at any point, against a map of what must be there.

use super::*;
use fastrand::Rng;

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
    store: BulkStore,
    disk: Disk,
    /// What released segments held: a loss of power may undo that they were deleted.
    gone: BTreeMap<u64, Vec<u8>>,
    known: BTreeMap<PayloadId, Known>,
    reads: Vec<LogRead>,
    seq: u64,
    rng: Rng,
    lives: usize,
    moved: usize,
    released: usize,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            store: BulkStore::create(identity(), SEGMENT_BYTES),
            disk: Disk::default(),
            gone: BTreeMap::new(),
            known: BTreeMap::new(),
            reads: Vec::new(),
            seq: 0,
            rng: Rng::with_seed(seed),
            lives: 0,
            moved: 0,
            released: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..6 => self.append(),
            6..11 => self.free(),
            11..15 => self.flush(),
            15..19 => self.tidy(),
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
        self.store.append(entry, 3, &share, 0, &lengths);
        self.seq += 1;
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
        let covered: Vec<PayloadId> = self.known.keys().copied().collect();
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
            let content = self.disk.synced.get(segment).cloned();
            self.gone.insert(*segment, content.expect("it was synced"));
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
        for known in self.known.values_mut() {
            known.is_dying &= self.rng.bool();
        }
        self.known.retain(|_, known| !known.is_dying);
        let (mut store, opened) = self.disk.open();
        assert_eq!(opened.damage, []);
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
    let (mut lives, mut moved, mut released) = (0, 0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.kill();
        lives += world.lives;
        moved += world.moved;
        released += world.released;
    }
    assert!(
        lives > 5_000 && moved > 5_000 && released > 5_000,
        "{lives} {moved} {released}"
    );
}
