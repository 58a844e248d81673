//! The leader and its followers: what is held, executed, agreed on, and published.

use super::audit::{Entry, is_old, name};
use super::network::exponential;
use super::world::{Event, HEARTBEAT_NS, World};
use crate::exchange::{Command, GatewayId};
use crate::fair::{ClockProbe, Now, SequencerOptions, StampedRequest};
use crate::feed::Packet;
use quorate::{Applied, StateMachine};

impl World {
    pub(super) fn at_leader(&mut self, link: GatewayId, stamped: StampedRequest) {
        let Some(leader) = self.leader else {
            return;
        };
        let now = self.now_of(self.replicas[leader].offset_ns);
        let arrival = self.sequencer.handle_request(now, link, stamped);
        if let Some(delay) = &mut self.delay
            && let Some(is_late) = arrival.is_late()
        {
            self.sequencer.set_delay(delay.handle_arrival(is_late));
        }
        self.arm_sequencer(now);
    }

    pub(super) fn arm_sequencer(&mut self, now: Now) {
        let Some(pause) = self.sequencer.next_release_in_ns(now) else {
            return;
        };
        let wake_ns = self.line.now_ns.saturating_add(pause);
        if self.wake_ns.is_none_or(|before| wake_ns < before) {
            self.wake_ns = Some(wake_ns);
            self.line.at(wake_ns, Event::SequencerWake(self.term));
        }
    }

    /// Has what may go executed by the leader, ahead of its commit.
    pub(super) fn release(&mut self, term: u64) -> Result<(), String> {
        let Some(leader) = self.leader.filter(|_| term == self.term) else {
            return Ok(());
        };
        if self.wake_ns != Some(self.line.now_ns) {
            return Ok(());
        }
        self.wake_ns = None;
        let now = self.now_of(self.replicas[leader].offset_ns);
        while let Some(StampedRequest { stamp, request }) = self.sequencer.poll(now) {
            if stamp.time_ns > now.clock_ns + SequencerOptions::default().far_bound_ns {
                return Err(format!("a stamp of the future is in the log: {stamp:?}"));
            }
            self.append(Command::Order(stamp, request));
        }
        self.arm_sequencer(now);
        Ok(())
    }

    /// Has the leader carry out a command before anybody has agreed on it.
    pub(super) fn execute(&mut self, command: Command) {
        let leader = self.leader.unwrap_or_default();
        let now = self.now_of(self.replicas[leader].offset_ns);
        self.log_time_ns = self.log_time_ns.max(now.clock_ns);
        let place = (self.audit.log.len() + self.tail.len()) as u64;
        let at = Applied {
            slot: place,
            index: 0,
            time_ns: self.log_time_ns,
            who: 0,
            request: None,
            token: place + 1,
        };
        self.tail.push_back(Entry { at, command });
        let early = self.ahead.apply(&at, command);
        if self.scenario.publishes_early {
            let publisher = &mut self.replicas[leader].publisher;
            let packets = publisher.handle_events(now.clock_ns, &early.events);
            self.publish(&packets);
        }
    }

    /// Puts a command at the end of the leader's log, to be agreed on.
    pub(super) fn append(&mut self, command: Command) {
        self.execute(command);
        let begun_ns = self.engine_free_ns.max(self.line.now_ns);
        self.engine_free_ns = begun_ns + self.scenario.engine_ns;
        let agreed_ns = self.engine_free_ns + self.agreement_ns();
        self.committed_ns = self.committed_ns.max(agreed_ns);
        let commit = Event::Commit(self.term);
        self.line.at(self.committed_ns, commit);
    }

    /// The time until the nearer one of two followers has answered.
    pub(super) fn agreement_ns(&mut self) -> u64 {
        let scenario = self.scenario;
        if !scenario.is_replicated {
            return 0;
        }
        let mut way = || scenario.way_ns + exponential(&mut self.rng, scenario.jitter_ns);
        let mut round_trip = || way() + way();
        round_trip().min(round_trip())
    }

