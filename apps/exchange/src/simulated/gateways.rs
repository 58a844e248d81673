//! Gateways: requests on their way in, and market data on its way out.

use super::audit::name;
use super::world::{Event, FETCH_NS, World};
use crate::exchange::{Answer, GatewayId, Query, Request, SymbolId};
use crate::fair::StampedRequest;
use crate::feed::{Packet, Publisher};
use quorate::StateMachine;

impl World {
    pub(super) fn at_gateway(&mut self, at: usize, request: Request) {
        if !self.gateways[at].is_up {
            return;
        }
        let now = self.gateway_now(at);
        let first = (self.line.now_ns, at);
        self.received.entry(name(&request)).or_insert(first);
        if let Ok(stamped) = self.gateways[at].gateway.handle_request(now, request) {
            self.send_to_leader(at, stamped);
        }
        self.arm_gateway(at);
    }

    pub(super) fn send_to_leader(&mut self, at: usize, stamped: StampedRequest) {
        let link = GatewayId(at as u16);
        let sent = self.forge(stamped);
        for way in self.ways() {
            self.line.after(way, Event::AtLeader(link, sent));
        }
    }

    pub(super) fn at_hold(&mut self, at: usize, boot: u64, packet: &Packet) -> Result<(), String> {
        if !self.is_boot(at, boot) {
            return Ok(());
        }
        for message in &packet.messages {
            self.audit.check_shown(message)?;
        }
        let now = self.gateway_now(at);
        self.gateways[at].hold.handle_packet(now, packet);
        self.fetch(at);
        self.arm_gateway(at);
        Ok(())
    }

    /// Asks some replica for what a gateway missed.
    pub(super) fn fetch(&mut self, at: usize) {
        let machine = &mut self.gateways[at];
        if machine.is_fetching {
            return;
        }
        if let Some((symbol, range)) = machine.hold.missing() {
            machine.is_fetching = true;
            let boot = machine.boot;
            for way in self.ways() {
                let event = Event::Fetch(at, boot, symbol, range.start);
                self.line.after(way, event);
            }
            self.line.after(FETCH_NS, Event::FetchTimeout(at, boot));
        }
    }

    pub(super) fn serve_fetch(&mut self, at: usize, boot: u64, symbol: SymbolId, from: u64) {
        let replica = &self.replicas[self.rng.usize(0..self.replicas.len())];
        if !replica.is_up {
            return;
        }
        let most = 200;
        let event = match replica
            .exchange
            .query(&Query::Events { symbol, from, most })
        {
            Answer::Events(events) => {
                let mut publisher = Publisher::new(0);
                publisher.handle_forgotten(symbol, from - 1);
                let clock_ns = self.now_of(replica.offset_ns).clock_ns;
                let packets = publisher.handle_events(clock_ns, &events);
                let messages = packets.into_iter().flat_map(|packet| packet.messages);
                let packet = Packet {
                    release_ns: clock_ns,
                    messages: messages.collect(),
                    latest: Vec::new(),
                };
                Event::AtHold(at, boot, packet)
            }
            Answer::Forgotten => match replica.exchange.query(&Query::Orders(symbol)) {
                Answer::Orders(open) => Event::Forgotten(at, boot, symbol, open.sequence),
                _ => return,
            },
            _ => return,
        };
        // The answer is under way once; a lost one is asked for again.
        let way = self.ways().pop();
        if let Some(way) = way {
            self.line.after(way, event);
        }
    }

    pub(super) fn wake_gateway(&mut self, at: usize, boot: u64) -> Result<(), String> {
        if !self.is_boot(at, boot) || self.gateways[at].wake_ns != Some(self.line.now_ns) {
            return Ok(());
        }
        self.gateways[at].wake_ns = None;
        let now = self.gateway_now(at);
        while let Some(stamped) = self.gateways[at].gateway.poll_resend(now) {
            self.send_to_leader(at, stamped);
        }
        while let Some(released) = self.gateways[at].hold.poll(now) {
            let message = &released.message;
            self.audit.check_shown(message)?;
            let shown = self.gateways[at].shown.entry(message.symbol).or_default();
            *shown += 1;
            if *shown != message.sequence {
                return Err(format!("gateway {at} shows {message:?} as number {shown}"));
            }
            self.outbound.handle_released(&released, self.line.now_ns);
        }
        self.arm_gateway(at);
        Ok(())
    }

    pub(super) fn arm_gateway(&mut self, at: usize) {
        let machine = &mut self.gateways[at];
        let next = machine.hold.next_release_ns();
        let resend = machine.gateway.next_resend_ns();
        let Some(next) = next.into_iter().chain(resend).min() else {
            return;
        };
        let next = next.max(self.line.now_ns);
        if machine.wake_ns.is_none_or(|wake_ns| next < wake_ns) {
            machine.wake_ns = Some(next);
            self.line.at(next, Event::GatewayWake(at, machine.boot));
        }
    }
}
