//! Everything a host reads, from hostile bytes: frames, the log, snapshots.

use crate::api::SnapshotId;
use crate::apply::AppliedState;
use crate::divergence::DigestOf;
use crate::epochs::{Known, Note};
use crate::fragments::fuzz as bulk;
use crate::frame::{self, Body, Header};
use crate::log::fuzz as log;
use crate::position::Position;
use crate::records::{Decided, Learned};
use crate::rollback::{Claim, Noted, Progress, Remembered};
use crate::sessions::Sessions;
use crate::snapshot::fuzz as snapshot;
use crate::version::{SupportedVersions, WireVersion};
use bytes::Bytes;
use quorate_core::{
    Boot, ClientId, Durability, Entry, EntryBuilder, EntryId, Epoch, Group, Incarnation, Member,
    ReplicaId, RequestId, Slot, Wire,
};
use quorate_fuzz::{Fuzz, Limits, check_recorded};

pub(crate) fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

fn entry() -> Entry {
    let id = EntryId {
        origin: ReplicaId(1),
        boot: Boot(2),
        seq: 3,
    };
    EntryBuilder::default().finish(id, 4)
}

/// An epoch of two members.
pub(crate) fn epoch() -> Epoch {
    let member = |id| Member {
        id: ReplicaId(id),
        incarnation: Incarnation(7 + u128::from(id)),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: vec![member(1), member(2)],
        protocol: "some".into(),
        durability: Durability::Disk,
        seed: 9,
        params: [("lanes".to_owned(), "2".to_owned())].into(),
    }
}

/// What a log says of promises.
fn noted() -> Noted {
    let at = |offset| Position { segment: 3, offset };
    let progress = Progress {
        losses: 2,
        at: at(8192),
    };
    let known = Remembered {
        boot: Boot(9),
        progress,
    };
    Noted {
        losses: 1,
        starts: vec![(Boot(7), at(4096)), (Boot(8), at(5000))],
        peers: [(ReplicaId(2), (Incarnation(12), known))].into(),
    }
}

/// One frame of every kind.
fn frames(version: WireVersion) -> Vec<(Header, Body)> {
    let at = Position {
        segment: 3,
        offset: 4096,
    };
    let progress = Progress { losses: 1, at };
    let (boot, incarnation) = (Boot(2), Incarnation(3));
    let claim = Claim {
        boot,
        began: progress,
        durable: at,
    };
    let header = Header {
        version,
        group: Group(0),
        epoch: 1,
        applied: Slot(900),
        checkpoint: (Slot(8), 77),
        claim: version.has_claims().then_some(claim),
    };
    let snapshot = SnapshotId {
        slot: Slot(7),
        bytes: 300,
        digest: 8,
    };
    let (slot, digest, offset) = (snapshot.slot, snapshot.digest, 200);
    let bodies = [
        Body::Messages(Bytes::from_static(b"anything")),
        Body::Beat,
        Body::Fetch { from: Slot(5) },
        Body::Decided {
            from: Slot(6),
            entries: vec![None, Some(entry()), None],
        },
        Body::Note {
            incarnation: Incarnation(3),
            note: Note::Moved {
                epoch: epoch(),
                known: Known::default(),
                addresses: [(ReplicaId(1), "host:1".to_owned())].into(),
            },
        },
        Body::Offer(snapshot),
        Body::Taken(snapshot),
        Body::WantPiece {
            slot,
            digest,
            offset,
        },
        Body::Piece {
            slot,
            offset,
            bytes: Bytes::from_static(b"part"),
        },
        Body::WantMark { number: 300 },
        Body::Mark {
            number: 300,
            slot: Slot(9),
        },
    ];
    let remembered = Remembered { boot, progress };
    let since_claims = [
        Body::AskRemembered { incarnation },
        Body::Remembered {
            incarnation,
            remembered: Some(remembered),
            waits: true,
        },
        Body::AskDigest {
            of: DigestOf::Snapshot,
            slot,
        },
        Body::Digest {
            of: DigestOf::Applied,
            slot,
            digest,
        },
    ];
    let since_claims = since_claims.into_iter().filter(|_| version.has_claims());
    let bodies = bodies.into_iter().chain(since_claims);
    bodies.map(|body| (header, body)).collect()
}

