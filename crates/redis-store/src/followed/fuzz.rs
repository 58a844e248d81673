//! What snapshots say of a server that is followed, mutated.

use super::{Failed, Followed};
use bytes::Bytes;
use quorate_core::{Admission, Wire};
use quorate_fuzz::{Fuzz, Limits};
use quorate_redis_effects::{Command, Flavour, Follows, REPLICATION_ID_BYTES, ServerVersion};

/// One that follows, with a part of a unit; and one that failed.
fn samples() -> [Followed; 2] {
    let version = ServerVersion {
        flavour: Flavour::Redis,
        number: (7, 0, 0),
    };
    let effects = |start, last| Command::Effects {
        epoch: 1,
        start,
        bytes: Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"),
        last,
    };
    let follows = Follows {
        id: [b'a'; REPLICATION_ID_BYTES],
        source: 1000,
        len: 14,
    };
    let mut followed = Followed::default();
    for command in [
        Command::Import {
            over: 0,
            at: Some(0),
            is_anew: true,
            version,
        },
        effects(0, true),
        Command::Imported { epoch: 1, follows },
        effects(14, false),
    ] {
        followed.take(Admission::All, &command.to_bytes(), || false);
    }
    let failed = Followed {
        db: 15,
        failure: Some(Failed {
            command: "XADD orders".to_owned(),
            error: None,
        }),
        ..followed.clone()
    };
    [followed, failed]
}

#[test]
fn what_is_followed_decodes_within_bounds_and_has_one_encoding() {
    let limits = Limits {
        // A part of one byte becomes a slice of four words.
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let seeds = samples().map(|followed| followed.to_bytes());
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "followed");
    fuzz.seeds(seeds).limits(limits).run_wire::<Followed>();
}
