//! Snapshots from hostile bytes: their frame, and the state in them.

use super::format::{Framer, HEAD_BYTES, Header, Kind, Progress, Unframer};
use super::load::{HostState, Loaded, Loading};
use crate::apply::{AppliedState, first_state};
use crate::fuzz::fuzz;
use bytes::Bytes;
use quorate_core::{Application, ClusterId, Encoder, Group, Machine, Slot, Wire};
use quorate_etcd_store::Store;
use quorate_fuzz::Limits;
use quorate_protocols::{Protocol, Visitor, all_names, visit};

fn header() -> Header {
    Header::new(ClusterId(5), Group(0), Slot(9))
}

/// The first piece of a snapshot.
pub(crate) fn headers() {
    fuzz("snapshot-header")
        .seeds([header().to_bytes()])
        .run_wire::<Header>();
}

/// Puts the checksums of pieces right, and the number and digest in the last.
fn seal(input: &mut [u8]) {
    let mut at = Progress::default();
    let mut start = 0;
    while input.len() >= start + HEAD_BYTES {
        let fields: [u8; 8] = input[start..start + 8].try_into().expect("eight bytes");
        let length = u32::from_le_bytes([fields[0], fields[1], fields[2], fields[3]]) as usize;
        let (from, end) = (
            start + HEAD_BYTES,
            (start + HEAD_BYTES).saturating_add(length),
        );
        let (Some(kind), true) = (Kind::from_code(fields[4]), end <= input.len()) else {
            return;
        };
        if kind == Kind::End && length == at.end().len() {
            input[from..end].copy_from_slice(&at.end());
        }
        let checksum = at.checksum(fields, &input[from..end]);
        input[start + 8..from].copy_from_slice(&checksum.to_le_bytes());
        at.pass(kind, checksum, length);
        start = end;
    }
}

fn framed(pieces: &[(Kind, Bytes)]) -> Vec<u8> {
    let mut framer = Framer::default();
    let mut all = Vec::new();
    for (kind, body) in pieces {
        all.extend_from_slice(&framer.head(*kind, body));
        all.extend_from_slice(body);
    }
    let end = framer.end();
    all.extend_from_slice(&framer.head(Kind::End, &end));
    all.extend_from_slice(&end);
    all
}

/// Pieces come out of their frame as they went in, or not at all.
pub(crate) fn pieces() {
    let bodies = [&b"one"[..], b"", b"three"].map(Bytes::from_static);
    let pieces: Vec<_> = [Kind::Header, Kind::Host, Kind::App]
        .into_iter()
        .zip(bodies)
        .collect();
    let unframe = |input: Bytes| {
        let mut unframer = Unframer::default();
        let mut pieces = Vec::new();
        for part in input.chunks(50) {
            unframer.feed(part);
            while let Some(piece) = unframer.next()? {
                pieces.push(piece);
            }
        }
        Ok::<_, String>((pieces, unframer.digest()))
    };
    fuzz("pieces")
        .seeds([framed(&pieces)])
        .seal(|input| seal(input))
        .run(unframe, |input, (pieces, digest)| {
            if digest.is_some() {
                assert_eq!(framed(pieces), input[..]);
            }
        });
}

/// A whole snapshot of the store, under each protocol.
pub(crate) fn whole() {
    struct Whole;

    impl Visitor for Whole {
        type Output = ();

        fn visit<P: Protocol>(self) {
            whole_of::<P::Machine>(&format!("snapshot-{}", P::NAME));
        }
    }

    all_names()
        .into_iter()
        .for_each(|name| visit(name, Whole).expect("it is registered"));
}

fn whole_of<M: Machine>(name: &str) {
    let mut store = Store::new();
    let mut cut = store.cut();
    let mut pieces = vec![
        (Kind::Header, header().to_bytes()),
        (Kind::Host, {
            let base = M::Base::default();
            let applied = AppliedState::sample();
            HostState { applied, base }.to_bytes()
        }),
        (Kind::Sessions, session()),
    ];
    while let Some(piece) = store.piece(&mut cut, 1000) {
        pieces.push((Kind::App, piece));
    }
    let load = |input: Bytes| {
        let first = first_state(&crate::fuzz::epoch());
        let mut loading = Loading::<M, Store>::new(header(), first, Store::new(), 10);
        loading.feed(&input)?;
        loading.finish().map(Shown)
    };
    let limits = Limits {
        base_bytes: 64 << 10,
        bytes_per_byte: 128,
        ..Limits::default()
    };
    let fuzz = fuzz(name)
        .seeds([framed(&pieces)])
        .limits(limits)
        .seal(|input| seal(input));
    fuzz.run(load, |_, Shown(loaded)| {
        assert_eq!(loaded.slot, header().next)
    });
}

/// The beginning of a session without results.
fn session() -> Bytes {
    let mut out = Encoder::new();
    out.u8(0);
    [7, 1, 0, 3]
        .into_iter()
        .for_each(|number| out.varint(number));
    out.into_bytes()
}

/// So that what loaded can be told apart.
struct Shown<M: Machine>(Loaded<M, Store>);

impl<M: Machine> std::fmt::Debug for Shown<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loaded {
            state,
            sessions,
            app,
            ..
        } = &self.0;
        write!(f, "{:?} {sessions:?} {app:?}", state.base)
    }
}
