//! What is counted of datagrams to and from one peer.

use super::{METADATA, Registry};
use metrics::{Counter, Gauge, Key, KeyName, Label, Recorder};

/// The metrics of datagrams to and from one peer.
#[derive(Clone)]
pub(crate) struct DatagramMetrics {
    /// Whether short frames go to it by datagram.
    pub(crate) open: Gauge,
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    /// Datagrams that did not arrive before later ones.
    pub(crate) missed: Counter,
    /// Frames by TCP although there is a way for datagrams: too long, too much under way, or the system said no.
    pub(crate) unfit_long: Counter,
    pub(crate) unfit_full: Counter,
    pub(crate) unfit_unsent: Counter,
}

impl DatagramMetrics {
    pub(super) fn new(on: &Registry<'_>, peer: &str) -> DatagramMetrics {
        let counter = |name, help| on.labelled(name, help, ("peer", peer));
        let by_tcp = "quorate_peer_frames_by_tcp_total";
        on.0.describe_counter(
            KeyName::from_const_str(by_tcp),
            None,
            "Frames that went by TCP although datagrams arrive: they were long, or too much was under way (full), or \
             the system did not take them (unsent)."
                .into(),
        );
        let unfit = |why: &'static str| {
            let labels = vec![Label::new("peer", peer.to_owned()), Label::new("why", why)];
            on.0.register_counter(&Key::from_parts(by_tcp, labels), &METADATA)
        };
        DatagramMetrics {
            open: on.labelled_gauge(
                "quorate_peer_datagrams",
                "Whether short frames go to it by UDP.",
                ("peer", peer),
            ),
            sent: counter("quorate_peer_sent_datagrams_total", "Datagrams sent."),
            received: counter(
                "quorate_peer_received_datagrams_total",
                "Datagrams received.",
            ),
            missed: counter(
                "quorate_peer_missed_datagrams_total",
                "Datagrams that were not there when a later one was.",
            ),
            unfit_long: unfit("long"),
            unfit_full: unfit("full"),
            unfit_unsent: unfit("unsent"),
        }
    }
}
