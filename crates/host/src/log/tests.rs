//! The log against disks that forget, tear and rot.

mod damage;

use super::format::{Identity, Kind, SEGMENT_HEADER_BYTES};
use super::{Gap, LogSource, LogWriter, Piece, Position, encode_release, scan};
use crate::api::Flush;
use crate::log::Beside;
use crate::open_error::OpenError;
use bytes::Bytes;
use quorate_core::{ClusterId, Encoder, Incarnation, ReplicaId, Slot};
use std::collections::BTreeMap;
use std::io;

const SEGMENT_BYTES: u32 = 8192;

fn identity() -> Identity {
    Identity {
        cluster: ClusterId(1),
        replica: ReplicaId(2),
        incarnation: Incarnation(3),
    }
}

/// Files in memory: what was written, and what a crash leaves of it.
#[derive(Clone, Default)]
struct Disk {
    written: BTreeMap<u64, Vec<u8>>,
    synced: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    fn perform(&mut self, flush: &Flush) {
        for write in &flush.writes {
            let file = self.written.entry(write.segment).or_default();
            file.resize(write.segment_bytes as usize, 0);
            let bytes = write.chunks.concat();
            file[write.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        if flush.sync {
            for write in &flush.writes {
                self.synced
                    .insert(write.segment, self.written[&write.segment].clone());
            }
        }
    }

    fn lose_unsynced(&mut self) {
        self.written = self.synced.clone();
    }
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.written.keys().copied().collect())
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        Ok(Bytes::from(self.written[&segment].clone()))
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn body(number: u64, len: usize) -> Encoder {
    let mut out = Encoder::new();
    out.u64(number);
    out.slice(&vec![number as u8; len]);
    out
}

/// Flushes what was appended, and writes the mark that follows a sync.
fn flush(log: &mut LogWriter, disk: &mut Disk) {
    while log.has_unwritten() {
        log.want_write();
        let flush = log.take_flush(&Beside::default()).unwrap();
        disk.perform(&flush);
        log.flushed(flush.through);
    }
}

/// The numbers of the records read back, and how the log ends.
fn read(disk: &mut Disk) -> Result<(Vec<u64>, super::Scanned), OpenError> {
    let (numbers, _, scanned) = read_all(disk)?;
    Ok((numbers, scanned))
}

/// The same with the gaps among them.
fn read_all(disk: &mut Disk) -> Result<(Vec<u64>, Vec<Gap>, super::Scanned), OpenError> {
    let (mut numbers, mut gaps) = (Vec::new(), Vec::new());
    let scanned = scan(disk, &identity(), |piece| {
        match piece {
            Piece::Record(found) if found.kind == Kind::Machine => {
                numbers.push(u64::from_le_bytes(found.body[..8].try_into().unwrap()));
            }
            Piece::Gap(gap) => gaps.push(gap),
            Piece::Record(_) | Piece::Doubt => {}
        }
        Ok(())
    })?;
    Ok((numbers, gaps, scanned.expect("a log")))
}

/// A log of `count` synced records over several segments.
fn written(count: u64, len: usize) -> (LogWriter, Disk) {
    let mut log = LogWriter::create(identity(), 0, 1, SEGMENT_BYTES);
    let mut disk = Disk::default();
    for number in 0..count {
        log.append(Kind::Machine, body(number, len), true);
        flush(&mut log, &mut disk);
    }
    (log, disk)
}

fn resume(disk: &mut Disk) -> LogWriter {
    let (_, scanned) = read(disk).unwrap();
    LogWriter::resume(identity(), 0, 1, SEGMENT_BYTES, &scanned)
}

#[test]
fn records_come_back_in_order_across_segments() {
    let (_, mut disk) = written(40, 500);
    let (numbers, scanned) = read(&mut disk).unwrap();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    assert!(scanned.segments.len() > 3 && !scanned.torn);
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_size() {
    let (_, mut disk) = written(3, 50_000);
    assert_eq!(read(&mut disk).unwrap().0, [0, 1, 2]);
}

#[test]
fn a_power_cut_keeps_every_synced_record() {
    let (mut log, mut disk) = written(20, 300);
    log.append(Kind::Machine, body(99, 300), false);
    flush(&mut log, &mut disk);
    disk.lose_unsynced();
    assert_eq!(read(&mut disk).unwrap().0, (0..20).collect::<Vec<_>>());
}

#[test]
fn an_unsynced_rest_torn_at_any_byte_is_cut_and_writing_goes_on() {
    let (mut log, disk) = written(5, 100);
    for number in [5, 6] {
        log.append(Kind::Machine, body(number, 100), true);
    }
    let flush_of_rest = log.take_flush(&Beside::default()).unwrap();
    let bytes = flush_of_rest.writes[0].chunks.concat();
    let at = flush_of_rest.writes[0].offset as usize;
    for kept in 0..bytes.len() {
        // The tail of the write arrives and its head does not: records after a hole.
        let mut disk = disk.clone();
        disk.written.get_mut(&1).unwrap()[at + kept..at + bytes.len()]
            .copy_from_slice(&bytes[kept..]);
        let (numbers, scanned) = read(&mut disk).unwrap();
        assert!(
            numbers == [0, 1, 2, 3, 4] || kept == 0,
            "{kept}: {numbers:?}"
        );
        let mut log = LogWriter::resume(identity(), 0, 1, SEGMENT_BYTES, &scanned);
        log.append(Kind::Machine, body(50, 100), true);
        flush(&mut log, &mut disk);
        let (after, _) = read(&mut disk).unwrap();
        let expected: Vec<u64> = numbers.iter().copied().chain([50]).collect();
        assert_eq!(after, expected, "what was cut at {kept} came back");
    }
}

/// Scenario: segment 3 is the first needed, 2 is gone, the deletion of 1 was undone or stopped half
/// way; at the end, behind a torn record, lies a release that was never durable.
#[test]
fn a_release_counts_only_if_the_log_reaches_it() {
    let (mut log, mut disk) = written(150, 100);
    log.append(Kind::Release, encode_release(3), true);
    flush(&mut log, &mut disk);
    let torn = log.tail();
    log.append(Kind::Machine, body(900, 100), true);
    log.append(Kind::Release, encode_release(4), true);
    disk.perform(&log.take_flush(&Beside::default()).unwrap());
    disk.written.get_mut(&torn.segment).unwrap()[torn.offset as usize + 20] ^= 1;
    disk.written.remove(&2);
    for without_header in [false, true] {
        if without_header {
            disk.written.get_mut(&1).unwrap()[..64].fill(0);
        }
        let (numbers, scanned) = read(&mut disk).unwrap();
        assert_eq!(scanned.released, 3);
        assert_eq!(scanned.segments[0].at.segment, 3);
        assert_eq!(numbers.last(), Some(&149));
    }
}

#[test]
fn a_recycled_segment_shows_nothing_of_its_former_life() {
    let (mut log, mut disk) = written(16, 400);
    let old = disk.written[&1].clone();
    let mut count = 16;
    let next = log.append(Kind::Machine, body(count, 400), true).0.segment + 1;
    disk.written.insert(next, old);
    while log
        .append(Kind::Machine, body(count + 1, 400), true)
        .0
        .segment
        < next
    {
        count += 1;
    }
    flush(&mut log, &mut disk);
    let (numbers, scanned) = read(&mut disk).unwrap();
    assert_eq!(numbers, (0..=count + 1).collect::<Vec<_>>());
    assert_eq!(
        scanned.segments.last().map(|tail| tail.at.segment),
        Some(next)
    );
}

#[test]
fn another_replicas_segment_and_a_newer_format_are_named() {
    let (_, mut disk) = written(1, 10);
    let other = Identity {
        replica: ReplicaId(3),
        ..identity()
    };
    let error = scan(&mut disk, &other, |_| Ok(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "log segment 1 does not belong here: its replica is 2, this replica's is 3"
    );
}

#[test]
fn unsynced_bytes_of_a_full_segment_are_covered_by_the_next_sync() {
    let (mut log, mut disk) = written(7, 400);
    while log.append(Kind::Decided, body(0, 400), false).0.segment == 1 {
        flush(&mut log, &mut disk);
    }
    log.append(Kind::Machine, body(7, 400), true);
    let last = log.take_flush(&Beside::default()).unwrap();
    assert!(last.sync && last.writes.iter().any(|write| write.segment == 1));
    disk.perform(&last);
    log.flushed(last.through);
    disk.lose_unsynced();
    assert_eq!(read(&mut disk).unwrap().0, (0..8).collect::<Vec<_>>());
}

#[test]
fn a_boot_that_left_only_stray_records_behind_a_cut_is_not_repeated() {
    let (_, mut disk) = written(3, 100);
    let mut log = resume(&mut disk);
    log.append(Kind::Boot, body(0, 0), true);
    log.append(Kind::Machine, body(99, 100), true);
    let torn = log.take_flush(&Beside::default()).unwrap();
    disk.perform(&torn);
    // The boot record is lost, what came behind it in the same flush is not.
    let at = torn.writes[0].offset as usize;
    disk.written.get_mut(&1).unwrap()[at] ^= 0xff;
    let mut log = resume(&mut disk);
    log.append(Kind::Boot, body(0, 0), true);
    // Read before a mark is written over what was cut.
    disk.perform(&log.take_flush(&Beside::default()).unwrap());
    assert_eq!(
        read(&mut disk).unwrap().0,
        [0, 1, 2],
        "a cut record came back"
    );
}

#[test]
fn what_a_killed_process_left_unsynced_is_covered_by_the_first_sync_of_the_next() {
    let (mut log, mut disk) = written(7, 400);
    while log.append(Kind::Machine, body(7, 400), true).0.segment == 1 {}
    let last = log.take_flush(&Beside::default()).unwrap();
    disk.perform(&Flush {
        sync: false,
        ..last
    });
    let mut log = resume(&mut disk);
    log.append(Kind::Boot, body(0, 0), true);
    let before = read(&mut disk).unwrap().0;
    flush(&mut log, &mut disk);
    disk.lose_unsynced();
    assert_eq!(
        read(&mut disk).unwrap().0,
        before,
        "what was read was not durable"
    );
}

/// A record that was being written when power failed may be whole although what pads it is not.
#[test]
fn what_pads_a_torn_record_is_blank_before_a_mark_is_behind_it() {
    let (mut log, mut disk) = written(3, 100);
    log.append(Kind::Machine, body(3, 101), true);
    let taken = log.take_flush(&Beside::default()).unwrap();
    disk.perform(&taken);
    disk.written.get_mut(&1).unwrap()[taken.through.offset as usize - 1] = 0xff;
    let (numbers, scanned) = read(&mut disk).unwrap();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let found = (scanned.blemishes.len(), scanned.torn_blanks.len());
    assert_eq!(found, (0, 1));
    let mut log = resume(&mut disk);
    log.append(Kind::Machine, body(4, 100), true);
    flush(&mut log, &mut disk);
    let (numbers, scanned) = read(&mut disk).unwrap();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert!(scanned.marked > taken.through);
    assert_eq!((scanned.blemishes, scanned.torn_blanks), (vec![], vec![]));
}

#[test]
fn crashes_at_random_never_lose_a_synced_record_or_revive_a_cut_one() {
    for seed in 0..200 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut disk = Disk::default();
        let mut log = LogWriter::create(identity(), 0, 1, SEGMENT_BYTES);
        log.append(Kind::Boot, body(0, 0), true);
        flush(&mut log, &mut disk);
        let (mut durable, mut number) = (Vec::new(), 0);
        for _ in 0..60 {
            let mut pending = Vec::new();
            for _ in 0..dice.u32(1..4) {
                log.append(Kind::Machine, body(number, dice.usize(..700)), true);
                pending.push(number);
                number += 1;
            }
            let taken = log.take_flush(&Beside::default()).unwrap();
            if dice.u8(..8) > 0 {
                disk.perform(&taken);
                log.flushed(taken.through);
                durable.append(&mut pending);
                continue;
            }
            crash(&mut disk, &taken, &mut dice);
            let (numbers, _) = read(&mut disk).unwrap();
            assert!(
                numbers.starts_with(&durable),
                "seed {seed}: {numbers:?} lacks {durable:?}"
            );
            assert!(
                pending.starts_with(&numbers[durable.len()..]),
                "seed {seed}"
            );
            durable = numbers;
            log = resume(&mut disk);
        }
    }
}

/// Each 512-byte block of an unfinished flush reached the disk or did not.
fn crash(disk: &mut Disk, unfinished: &Flush, dice: &mut fastrand::Rng) {
    disk.lose_unsynced();
    for write in &unfinished.writes {
        let file = disk.written.entry(write.segment).or_default();
        file.resize(write.segment_bytes as usize, 0);
        for (index, block) in write.chunks.concat().chunks(512).enumerate() {
            if dice.bool() {
                let at = write.offset as usize + index * 512;
                file[at..at + block.len()].copy_from_slice(block);
            }
        }
    }
    disk.synced = disk.written.clone();
}

#[test]
fn positions_order_by_segment_first() {
    let at = |segment, offset| Position { segment, offset };
    assert!(at(1, 900) < at(2, 0) && at(2, 0) < at(2, 1));
}
