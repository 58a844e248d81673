//! Every protocol's messages and records from hostile bytes, and its machines among hostile peers, or among none.

mod alone;
mod cluster;

use bytes::Bytes;
use cluster::Cluster;
use fastrand::Rng;
use quorate_core::{Boot, Epoch, Group, Seat, Wire};
use quorate_fuzz::{Fuzz, check_recorded_wire, is_to_be_recorded, mutate, rounds};
use quorate_protocols::{Protocol, Visitor, all_names, visit};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// What was said and recorded in a cluster's life.
#[derive(Default)]
struct Heard {
    messages: BTreeSet<Bytes>,
    records: BTreeSet<Bytes>,
    bases: BTreeSet<Bytes>,
}

/// Encodings of everything that some clusters said and recorded: a few of each length.
fn listen<P: Protocol>() -> Heard {
    const SEEDS: u64 = 4;
    let mut heard = Heard::default();
    for seed in 0..SEEDS {
        let mut cluster = Cluster::<P>::new(Rng::with_seed(seed));
        for _ in 0..3_000 {
            cluster.advance();
        }
        heard
            .messages
            .extend(cluster.watch.said.iter().map(|message| message.to_bytes()));
        heard.records.extend(
            cluster
                .watch
                .recorded
                .iter()
                .map(|record| record.to_bytes()),
        );
        heard
            .bases
            .extend(cluster.nodes.iter().map(|node| node.base.to_bytes()));
    }
    for all in [&mut heard.messages, &mut heard.records, &mut heard.bases] {
        let mut of_kind = BTreeSet::new();
        all.retain(|bytes| of_kind.insert((bytes.first().copied(), bytes.len())));
    }
    heard
}

/// Does it with every protocol.
fn each<V: Visitor<Output = ()>>(visitor: impl Fn() -> V) {
    for name in all_names() {
        visit(name, visitor()).expect("it is registered");
    }
}

fn fuzz(name: &str, of: &str, seeds: BTreeSet<Bytes>) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), &format!("{name}-{of}")).seeds(seeds)
}

struct Decoders;

impl Visitor for Decoders {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let heard = listen::<P>();
        fuzz(P::NAME, "message", heard.messages).run_wire::<cluster::Message<P>>();
        fuzz(P::NAME, "record", heard.records).run_wire::<cluster::Record<P>>();
    }
}

#[test]
fn messages_and_records_bear_any_bytes() {
    each(|| Decoders);
}

struct Recorded;

impl Visitor for Recorded {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let heard = listen::<P>();
        let place = (env!("CARGO_MANIFEST_DIR"), "wire", WIRE_VERSION);
        record_once::<cluster::Message<P>>(place, &format!("{}-message", P::NAME), heard.messages);
        let place = (env!("CARGO_MANIFEST_DIR"), "format", LOG_FORMAT);
        record_once::<cluster::Record<P>>(place, &format!("{}-record", P::NAME), heard.records);
    }
}

/// What is said and recorded within a few clusters' lives is recorded once: it differs as soon as
/// protocols act differently, without any change of format.
fn record_once<T: Wire + Debug>(place: (&str, &str, u32), name: &str, heard: BTreeSet<Bytes>) {
    let is_wanted = is_to_be_recorded(place, name);
    let heard = heard.into_iter().filter(|_| is_wanted);
    let values: Result<Vec<T>, _> = heard.map(T::from_bytes).collect();
    check_recorded_wire(place, name, &values.expect("it was said"));
}

/// The versions of messages and of records; see `quorate_host`.
const WIRE_VERSION: u32 = 1;
const LOG_FORMAT: u32 = 1;

#[test]
fn recorded_messages_and_records_of_all_released_versions_are_read() {
    each(|| Recorded);
}

struct Bases;

impl Visitor for Bases {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let limits = quorate_fuzz::Limits {
            // Trees of runs.
            bytes_per_byte: 64,
            ..Default::default()
        };
        let fuzz = fuzz(P::NAME, "base", listen::<P>().bases).limits(limits);
        fuzz.run_wire::<cluster::Base<P>>();
    }
}

#[test]
fn bases_bear_any_bytes() {
    each(|| Bases);
}

struct Epochs;

impl Visitor for Epochs {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let params = [[].into(), [("f".to_owned(), "1".to_owned())].into()];
        let epochs = params.map(|params| Epoch {
            params,
            ..quorate_testkit::epoch("", cluster::REPLICAS, &[])
        });
        let seeds = epochs.map(|epoch| epoch.to_bytes());
        let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), &format!("{}-epoch", P::NAME));
        fuzz.seeds(seeds).run(Epoch::from_bytes, |_, epoch| {
            for member in &epoch.members {
                // A configuration, or what is wrong with the epoch.
                drop(P::config(&Seat {
                    group: Group(0),
                    epoch: epoch.clone(),
                    me: member.id,
                    boot: Boot(1),
                }));
            }
        });
    }
}

/// A replica that comes back learns its epoch from peers.
#[test]
fn any_epoch_is_a_configuration_or_refused() {
    each(|| Epochs);
}

struct Hostile;

impl Visitor for Hostile {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let heard: Vec<Bytes> = listen::<P>().messages.into_iter().collect();
        rounds(40, |rng| among_liars::<P>(rng, &heard));
    }
}

/// One cluster in which, besides everything that happens anyway, messages arrive that nobody sent.
fn among_liars<P: Protocol>(mut rng: Rng, heard: &[Bytes]) {
    let mut cluster = Cluster::<P>::new(rng.fork());
    for _ in 0..2_000 {
        cluster.advance();
        if rng.u8(..3) > 0 {
            continue;
        }
        let mut bytes = heard[rng.usize(..heard.len())].to_vec();
        let other = &heard[rng.usize(..heard.len())];
        mutate(&mut bytes, other, &mut rng);
        if let Ok(message) = Wire::from_bytes(bytes.into()) {
            cluster.lie(message);
        }
    }
}

/// Scenario: peers say whatever decodes, in any state of a machine. They may keep it from deciding,
/// or make it decide nonsense (only crashes are tolerated); they must not end it.
#[test]
fn machines_bear_any_message_in_any_state() {
    each(|| Hostile);
}
