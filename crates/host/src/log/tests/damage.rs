//! Acknowledged bytes that are no longer what was written.

use super::*;

/// Every byte up to the durable mark: a record that is hit is missing, all others are there, and
/// what holds nothing is noticed too.
#[test]
fn damage_to_any_byte_up_to_the_mark_is_noticed_and_costs_one_record() {
    let (_, disk) = written(6, 40);
    let (_, whole) = read(&mut disk.clone()).unwrap();
    for at in 0..whole.marked.offset {
        for flip in [0x10, 0xff] {
            let mut disk = disk.clone();
            disk.written.get_mut(&1).unwrap()[at as usize] ^= flip;
            let (numbers, gaps, scanned) = read_all(&mut disk).unwrap();
            let lost: Vec<u64> = (0..6).filter(|n| !numbers.contains(n)).collect();
            assert!(
                numbers.is_sorted() && lost.len() <= 1,
                "byte {at}: {numbers:?}"
            );
            assert_eq!(gaps.len() + scanned.blemishes.len(), 1, "byte {at}");
            assert!(gaps.len() >= lost.len(), "byte {at}: {lost:?} and no gap");
            assert_eq!(scanned.tail.at, whole.tail.at, "byte {at}");
        }
    }
}

/// Two boots, three segments, damage to two bytes: writing goes on behind, and everything that was
/// not hit is read again together with what came later.
#[test]
fn what_is_written_behind_gaps_is_read_with_them() {
    for seed in 0..300 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let (_, mut disk) = written(20, 400);
        let mut log = resume(&mut disk);
        log.append(Kind::Boot, body(0, 0), true);
        log.append(Kind::Machine, body(20, 400), true);
        flush(&mut log, &mut disk);
        let last = *disk.written.keys().last().unwrap();
        for _ in 0..2 {
            let file = disk.written.get_mut(&dice.u64(1..last)).unwrap();
            let at = dice.usize(..file.len());
            file[at] ^= 1 << dice.u8(..8);
        }
        let (before, gaps, _) = read_all(&mut disk).unwrap();
        assert!(
            before.len() + 2 >= 21 && gaps.len() <= 2,
            "seed {seed}: {before:?}"
        );
        let mut log = resume(&mut disk);
        log.append(Kind::Boot, body(0, 0), true);
        log.append(Kind::Machine, body(21, 400), true);
        flush(&mut log, &mut disk);
        let (after, gaps_after, _) = read_all(&mut disk).unwrap();
        let expected: Vec<u64> = before.into_iter().chain([21]).collect();
        assert_eq!((after, gaps_after), (expected, gaps), "seed {seed}");
    }
}

#[test]
fn a_gap_says_whether_a_record_that_concerns_all_slots_may_be_in_it() {
    for counted in [false, true] {
        let (mut log, mut disk) = written(2, 40);
        let at = log.tail();
        if counted {
            log.count();
        }
        for number in [2, 3] {
            log.append(Kind::Machine, body(number, 40), true);
            flush(&mut log, &mut disk);
        }
        disk.written.get_mut(&1).unwrap()[at.offset as usize + 40] ^= 1;
        let (numbers, gaps, _) = read_all(&mut disk).unwrap();
        assert_eq!(numbers, [0, 1, 3]);
        assert_eq!(gaps[0].may_concern_all, counted);
    }
}

/// A log may begin with a segment that is damaged anywhere but where its records begin.
#[test]
fn a_gap_knows_of_which_segments_it_takes_the_first_records() {
    let at = |segment, offset| Position { segment, offset };
    let ragged = |from, to| {
        let may_concern_all = false;
        let gap = Gap {
            from,
            to,
            may_concern_all,
        };
        gap.ragged().collect::<Vec<u64>>()
    };
    let start = SEGMENT_HEADER_BYTES;
    assert_eq!(ragged(at(4, start), at(4, 9_000)), [4]);
    assert_eq!(ragged(at(4, 8_000), at(4, 9_000)), [0; 0]);
    assert_eq!(ragged(at(4, 8_000), at(5, start)), [5]);
    assert_eq!(ragged(at(4, 8_000), at(7, 9_000)), [5, 6, 7]);
}

#[test]
fn a_missing_segment_in_the_middle_is_a_gap_that_may_hide_anything() {
    let (_, mut disk) = written(60, 500);
    disk.written.remove(&3);
    let (numbers, gaps, scanned) = read_all(&mut disk).unwrap();
    assert!(numbers.len() > 40 && numbers.last() == Some(&59));
    assert!(gaps.len() == 1 && gaps[0].may_concern_all, "{gaps:?}");
    assert!(!scanned.is_headless());
    disk.written.remove(&1);
    assert!(read(&mut disk).unwrap().1.is_headless());
}

/// Scenario: the log was released up to segment 3, segment 1 is back and 2 is not; then segment 3 is
/// damaged, so that the log no longer leads from there to the release. A mark vouches for it.
#[test]
fn a_release_that_a_mark_vouches_for_counts_behind_damage() {
    let (mut log, mut disk) = written(150, 100);
    log.append(Kind::Release, encode_release(3), true);
    flush(&mut log, &mut disk);
    log.append(Kind::Machine, body(150, 100), true);
    flush(&mut log, &mut disk);
    disk.written.remove(&2);
    disk.written.get_mut(&3).unwrap()[SEGMENT_HEADER_BYTES as usize + 200] ^= 1;
    let (_, gaps, scanned) = read_all(&mut disk).unwrap();
    assert_eq!((scanned.released, gaps.len()), (3, 1), "{gaps:?}");
    assert_eq!(scanned.segments[0].at.segment, 3);
}

/// Scenario: segment 3 has lost its first records, without harm, since those of segment 2 tell how
/// many there were. The log is released up to segment 4, and a crash leaves 3 but not 2.
#[test]
fn a_leftover_that_begins_with_damage_is_passed_over() {
    let (mut log, mut disk) = written(150, 100);
    log.append(Kind::Release, encode_release(4), true);
    flush(&mut log, &mut disk);
    let first_record = SEGMENT_HEADER_BYTES as usize + 20;
    disk.written.get_mut(&3).unwrap()[first_record] ^= 1;
    disk.written.remove(&1);
    disk.written.remove(&2);
    let (_, gaps, scanned) = read_all(&mut disk).unwrap();
    assert_eq!((gaps, scanned.segments[0].at.segment), (vec![], 4));
}

#[test]
fn a_misdirected_write_is_not_taken_for_a_record() {
    let (_, disk) = written(6, 40);
    let file = disk.written[&1].clone();
    let record = SEGMENT_HEADER_BYTES as usize..SEGMENT_HEADER_BYTES as usize + 80;
    let mut disk = disk.clone();
    disk.written.get_mut(&1).unwrap()[record.start + 128..record.end + 128]
        .copy_from_slice(&file[record]);
    let (numbers, gaps, _) = read_all(&mut disk).unwrap();
    assert_eq!((numbers, gaps.len()), (vec![0, 2, 3, 4, 5], 1));
}
