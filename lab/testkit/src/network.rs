//! Packets, and decided logs that go from host to host.

use crate::cluster::{Cluster, Watch};
use crate::packet::{Body, Packet};
use crate::seat::id;
use quorate_core::{Entry, Input, Peers, Plain, ReplicaId, Slot, carried};

impl<M: Plain, W: Watch<M>> Cluster<M, W> {
    /// A message leaves for its receivers.
    pub(crate) fn send(&mut self, from: usize, to: Peers, message: &M::Message) {
        W::on_send(self, from, to, message);
        let is_for = |peer: &usize| match to {
            Peers::All => *peer != from,
            Peers::One(one) => one == id(*peer) && *peer != from,
        };
        for peer in (0..self.nodes.len()).filter(is_for) {
            self.put(from, peer, Body::Message(message.clone()));
        }
    }

    /// A packet leaves.
    pub fn put(&mut self, from: usize, to: usize, body: Body<M>) {
        self.packets += 1;
        let packet = Packet {
            number: self.packets,
            from,
            to,
            due_ns: self.now_ns,
            body,
        };
        W::on_packet(self, packet);
    }

    /// A packet arrives, unless its link is cut or its receiver is down.
    pub fn receive(&mut self, packet: Packet<M>) {
        let Packet { from, to, body, .. } = packet;
        if self.nodes[to].machine.is_none() || self.cut.contains(&(from, to)) {
            return;
        }
        match body {
            Body::Message(message) => self.hear(from, to, &message),
            Body::Fetch(first) => self.send_log(to, from, first),
            Body::Log(first, entries) => self.learn(to, first, entries),
        }
    }

    /// A message arrives, as its encoding and what was attached to it, unless its link is cut.
    pub fn hear(&mut self, from: usize, to: usize, message: &M::Message) {
        if !self.cut.contains(&(from, to)) {
            let message = carried(message, to as u8);
            let from = id(from);
            self.step(to, Input::Message { from, message });
        }
    }

    /// Delivers everything that is on its way, and what it causes.
    pub fn run(&mut self) {
        self.run_losing(|_| false);
    }

    /// Delivers everything that is on its way, and what it causes, but for packets that are lost.
    ///
    /// # Panics
    /// If that does not come to an end.
    pub fn run_losing(&mut self, is_lost: impl Fn(&Packet<M>) -> bool) {
        for _ in 0..20_000 {
            let Some(packet) = self.wire.pop_front() else {
                return;
            };
            if !is_lost(&packet) {
                self.receive(packet);
            }
        }
        panic!("they do not stop talking");
    }

    /// Takes the packets off the wire for which something holds, in the order they were sent.
    pub fn take_packets(&mut self, is_it: impl Fn(&Packet<M>) -> bool) -> Vec<Packet<M>> {
        let (taken, left): (Vec<_>, Vec<_>) = self.wire.drain(..).partition(is_it);
        self.wire = left.into();
        taken
    }

    /// Delivers the packets of a link that are on their way, and nothing they cause.
    pub fn pass(&mut self, from: usize, to: usize) {
        let packets = self.take_packets(|packet| (packet.from, packet.to) == (from, to));
        packets.into_iter().for_each(|packet| self.receive(packet));
    }

    /// The messages of machines that are on their way, each with its sender and receiver.
    pub fn messages(&self) -> impl Iterator<Item = (usize, usize, &M::Message)> {
        let packets = self.wire.iter();
        packets.filter_map(|packet| Some((packet.from, packet.to, packet.message()?)))
    }

    /// Cuts a replica off from all others.
    pub fn isolate(&mut self, me: usize) {
        for other in 0..self.nodes.len() {
            self.cut.extend([(me, other), (other, me)]);
        }
    }

    /// A replica wants what a peer has decided. Whoever is no member has nothing.
    pub(crate) fn catch_up(&mut self, me: usize, from: ReplicaId) {
        match self.index_of(from) {
            Some(from) if W::LOGS_TRAVEL => {
                let next = self.nodes[me].next();
                self.put(me, from, Body::Fetch(next));
            }
            Some(from) => self.give_log(from, me),
            None => {}
        }
    }

    /// A replica has what a peer lacks, from a slot on.
    pub(crate) fn inform(&mut self, me: usize, peer: ReplicaId, first: Slot) {
        match self.index_of(peer) {
            Some(peer) if W::LOGS_TRAVEL => self.send_log(me, peer, first),
            Some(peer) => self.give_log(me, peer),
            None => {}
        }
    }

    fn index_of(&self, id: ReplicaId) -> Option<usize> {
        let index = usize::from(id.0).checked_sub(1);
        index.filter(|index| *index < self.nodes.len())
    }

    /// What one replica has decided and another has not is there at once, unless they are cut off.
    pub fn give_log(&mut self, from: usize, to: usize) {
        self.give_slots(from, to, self.nodes[from].log.len());
    }

    /// What one replica has decided before a slot and another has not is there at once, unless they
    /// are cut off.
    pub fn give_slots(&mut self, from: usize, to: usize, until: usize) {
        let have = self.nodes[to].log.len();
        let news = self.nodes[from].log.get(have..until).unwrap_or_default();
        if self.nodes[to].machine.is_some() && !self.cut.contains(&(from, to)) {
            self.learn(to, Slot(have as u64), news.to_vec());
        }
    }

    /// A replica sends what it has decided from a slot on, if that is anything.
    fn send_log(&mut self, me: usize, to: usize, first: Slot) {
        let log = &self.nodes[me].log;
        if let Some(entries) = log.get(first.0 as usize..).filter(|log| !log.is_empty()) {
            let body = Body::Log(first, entries.to_vec());
            self.put(me, to, body);
        }
    }

    /// A replica that is up is given decided slots from `first` on; it skips those it has.
    fn learn(&mut self, me: usize, first: Slot, entries: Vec<Option<Entry>>) {
        let next = self.nodes[me].next();
        let Some(skip) = next.0.checked_sub(first.0) else {
            return;
        };
        if entries.len() as u64 <= skip {
            return;
        }
        for (slot, entry) in (next.0..).zip(entries.into_iter().skip(skip as usize)) {
            self.append(me, Slot(slot), entry);
        }
        let (next, base) = (self.nodes[me].next(), self.nodes[me].base.clone());
        self.step(me, Input::Installed { next, base });
    }
}
