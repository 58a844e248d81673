//! What a replica tells gateways of committed commands.

use super::links::Served;
use super::{Event, Replica};
use crate::book::ParticipantId;
use crate::exchange::{ANSWER_MAX, Answer, Exchange, Query, Reply, SymbolEvent, SymbolId};
use crate::feed::{BookSnapshot, PACKET_MESSAGES_MAX};
use crate::link::{FromReplica, OwnOrder, RequestStatus};
use crate::live::clock;
use quorate::{Freshness, Node};
use std::sync::Arc;

/// How many ticks there are between two reports of how far all symbols are.
const FULL_TICKS: u64 = 50;

/// Sends a gateway what it misses of a symbol: some events, or the open orders where those are forgotten.
pub(super) async fn serve(node: Arc<Node<Exchange>>, served: Served, symbol: SymbolId, from: u64) {
    let most = ANSWER_MAX;
    let query = |query| node.query_at(query, Freshness::Local);
    let message = match query(Query::Events { symbol, from, most }).await {
        Ok(Answer::Events(events)) => {
            let release_ns = clock::now().clock_ns;
            for events in events.chunks(PACKET_MESSAGES_MAX) {
                let events = events.to_vec();
                served
                    .outbox
                    .send(FromReplica::Events { release_ns, events }.to_bytes());
            }
            return;
        }
        Ok(Answer::Forgotten) => match query(Query::Orders(symbol)).await {
            Ok(Answer::Orders(open)) => FromReplica::Book {
                from,
                snapshot: BookSnapshot::of(symbol, &open),
            },
            _ => return,
        },
        _ => return,
    };
    served.outbox.send(message.to_bytes());
}

/// Sends a gateway the open orders of a participant in a symbol.
pub(super) async fn serve_own(
    node: Arc<Node<Exchange>>,
    served: Served,
    symbol: SymbolId,
    participant: ParticipantId,
) {
    let wanted = node.query_at(Query::Orders(symbol), Freshness::Local).await;
    let Ok(Answer::Orders(open)) = wanted else {
        return;
    };
    let orders = open.bids.iter().chain(&open.asks);
    let own = orders.filter(|order| order.owner.participant == participant);
    let own = own.map(|order| OwnOrder {
        number: order.owner.client_order,
        side: order.side,
        price: order.price,
        open: order.open,
    });
    let message = FromReplica::Own {
        symbol,
        participant,
        orders: own.collect(),
    };
    served.outbox.send(message.to_bytes());
}

impl Replica {
    /// Counts a committed command, and publishes what happened if this replica leads.
    pub(super) fn handle_applied(&mut self, reply: &Reply) {
        let symbol = reply.events.first().map(|event| event.symbol);
        if let Some(stamp) = reply.stamp.filter(|_| !reply.is_repeated) {
            let gateway = stamp.gateway;
            self.inbound.handle_executed(symbol, gateway, stamp.time_ns);
            if let Some(symbol) = symbol {
                self.sequencer.handle_applied(symbol, stamp);
            }
        }
        self.publish(&reply.events);
    }

    fn publish(&mut self, events: &[SymbolEvent]) {
        let now = clock::now();
        let ready = self.publisher.handle_owned(now.clock_ns, events);
        if self.leads {
            for events in ready.chunks(PACKET_MESSAGES_MAX) {
                let release_ns = events.iter().map(|(release_ns, _)| *release_ns).max();
                let message = FromReplica::Events {
                    release_ns: release_ns.unwrap_or_default(),
                    events: events.iter().map(|(_, event)| *event).collect(),
                };
                self.links.send_to_all(&message);
            }
        }
        self.fetch();
    }

    /// Learns from the state how far symbols are, where effects were missed.
    pub(super) fn look_for_latest(&self) {
        let (node, events) = (Arc::clone(&self.node), self.events.clone());
        tokio::spawn(async move {
            let query = |query| node.query_at(query, Freshness::Local);
            let Ok(Answer::Symbols(symbols)) = query(Query::Symbols).await else {
                return;
            };
            let mut latest = Vec::new();
            for (symbol, ..) in symbols {
                let depth = Query::Depth { symbol, levels: 0 };
                if let Ok(Answer::Depth(depth)) = query(depth).await {
                    latest.push((symbol, depth.sequence));
                }
            }
            // The replica has ended otherwise.
            let _ = events.send(Event::Latest(latest)).await;
        });
    }

    /// Fetches from the state what the publisher misses.
    pub(super) fn fetch(&mut self) {
        let Some((symbol, missing)) = self.publisher.missing().filter(|_| !self.is_fetching) else {
            return;
        };
        self.is_fetching = true;
        let (node, events) = (Arc::clone(&self.node), self.events.clone());
        let wanted = Query::Events {
            symbol,
            from: missing.start,
            most: ANSWER_MAX,
        };
        tokio::spawn(async move {
            let query = |query| node.query_at(query, Freshness::Local);
            let answer = match query(wanted).await {
                Ok(Answer::Forgotten) => query(Query::Orders(symbol)).await,
                other => other,
            };
            let answer = answer.unwrap_or(Answer::Events(Vec::new()));
            let _ = events.send(Event::Fetched(symbol, answer)).await;
        });
    }

    pub(super) fn fetched(&mut self, symbol: SymbolId, answer: &Answer) {
        self.is_fetching = false;
        match answer {
            Answer::Events(events) if !events.is_empty() => self.publish(events),
            Answer::Orders(open) => {
                self.publisher.handle_forgotten(symbol, open.sequence);
                self.fetch();
            }
            _ => {}
        }
    }

    /// Tells gateways how far symbols are, if this replica leads, and asks for their clocks.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        self.fetch();
        let is_full = self.ticks.is_multiple_of(FULL_TICKS);
        let mut latest: Vec<(SymbolId, u64)> = self.publisher.latest().collect();
        // Symbols begin without an event.
        if is_full && latest.len() < usize::from(self.options.symbols) {
            self.look_for_latest();
        }
        if self.leads {
            latest.retain(|(symbol, sequence)| {
                let before = self.told.insert(*symbol, *sequence);
                is_full || before != Some(*sequence)
            });
            let status = self.status(latest);
            self.links.send_to_all(&status);
            let asked_ns = clock::now().clock_ns;
            self.links.send_to_all(&FromReplica::Clock(asked_ns));
        }
    }

    /// Tells a new gateway who leads and how far all symbols are.
    pub(super) fn greet(&mut self, link: u64) {
        self.links.send(link, &FromReplica::Leads(self.leads));
        let status = self.status(self.publisher.latest().collect());
        self.links.send(link, &status);
    }

    fn status(&self, latest: Vec<(SymbolId, u64)>) -> FromReplica {
        let mut sequenced = self.sequenced;
        sequenced.add(&self.sequencer.stats());
        FromReplica::Status {
            latest,
            requests: RequestStatus {
                inbound: self.inbound.counted(),
                late: sequenced.late,
                quarantined: sequenced.quarantined,
            },
        }
    }
}
