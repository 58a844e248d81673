//! Leaders and gateways that die and come back, clocks that jump, stamps that are forged.

use super::network::exponential;
use super::world::{Event, GatewayMachine, World, delay, new_watches, sequencer};
use crate::exchange::{Answer, Command, Exchange, GatewayId, Query, Stamp};
use crate::fair::StampedRequest;
use crate::feed::Publisher;
use quorate::StateMachine;

/// The time until another replica leads, in ns.
const ELECTION_NS: u64 = 3_000_000;
/// The mean time that a process is dead, in ns.
const DEAD_NS: u64 = 5_000_000;
/// The mean time between two faults, in ns.
const BETWEEN_NS: u64 = 4_000_000;
/// How far a clock jumps, in ns.
const JUMP_NS: i64 = 500_000;

impl World {
    pub(super) fn fault(&mut self) {
        if !self.faults_last {
            return;
        }
        let gateway = self.rng.usize(0..self.gateways.len());
        let jump = [-JUMP_NS, 0, JUMP_NS][self.rng.usize(0..3)];
        match self.rng.u32(0..6) {
            0 | 1 => self.kill_leader(),
            2 => {
                self.gateways[gateway].is_up = false;
                self.seen.gateways_died += 1;
                let dead_ns = exponential(&mut self.rng, DEAD_NS);
                self.line.after(dead_ns, Event::GatewayUp(gateway));
            }
            3 | 4 => self.gateways[gateway].offset_ns = jump,
            _ => {
                let replica = self.rng.usize(0..self.replicas.len());
                self.replicas[replica].offset_ns = jump / 5;
            }
        }
        let pause = exponential(&mut self.rng, BETWEEN_NS);
        self.line.after(pause, Event::Fault);
    }

    /// Has the leader die with what it executed; some of that is on other replicas already.
    fn kill_leader(&mut self) {
        let others = self.replicas.iter().filter(|replica| replica.is_up).count();
        let Some(leader) = self.leader.filter(|_| others == self.replicas.len()) else {
            return;
        };
        self.leader = None;
        self.term += 1;
        self.replicas[leader].is_up = false;
        let survive = self.rng.usize(0..=self.tail.len());
        self.seen.leaders_died += 1;
        self.seen.lost_with_leader += (self.tail.len() - survive) as u64;
        self.tail.truncate(survive);
        self.line.after(ELECTION_NS, Event::Elected);
        let dead_ns = ELECTION_NS + exponential(&mut self.rng, DEAD_NS);
        self.line.after(dead_ns, Event::ReplicaUp(leader));
    }

    /// Another replica leads: it agrees on what survived, and begins without anything else of the last leader.
    pub(super) fn elected(&mut self) -> Result<(), String> {
        let up = (0..self.replicas.len()).filter(|replica| self.replicas[*replica].is_up);
        let up: Vec<usize> = up.collect();
        let leader = up[self.rng.usize(0..up.len())];
        self.catch_up(leader)?;
        self.leader = Some(leader);
        while let Some(entry) = self.tail.pop_front() {
            self.commit(leader, entry)?;
        }
        self.ahead = loaded(&self.replicas[leader].exchange)?;
        self.watches = new_watches(self.gateways.len());
        self.seen.sequencer.add(&self.sequencer.stats());
        self.sequencer = sequencer(&self.scenario);
        self.delay = delay(&self.scenario);
        self.wake_ns = None;
        for entry in &self.audit.log {
            if let Command::Order(stamp, request) = entry.command {
                self.sequencer.handle_applied(request.symbol, stamp);
            }
        }
        Ok(())
    }

    /// A replica that was dead begins with the state of another one.
    pub(super) fn replica_up(&mut self, replica: usize) -> Result<(), String> {
        let mut others = (0..self.replicas.len()).filter(|other| *other != replica);
        let up = others.find(|other| self.replicas[*other].is_up);
        let Some(up) = up else {
            return Err("no replica is up".to_owned());
        };
        let exchange = loaded(&self.replicas[up].exchange)?;
        let mut publisher = Publisher::new(self.scenario.hold_ns);
        for symbol in self.audit.feed.keys() {
            if let Answer::Orders(open) = exchange.query(&Query::Orders(*symbol)) {
                publisher.handle_forgotten(*symbol, open.sequence);
            }
        }
        let applied = self.replicas[up].applied;
        let machine = &mut self.replicas[replica];
        (machine.exchange, machine.publisher) = (exchange, publisher);
        (machine.applied, machine.is_up) = (applied, true);
        Ok(())
    }

    pub(super) fn gateway_up(&mut self, at: usize) {
        let machine = &self.gateways[at];
        if !machine.is_up {
            self.gateways[at] = GatewayMachine::new(at, machine.boot + 1, machine.offset_ns);
        }
    }

    /// What a gateway sends that has been taken over, now and then: the stamp of another one, or of the future.
    pub(super) fn forge(&mut self, stamped: StampedRequest) -> StampedRequest {
        if !self.faults_last || self.rng.u32(0..50) > 0 {
            return stamped;
        }
        let Stamp { time_ns, gateway } = stamped.stamp;
        let stamp = match self.rng.bool() {
            true => Stamp {
                time_ns: time_ns + 5_000_000,
                gateway,
            },
            false => Stamp {
                time_ns,
                gateway: GatewayId(gateway.0 + 1),
            },
        };
        StampedRequest { stamp, ..stamped }
    }

    pub(super) fn end_faults(&mut self) {
        self.faults_last = false;
        for machine in &mut self.gateways {
            machine.offset_ns = 0;
        }
        for machine in &mut self.replicas {
            machine.offset_ns = 0;
        }
    }
}

fn loaded(exchange: &Exchange) -> Result<Exchange, String> {
    Exchange::load(&exchange.save())
}
