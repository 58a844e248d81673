//! Drives one host as production does: inputs, a turn, then frames, answers, reads and a flush.

mod perform;

use crate::bounds::INBOX_MAX;
use crate::leases::Leases;
use crate::nemesis::ORDER;
use crate::network::chance;
use crate::node::Inbound;
use crate::report::Violation;
use crate::servers::Servers;
use crate::subject::Subject;
use crate::world::{Event, World};
use bytes::Bytes;
use perform::Replica;
use quorate_core::{MICROS, Machine, Peers, Slot};
use quorate_host::{
    Answer, Completed, Frame, Request, SupportedVersions, Token, WireVersion, drive,
};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Puts an input into a replica's inbox, and has it take a turn soon.
    pub(crate) fn arrive(&mut self, node: usize, input: Inbound<A::Query>) {
        if node >= self.nodes.len() {
            return self.arrive_at_gateway(node, input);
        }
        let target = &mut self.nodes[node];
        if target.host.is_none() || target.inbox.len() >= INBOX_MAX {
            return;
        }
        target.inbox.push(input);
        self.turn_soon(node);
    }

    /// Sends a request to a replica, on a link that loses nothing.
    pub(crate) fn send_request(&mut self, node: usize, token: u64, request: Request<A::Query>) {
        if self.rig.is_some() {
            return self.rig_asks(node, token, request);
        }
        let delay = self.client_ns();
        self.record_request(node, token, delay);
        self.queue.after(
            delay,
            Event::Request {
                node,
                token,
                request: Box::new(request),
            },
        );
    }

    /// What a client's words take to a replica or gateway, or an answer to the client.
    fn client_ns(&mut self) -> u64 {
        let Some(offers) = self.setup.schedule.offers() else {
            return self.rng.u64(10 * MICROS..200 * MICROS);
        };
        let links = &self.plan.links;
        let least_ns = links.delay_min_ns;
        match offers.are_clients_far {
            true => self
                .rng
                .u64(least_ns..least_ns + (2 * links.jitter_ns).max(1)),
            false => 0,
        }
    }

    /// Has a replica take a turn as soon as it is free, if none is due already.
    pub(crate) fn turn_soon(&mut self, node: usize) {
        let now_ns = self.queue.now_ns();
        let busy_ns = self.core_ns(node);
        let target = &mut self.nodes[node];
        let service_ns = busy_ns + self.rng.u64(..=self.plan.service_max_ns);
        let at_ns = (now_ns + service_ns).max(target.busy_until_ns);
        if target.turn_at_ns.is_none_or(|due| due > at_ns) {
            target.turn_at_ns = Some(at_ns);
            self.queue
                .after(at_ns - now_ns, Event::Turn { node, at_ns });
        }
    }

    /// A frame reaches the other end, unless its connection was reset on the way.
    pub(crate) fn frame_arrives(&mut self, from: usize, to: usize, connection: u32, bytes: Bytes) {
        if self.network.life(from, to) == connection {
            let from = self.number(from);
            self.core_takes_in(to, bytes.len());
            self.arrive(to, Inbound::Frame { from, bytes });
        } else {
            self.network.counts.reset += 1;
            self.record_reset(from, to);
        }
    }

    /// One turn of a replica.
    pub(crate) fn turn(&mut self, index: usize) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        node.turn_at_ns = None;
        if node.host.is_none() {
            return Ok(());
        }
        if now_ns < node.busy_until_ns || self.cores.is_some() && self.core_ns(index) > 0 {
            self.turn_soon(index);
            return Ok(());
        }
        self.rig_takes_in(index);
        self.take_inbox(index);
        self.order_due(index);
        self.look_after_waiting(index);
        let mut replica = Replica {
            world: self,
            index,
            rounds: 0,
        };
        let has_more = drive(&mut replica)?;
        self.servers_learn(index)?;
        let read = self.read_changes(index);
        self.tolerate(read)?;
        if has_more {
            self.turn_soon(index);
        }
        self.check_board(index)?;
        self.check_old_copy(index)?;
        let compared = self.compare(index);
        self.tolerate(compared)?;
        self.count_changes(index);
        self.check_bounds(index)?;
        self.wake_when_due(index);
        Ok(())
    }

    /// Gives a replica's host what has arrived.
    fn take_inbox(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        let now = node.clock.now(now_ns);
        let Some(host) = node.host.as_mut() else {
            return;
        };
        let inbox = std::mem::take(&mut node.inbox);
        self.trace
            .event(now_ns, "turn", &[index as u64, inbox.len() as u64], || {
                format!("r{} takes {}", index + 1, inbox.len())
            });
        for input in inbox {
            match input {
                Inbound::Frame { from, bytes } => host.frame(now, from, bytes),
                Inbound::Request { token, request } => host.submit(now, token, *request),
                Inbound::Link { peer, version } => host.link(now, peer, version),
                Inbound::Flushed => {
                    node.started = true;
                    node.wiped = false;
                    let flush = node.in_flight.take().expect("a flush was in flight");
                    host.completed(now, Completed::Flush(flush.through));
                }
                Inbound::Completed(completed) => host.completed(now, completed),
            }
        }
    }

    pub(crate) fn send(&mut self, from: usize, frame: &Frame) {
        let now_ns = self.queue.now_ns();
        let bytes: Bytes = match &frame.chunks[..] {
            [one] => one.clone(),
            chunks => chunks.concat().into(),
        };
        self.trace.event(now_ns, "send", &[from as u64], || {
            format!("r{} -> {:?}, {} B", from + 1, frame.to, bytes.len())
        });
        self.trace.bytes(&bytes);
        for to in 0..self.nodes.len() + self.gateways.len() {
            let meant = match frame.to {
                // Remote gateways are no members.
                Peers::All => to != from && to < self.nodes.len(),
                Peers::One(id) => id == self.number(to),
            };
            if !meant || !self.is_understood(from, to, frame.version) {
                continue;
            }
            if self.rig.is_some() {
                self.rig_sends((from, to), bytes.clone(), frame.bulk);
                continue;
            }
            self.network.counts.sent_bytes += bytes.len() as u64;
            let connection = self.network.life(from, to);
            let links = &self.plan.links;
            let copies = {
                let len = bytes.len();
                self.network
                    .route(now_ns, &mut self.rng, links, (from, to), len)
            };
            self.record_frame((from, to), &bytes, &copies);
            self.measure_frame(from, to, &bytes);
            for delay in copies.into_iter().flatten() {
                let leaves_ns = self.core_sends_ns(from, bytes.len());
                let bytes = bytes.clone();
                self.queue.after(
                    leaves_ns + delay,
                    Event::Frame {
                        from,
                        to,
                        connection,
                        bytes,
                    },
                );
            }
        }
    }

    /// Whether a frame may go on the connection between two replicas. One in a newer version than
    /// that connection's was meant for a former one: the transport drops it.
    fn is_understood(&mut self, from: usize, to: usize, version: WireVersion) -> bool {
        if version > SupportedVersions::SHIPPED.newest {
            self.totals.hit("frame in a newer version");
        }
        let agreed = self.supported(from).common(self.supported(to));
        agreed.is_some_and(|agreed| version <= agreed)
    }

    pub(crate) fn answer_leaves(
        &mut self,
        index: usize,
        token: Token,
        answer: Answer<A::Answer>,
    ) -> Result<(), Violation> {
        if token == ORDER {
            return Ok(());
        }
        if Servers::owns(token) {
            return self.driver_answered(token, &answer);
        }
        if Leases::owns(token) {
            return self.chore_answered(token, &answer);
        }
        self.check_answer(index, token, &answer)?;
        let is_done = !matches!(answer, Answer::Refused(_));
        self.measure_request(|meter, now_ns| meter.answered(token, is_done, now_ns));
        if !chance(&mut self.rng, self.plan.load.answer_loss) {
            let delay = match &self.rig {
                Some(rig) => self.rig_core_ns(index) + rig.plan.hardware.link.delay_ns,
                None => self.core_answers_ns(index) + self.client_ns(),
            };
            let answer = Box::new(answer);
            self.record_answer(index, token, Some(delay));
            self.queue.after(delay, Event::Answer { token, answer });
        } else {
            self.record_answer(index, token, None);
        }
        Ok(())
    }

    /// Compares what a replica has newly applied with all others.
    fn compare(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let Some(host) = node.host.as_ref().filter(|host| !host.look().is_silent()) else {
            return Ok(());
        };
        let next = host.look().applied();
        let disagreement = |why| Violation::new("agreement", why);
        if node.compared < next {
            for slot in (node.compared.0..next.0).map(Slot) {
                if let Some(entry) = host.look().decided(slot) {
                    self.agreement
                        .applied(index, slot, entry)
                        .map_err(disagreement)?;
                }
            }
            node.compared = next;
            let (slot, digest) = host.look().digest();
            self.agreement
                .digest(index, slot, digest)
                .map_err(disagreement)?;
        }
        if next < node.compared {
            let what = format!("replica {} went back to slot {next}", index + 1);
            return Err(Violation::new("agreement", what));
        }
        Ok(())
    }

    fn wake_when_due(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        let Some(host) = node.host.as_ref() else {
            return;
        };
        let wakes = [host.look().next_wake(), node.countdowns.next()];
        let Some(due) = wakes.into_iter().flatten().min() else {
            return;
        };
        // Time must pass between turns, or a timer that is always due would stop it.
        let at_ns = node.clock.time_of(due).max(now_ns + 1);
        if node.wake_at_ns.is_none_or(|planned| planned > at_ns) {
            node.wake_at_ns = Some(at_ns);
            self.queue
                .after(at_ns - now_ns, Event::Wake { node: index, at_ns });
        }
    }
}
