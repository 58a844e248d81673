//! What a protocol says of itself.

use super::{METADATA, Metrics, Registry};
use metrics::{Gauge, Key, Label, Recorder};
use quorate_core::ReplicaId;
use std::collections::BTreeMap;

/// A figure's name, and which peer it is of, if it is of one.
type Name = (&'static str, Option<ReplicaId>);

/// What protocols have said of themselves.
#[derive(Default)]
pub(crate) struct ProtocolGauges(BTreeMap<Name, Gauge>);

impl ProtocolGauges {
    /// Shows what the machine says. What it does not say any more, under another protocol, is no number.
    pub(crate) fn show(&mut self, on: &Metrics, figures: BTreeMap<Name, f64>) {
        for (_, gauge) in self
            .0
            .iter()
            .filter(|(name, _)| !figures.contains_key(name))
        {
            gauge.set(f64::NAN);
        }
        for ((name, peer), value) in figures {
            let gauge = self.0.entry((name, peer));
            gauge.or_insert_with(|| on.figure(name, peer)).set(value);
        }
    }
}

impl Metrics {
    fn figure(&self, name: &str, peer: Option<ReplicaId>) -> Gauge {
        let help = "What the protocol says of itself, or of a peer, by name; those that end in _total \
                    only grow while an epoch lasts.";
        let on = Registry(&self.recorder);
        on.describe_gauge("quorate_protocol", help);
        let peer = peer.map(|peer| Label::new("peer", peer.to_string()));
        let labels = [Label::new("figure", name.to_owned())].into_iter();
        let key = Key::from_parts("quorate_protocol", labels.chain(peer).collect::<Vec<_>>());
        on.0.register_gauge(&key, &METADATA)
    }
}
