//! Files from hostile bytes: none makes the reader panic, go on for ever, or hold more than the file is long.

use crate::tests::{file, state};
use crate::wal::{self, Scan};
use crate::{FileError, StateReader, StateRest, Summary};
use bytes::Bytes;
use quorate_fuzz::{Fuzz, Limits};

/// Bytes of a file that a checksum of its first pages is over, and where they begin.
const META: std::ops::Range<usize> = 16..16 + 56;
const PAGE_BYTES: usize = 4096;

/// What a walk over everything found.
#[derive(PartialEq, Eq, Debug)]
struct Found {
    summary: Summary,
    records: usize,
}

fn read_all(bytes: Bytes) -> Result<Found, FileError> {
    let reader = StateReader::open(bytes)?;
    let mut records = 0;
    reader.each_key(|_| {
        records += 1;
        Ok::<_, FileError>(())
    })?;
    records += reader.leases()?.len() + reader.users()?.len();
    records += reader.roles()?.len() + reader.members()?.len() + reader.alarms()?.len();
    let summary = reader.summary()?;
    Ok(Found { summary, records })
}

/// Puts the checksums of both first pages right.
fn seal(bytes: &mut [u8]) {
    for at in [0, PAGE_BYTES] {
        if let Some(meta) = bytes.get_mut(at..at + META.end + 8) {
            let sum = meta[META]
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
                    (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
            meta[META.end..].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

#[test]
fn no_database_makes_the_reader_go_wrong() {
    let (keys, rest) = state();
    let small = file(&keys[..2], &StateRest::default(), false);
    let many: Vec<_> = (2..400)
        .map(|main| {
            let mut key = keys[1].clone();
            key.revision.main = main;
            key
        })
        .collect();
    let seeds = [file(&keys, &rest, false), small, file(&many, &rest, false)];
    let limits = Limits {
        base_bytes: 64 << 10,
        ..Limits::default()
    };
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "database");
    let fuzz = fuzz.seeds(seeds).limits(limits).seal(|bytes| seal(bytes));
    fuzz.run(read_all, |bytes, found| {
        assert_eq!(read_all(bytes.clone()).expect("it was read before"), *found);
    });
}

#[test]
fn no_log_makes_the_reader_go_wrong() {
    use wal::tests::{entry, file, seal, state};
    let (first, checksum) = file(0, &[seal(), entry(4), state(4), entry(5)]);
    let (second, _) = file(checksum, &[seal(), entry(6), entry(7), state(6)]);
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "wal").seeds([first, second]);
    let read = |bytes: Bytes, is_last| {
        let mut scan = Scan::default();
        scan.file(bytes, is_last).map(|()| scan.end)
    };
    fuzz.run(
        |bytes| read(bytes, false),
        |bytes, end| {
            assert_eq!(
                read(bytes.clone(), true).expect("no less is asked of it"),
                *end
            )
        },
    );
}