    pub(super) fn commit_next(&mut self) -> Result<(), String> {
        let (Some(leader), Some(entry)) = (self.leader, self.tail.pop_front()) else {
            return Ok(());
        };
        self.commit(leader, entry)
    }

    /// What a quorum agreed on is applied by the leader, answered, and published.
    pub(super) fn commit(&mut self, leader: usize, entry: Entry) -> Result<(), String> {
        let now = self.now_of(self.replicas[leader].offset_ns);
        let replica = &mut self.replicas[leader];
        let reply = replica.exchange.apply(&entry.at, entry.command);
        replica.applied += 1;
        let packets = replica.publisher.handle_events(now.clock_ns, &reply.events);
        self.audit.committed(entry, &reply)?;
        self.publish(&packets);
        for other in 0..self.replicas.len() {
            if other != leader {
                let lag = self.scenario.way_ns + exponential(&mut self.rng, HEARTBEAT_NS);
                self.line.after(lag, Event::Apply(other));
            }
        }
        if let Command::Order(stamp, request) = entry.command {
            if !reply.is_repeated && !is_old(&reply) {
                self.seen.executed += 1;
                let gateway = stamp.gateway;
                let (by_stamp, symbol) = (&mut self.by_stamp, request.symbol);
                by_stamp.handle_executed(symbol, gateway, stamp.time_ns);
                if let Some((at_ns, first)) = self.received.remove(&name(&request)) {
                    let first = GatewayId(first as u16);
                    self.by_receipt.handle_executed(symbol, first, at_ns);
                }
            }
            let at = usize::from(stamp.gateway.0);
            for way in self.ways() {
                let event = Event::Answer(at, request, reply.outcome);
                self.line.after(way, event);
            }
        }
        Ok(())
    }

    pub(super) fn publish(&mut self, packets: &[Packet]) {
        for packet in packets {
            for at in 0..self.gateways.len() {
                let boot = self.gateways[at].boot;
                for way in self.ways() {
                    let event = Event::AtHold(at, boot, packet.clone());
                    self.line.after(way, event);
                }
            }
        }
    }

    /// A follower applies the next entry; what it would publish is what is committed.
    pub(super) fn apply(&mut self, replica: usize) -> Result<(), String> {
        let machine = &mut self.replicas[replica];
        let Some(entry) = self
            .audit
            .log
            .get(machine.applied)
            .filter(|_| machine.is_up)
        else {
            return Ok(());
        };
        machine.applied += 1;
        let reply = machine.exchange.apply(&entry.at, entry.command);
        let packets = machine.publisher.handle_events(0, &reply.events);
        let messages = packets.iter().flat_map(|packet| &packet.messages);
        for message in messages {
            self.audit.check_shown(message)?;
        }
        Ok(())
    }

    /// Applies everything that is committed.
    pub(super) fn catch_up(&mut self, replica: usize) -> Result<(), String> {
        while self.replicas[replica].applied < self.audit.log.len() {
            self.apply(replica)?;
        }
        Ok(())
    }

    pub(super) fn heartbeat(&mut self) {
        if let Some(leader) = self.leader {
            let now = self.now_of(self.replicas[leader].offset_ns);
            let heartbeat = self.replicas[leader].publisher.heartbeat(now.clock_ns);
            self.publish(&[heartbeat]);
            for at in 0..self.gateways.len() {
                self.probe(now, at);
            }
        }
        self.line.after(HEARTBEAT_NS, Event::Heartbeat);
    }

    pub(super) fn probe(&mut self, now: Now, at: usize) {
        let there = self.ways().pop();
        let Some((there, back)) = there.zip(self.ways().pop()) else {
            return;
        };
        let theirs = self.gateway_now(at).clock_ns + there;
        let probe = ClockProbe {
            asked_ns: now.clock_ns,
            received_ns: theirs,
            answered_ns: theirs,
            heard_ns: now.clock_ns + there + back,
        };
        let event = Event::Probed(self.term, at, probe);
        self.line.after(there + back, event);
    }
}
