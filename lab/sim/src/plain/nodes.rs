//! The replicas of a cluster with the plain store: driven as production does, one turn after the other.

use super::world::{Event, World};
use crate::simulator::seat;
use crate::world::replica;
use bytes::Bytes;
use quorate_core::{
    Application, Boot, ClusterId, Event as Reported, Incarnation, MICROS, MILLIS, Now, Peers, Seat,
};
use quorate_host::{
    Answer, Completed, Driver, Effects, Flush, Host, HostConfig, HostEvent, Limits, Pace, Start,
    SupportedVersions, drive,
};
use quorate_plain_store::{QueryAnswer, Store};
use quorate_protocols::{AnyConfig, AnyMachine, Registered};

/// An answer to a write, with what is around it.
const ANSWER_BYTES: usize = 64;

/// A replica of the world that has a turn.
struct Replica<'a> {
    world: &'a mut World,
    index: usize,
}

impl Driver for Replica<'_> {
    type Machine = AnyMachine;
    type App = Store;
    type Error = String;
    const PACE: Pace = Pace::Later;

    fn host(&mut self) -> Option<&mut Host<AnyMachine, Store>> {
        self.world.nodes[self.index].host.as_mut()
    }

    fn now(&mut self) -> Now {
        self.world.now(self.index)
    }

    fn can_write(&self) -> bool {
        self.world.nodes[self.index].in_flight.is_none()
    }

    fn configure(&mut self, _: &Seat) -> Result<AnyConfig, String> {
        Err(format!("replica {} saw a new epoch", self.index + 1))
    }

    fn perform(&mut self, _: Now, effects: Effects<QueryAnswer>) -> Result<bool, String> {
        self.world.perform(self.index, effects)
    }
}

impl World {
    pub(super) fn open(&mut self, index: usize) -> Result<(), String> {
        let now = self.now(index);
        let seat = Seat {
            boot: Boot(self.rng.u64(..)),
            ..seat(&self.epoch, index)
        };
        let incarnation = Incarnation(index as u128);
        let config = HostConfig {
            cluster: ClusterId(1),
            incarnation,
            listed_as: incarnation,
            genesis: self.epoch.clone(),
            catalogue: &Registered,
            machine: AnyConfig::of(&seat)?.touching(Store::touches()),
            seat,
            supported: SupportedVersions::SHIPPED,
            limits: Limits {
                check_steps: true,
                flaw: self.flaw,
                checkpoint_slots: 64,
                ..Limits::default()
            },
            jitter_seed: self.rng.u64(..),
        };
        let node = &mut self.nodes[index];
        let start = match node.started {
            true => Start::Resume,
            false => Start::FirstBoot,
        };
        let opened = Host::open(config, start, &mut &node.disk, Store::new(), now);
        let (host, _) = opened.map_err(|error| format!("replica {}: {error}", index + 1))?;
        node.host = Some(host);
        self.link_all(index, true);
        self.turn_soon(index);
        Ok(())
    }