#[test]
fn frames_bear_any_bytes() {
    let limits = Limits {
        // Decided slots are few; a no-op among them is one byte.
        base_bytes: 3 * (frame::DECIDED_SLOTS_MAX * size_of::<Option<Entry>>()) as u64,
        ..Limits::default()
    };
    let decode = |input| frame::decode(input, SupportedVersions::REHEARSED);
    let versions = [
        SupportedVersions::SHIPPED.newest,
        SupportedVersions::REHEARSED.newest,
    ];
    let frames = versions.into_iter().flat_map(frames);
    let seeds = frames.map(|(header, body)| frame::encode(&header, &body).concat());
    fuzz("frame")
        .seeds(seeds)
        .limits(limits)
        .run(decode, |input, (header, body)| {
            assert_eq!(frame::encode(header, body).concat(), *input);
        });
}

#[test]
fn frames_of_all_released_versions_are_read_and_those_of_this_one_written() {
    let version = SupportedVersions::SHIPPED.newest;
    check_recorded(
        (env!("CARGO_MANIFEST_DIR"), "wire", version.0),
        "frames",
        &frames(version),
        |(header, body)| frame::encode(header, body).concat(),
        |bytes| frame::decode(bytes, SupportedVersions::SHIPPED),
    );
}

#[test]
fn the_hosts_records_bear_any_bytes() {
    let decided = [None, Some(entry().id)].map(|entry| {
        let slot = Slot(300);
        Decided { slot, entry }.to_bytes()
    });
    fuzz("decided").seeds(decided).run_wire::<Decided>();
    fuzz("noted")
        .seeds([noted().to_bytes()])
        .run_wire::<Noted>();
    let learned = Learned {
        slot: Slot(300),
        entry: entry(),
    };
    fuzz("learned")
        .seeds([learned.to_bytes()])
        .run_wire::<Learned>();
}

#[test]
fn logs_bear_any_bytes() {
    log::headers();
    log::records();
    log::segments();
}

#[test]
fn bulk_segments_bear_any_bytes() {
    bulk::heads();
    bulk::footers();
    bulk::segments();
}

#[test]
fn snapshots_bear_any_bytes() {
    let state = AppliedState::sample();
    fuzz("applied")
        .seeds([state.to_bytes()])
        .run_wire::<AppliedState>();
    snapshot::headers();
    snapshot::pieces();
    snapshot::whole();
}

#[test]
fn sessions_bear_any_bytes() {
    let mut sessions = Sessions::new(10);
    for client in 1..5 {
        sessions.open(ClientId(client), client % 2, Slot(client));
        for seq in 1..3 {
            let id = RequestId {
                client: ClientId(client),
                seq,
            };
            sessions.record(id, Slot(9), Bytes::from_static(b"result"));
        }
    }
    let load = |input: Bytes| {
        let mut loaded = Sessions::new(10);
        loaded.load(&mut None, input).map(|()| loaded)
    };
    let limits = Limits {
        // A session takes twelve bytes at least; in memory it is a node of a tree and a tree.
        base_bytes: 8 << 10,
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let seeds: Vec<Bytes> = [20, 60, 1000]
        .into_iter()
        .flat_map(|bytes| sessions.pieces(bytes))
        .collect();
    fuzz("sessions")
        .seeds(seeds)
        .limits(limits)
        .run(load, |_, loaded| {
            let mut again = Sessions::new(10);
            let mut last = None;
            for piece in loaded.pieces(50) {
                again
                    .load(&mut last, piece)
                    .expect("what is written is read");
            }
            assert_eq!(again, *loaded);
        });
}
