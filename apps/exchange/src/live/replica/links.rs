//! Links to gateways, and what is known of the clocks at their ends.

use super::{Event, TICK};
use crate::exchange::{GatewayId, SYMBOLS_MAX};
use crate::fair::{ClockProbe, ClockWatch, Now};
use crate::link::{FromReplica, ToReplica};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

#[derive(Debug)]
struct Link {
    outbox: Outbox,
    gateway: Option<GatewayId>,
    clock: ClockWatch,
    /// One clone for each answer that is being made.
    serving: Arc<()>,
}

/// Where an answer goes that takes a look at the state; it counts for its link until it is dropped.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) outbox: Outbox,
    _counted: Arc<()>,
}

/// How many answers are being made for a link. Whoever asks for more asks again.
const SERVING_MAX: usize = SYMBOLS_MAX;

/// The links of a replica, by the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<u64, Link>);

/// Takes links for as long as the replica runs.
pub(super) async fn accept(listener: TcpListener, events: mpsc::Sender<Event>) {
    for link in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open: some connection has to end first.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (outbox, outgoing) = Outbox::new();
        if events.send(Event::Linked(link, outbox)).await.is_err() {
            return;
        }
        let events = events.clone();
        tokio::spawn(async move {
            let heard = |message| Event::Heard(link, message);
            // A link that breaks is made anew by its gateway.
            let _ = connection::run(stream, outgoing, ToReplica::take, &events, heard).await;
            let _ = events.send(Event::Unlinked(link)).await;
        });
    }
}

impl Links {
    pub(super) fn begin(&mut self, link: u64, outbox: Outbox) {
        let link_of = Link {
            outbox,
            gateway: None,
            clock: ClockWatch::default(),
            serving: Arc::default(),
        };
        self.0.insert(link, link_of);
    }

    pub(super) fn end(&mut self, link: u64) {
        self.0.remove(&link);
    }

    /// Says which gateway is at the end of a link. A link has one for ever.
    pub(super) fn name(&mut self, link: u64, gateway: GatewayId) {
        if let Some(link) = self.0.get_mut(&link) {
            link.gateway.get_or_insert(gateway);
        }
    }

    pub(super) fn gateway(&self, link: u64) -> Option<GatewayId> {
        self.0.get(&link)?.gateway
    }

    /// Where an answer to this link goes, unless too many are being made for it.
    pub(super) fn serve(&self, link: u64) -> Option<Served> {
        let link = self.0.get(&link)?;
        let has_room = Arc::strong_count(&link.serving) <= SERVING_MAX;
        has_room.then(|| Served {
            outbox: link.outbox.clone(),
            _counted: Arc::clone(&link.serving),
        })
    }

    pub(super) fn send(&mut self, link: u64, message: &FromReplica) {
        if let Some(found) = self.0.get(&link)
            && !found.outbox.send(message.to_bytes())
        {
            self.end(link);
        }
    }

    /// Sends a message to a gateway over its newest link.
    pub(super) fn send_to(&mut self, gateway: GatewayId, message: &FromReplica) {
        let mut newest = self.0.iter().rev();
        let found = newest.find(|(_, link)| link.gateway == Some(gateway));
        if let Some(link) = found.map(|(link, _)| *link) {
            self.send(link, message);
        }
    }

    /// Sends a message over all links; those that are too slow end, and their gateways make new ones.
    pub(super) fn send_to_all(&mut self, message: &FromReplica) {
        let bytes = message.to_bytes();
        self.0.retain(|_, link| link.outbox.send(bytes.clone()));
    }

    /// Takes the answer to a question for the time; says whose clock it is, and whether it is wrong.
    pub(super) fn judge_clock(
        &mut self,
        link: u64,
        asked_ns: u64,
        received_ns: u64,
        answered_ns: u64,
    ) -> Option<(GatewayId, bool)> {
        let Now { clock_ns, .. } = clock::now();
        let link = self.0.get_mut(&link)?;
        link.clock.handle_probe(ClockProbe {
            asked_ns,
            received_ns,
            answered_ns,
            heard_ns: clock_ns,
        });
        Some((link.gateway?, link.clock.is_wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_link_that_asks_for_more_and_more_is_served_so_many_at_a_time() {
        let mut links = Links::default();
        links.begin(7, Outbox::new().0);
        let serve = || links.serve(7);
        let mut served: Vec<Served> = std::iter::from_fn(serve).collect();
        assert_eq!(served.len(), SERVING_MAX);
        served.pop();
        assert!(links.serve(7).is_some());
    }
}