    /// Connections between a replica and the others come up, or go down.
    pub(super) fn link_all(&mut self, index: usize, up: bool) {
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            for (node, peer) in [(index, peer), (peer, index)] {
                let delay = self.rng.u64(..MILLIS);
                self.queue.after(delay, Event::Link { node, peer, up });
            }
        }
    }

    pub(super) fn turn_soon(&mut self, index: usize) {
        let delay = self.turn_comes_after_ns(index);
        self.turn_after(index, delay);
    }

    /// When a turn of a replica or gateway comes: as soon as its core has time, or at random where cores do not
    /// count.
    pub(super) fn turn_comes_after_ns(&mut self, endpoint: usize) -> u64 {
        match self.core_free_after_ns(endpoint) {
            Some(free_ns) => free_ns,
            None => self.rng.u64(5 * MICROS..60 * MICROS),
        }
    }

    fn turn_after(&mut self, index: usize, delay_ns: u64) {
        let at_ns = self.queue.now_ns() + delay_ns;
        let node = &mut self.nodes[index];
        if node.host.is_some() && node.turn_at_ns.is_none_or(|due| due > at_ns) {
            node.turn_at_ns = Some(at_ns);
            let life = node.life;
            self.queue
                .after(delay_ns, Event::Turn { node: index, life });
        }
    }

    /// Whether a turn that comes now was put off by another one that came before it. Where cores are busy all the
    /// time, such turns would put each other off without end, and become ever more.
    pub(super) fn is_overtaken(&self, turn_at_ns: Option<u64>) -> bool {
        self.cores.is_some() && turn_at_ns != Some(self.queue.now_ns())
    }

    pub(super) fn turn(&mut self, index: usize) -> Result<(), String> {
        if self.is_overtaken(self.nodes[index].turn_at_ns) {
            return Ok(());
        }
        let node = &mut self.nodes[index];
        node.turn_at_ns = None;
        if node.is_paused {
            return Ok(());
        }
        if let Some(busy_ns @ 1..) = self.core_free_after_ns(index) {
            self.turn_after(index, busy_ns);
            return Ok(());
        }
        let mut replica = Replica { world: self, index };
        if drive(&mut replica)? {
            return Err(format!("replica {} has put something off", index + 1));
        }
        let host = self.nodes[index].host.as_ref();
        if let Some(due) = host.and_then(|host| host.look().next_wake()) {
            // Time must pass between turns, or a timer that is always due would stop it.
            let now_ns = self.queue.now_ns();
            let at_ns = self.nodes[index].clock.time_of(due).max(now_ns + 1);
            self.turn_after(index, at_ns - now_ns);
        }
        Ok(())
    }

    /// Begins to do what a host wants done; nothing here asks for more than these. Says whether it may want more.
    fn perform(&mut self, index: usize, effects: Effects<QueryAnswer>) -> Result<bool, String> {
        let Effects {
            frames,
            answers,
            reads,
            events,
            flush,
            ..
        } = effects;
        let node = &mut self.nodes[index];
        node.started |= flush.is_none() && node.in_flight.is_none();
        let is_done = flush.is_none() && frames.is_empty() && answers.is_empty();
        let may_want_more = !(is_done && reads.is_empty() && events.is_empty());
        self.note(index, events)?;
        for frame in frames {
            self.send(index, frame.to, frame.chunks.concat().into());
        }
        for (token, answer) in answers {
            self.answer_leaves(index, token, answer);
        }
        let life = self.nodes[index].life;
        for read in reads {
            let delay = self.rng.u64(20 * MICROS..200 * MICROS);
            let node = index;
            self.queue.after(delay, Event::Read { node, life, read });
        }
        if let Some(flush) = flush {
            self.write(index, flush);
        }
        Ok(may_want_more)
    }

    pub(super) fn note(&mut self, index: usize, events: Vec<HostEvent>) -> Result<(), String> {
        for event in events {
            match event {
                HostEvent::Machine(Reported::Branch(name)) => {
                    *self.outcome.branches.entry(name).or_default() += 1;
                }
                HostEvent::Machine(Reported::Decided { .. }) => self.decider = Some(index),
                HostEvent::Machine(Reported::Misbehaved { peer, what }) => {
                    return Err(format!("replica {}: {peer} misbehaved: {what}", index + 1));
                }
                HostEvent::Compared(_) | HostEvent::BadFrame { .. } => {
                    return Err(format!("replica {}: {event:?}", index + 1));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, from: usize, to: Peers, bytes: Bytes) {
        let replicas = (0..self.nodes.len()).filter(|peer| *peer != from && meant(to, *peer));
        let gateway = match to {
            Peers::One(id) if id.is_gateway() => self.gateway_called(id),
            _ => None,
        };
        for to in replicas.chain(gateway) {
            let copies = match self.rng.u32(..1000) {
                drawn if drawn < self.weather.lost => 0,
                drawn if drawn < self.weather.lost + self.weather.repeated => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let leaves_ns = self.core_sends_ns(from, bytes.len());
                let delay = leaves_ns + self.weather.frame_ns(&mut self.rng);
                let bytes = bytes.clone();
                self.queue.after(delay, Event::Frame { from, to, bytes });
            }
        }
    }

    /// An answer goes to its client.
    pub(super) fn answer_leaves(
        &mut self,
        endpoint: usize,
        token: u64,
        answer: Answer<QueryAnswer>,
    ) {
        let leaves_ns = self.core_sends_ns(endpoint, ANSWER_BYTES);
        let delay = leaves_ns + self.weather.client_ns(&mut self.rng);
        self.queue.after(delay, Event::Answer { token, answer });
    }

    pub(super) fn frame(&mut self, from: usize, to: usize, bytes: Bytes) {
        let is_cut = |index: usize| self.nodes.get(index).is_some_and(|node| node.is_cut);
        if is_cut(from) || is_cut(to) {
            return;
        }
        self.core_takes_in(to, bytes.len());
        if to >= self.nodes.len() {
            return self.gateway_frame(to, from, bytes);
        }
        let (now, from) = (self.now(to), self.number(from));
        if let Some(host) = &mut self.nodes[to].host {
            host.frame(now, from, bytes);
            self.turn_soon(to);
        }
    }

    fn write(&mut self, index: usize, flush: Flush) {
        let delay = match (flush.sync, self.core_flushes_ns(index)) {
            (true, Some(takes_ns)) => takes_ns,
            (true, None) => self.rng.u64(20 * MICROS..self.weather.sync_ns_max),
            (false, _) => 0,
        };
        let node = &mut self.nodes[index];
        node.disk.write(&flush);
        node.in_flight = Some(flush);
        let life = node.life;
        self.queue
            .after(delay, Event::Flushed { node: index, life });
    }

    pub(super) fn flushed(&mut self, index: usize) {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        let (Some(flush), Some(host)) = (node.in_flight.take(), &mut node.host) else {
            return;
        };
        if flush.sync {
            node.disk.sync(&flush);
        }
        node.started = true;
        host.completed(now, Completed::Flush(flush.through));
        self.turn_soon(index);
    }
}

fn meant(to: Peers, index: usize) -> bool {
    match to {
        Peers::All => true,
        Peers::One(id) => id == replica(index),
    }
}
