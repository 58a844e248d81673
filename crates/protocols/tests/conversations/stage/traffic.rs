//! What is on its way between machines, and between the hosts that these stand for.

use super::{Message, Stage, name_of};
use quorate_core::{Entry, Input, Peers, ReplicaId, Slot, carried};
use quorate_protocols::Protocol;

/// Something on its way.
pub(crate) struct Packet<P: Protocol> {
    pub(crate) number: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    body: Body<P>,
}

pub(super) enum Body<P: Protocol> {
    Message(Message<P>),
    /// Host to host: "give me the log from here".
    Fetch(Slot),
    /// Host to host: a stretch of the decided log.
    Log(Slot, Vec<Option<Entry>>),
}

impl<P: Protocol> Clone for Body<P> {
    fn clone(&self) -> Self {
        match self {
            Body::Message(message) => Body::Message(message.clone()),
            Body::Fetch(slot) => Body::Fetch(*slot),
            Body::Log(slot, entries) => Body::Log(*slot, entries.clone()),
        }
    }
}

impl<P: Protocol> Packet<P> {
    /// What it says.
    pub(crate) fn text(&self) -> String {
        text_of::<P>(&self.body)
    }
}

fn text_of<P: Protocol>(body: &Body<P>) -> String {
    match body {
        Body::Message(message) => P::describe_message(message),
        Body::Fetch(slot) => format!("fetch from {slot:?}"),
        Body::Log(slot, entries) => {
            let entries = entries.iter().map(|entry| name_of(entry.as_ref()));
            format!(
                "log from {slot:?}: {}",
                entries.collect::<Vec<_>>().join(" ")
            )
        }
    }
}

impl<P: Protocol> Stage<P> {
    pub(super) fn send(&mut self, from: usize, to: Peers, message: Message<P>) {
        let is_for = |other: &usize| match to {
            Peers::One(peer) => usize::from(peer.0) - 1 == *other,
            Peers::All => *other != from,
        };
        for to in (0..self.count()).filter(is_for) {
            self.put(from, to, Body::Message(carried(&message, to as u8)));
        }
    }

    pub(super) fn give_log(&mut self, me: usize, to: usize, from: Slot) {
        let entries = self.nodes[me].log.get(from.0 as usize..);
        if let Some(entries) = entries.filter(|entries| !entries.is_empty()) {
            let body = Body::Log(from, entries.to_vec());
            self.put(me, to, body);
        }
    }

    pub(super) fn put(&mut self, from: usize, to: usize, body: Body<P>) {
        self.packets += 1;
        let number = self.packets;
        let text = text_of::<P>(&body);
        self.say(format!("#{number} {}->{}: {text}", from + 1, to + 1));
        self.flying.push(Packet {
            number,
            from,
            to,
            body,
        });
    }

    /// A copy of a packet that stays on its way.
    pub(crate) fn repeat(&mut self, number: usize) {
        let packet = self.flying.iter().find(|packet| packet.number == number);
        let (from, to, body) = packet
            .map(|packet| (packet.from, packet.to, packet.body.clone()))
            .expect("it is on its way");
        self.put(from, to, body);
    }

    /// What is on its way arrives.
    pub(crate) fn deliver(&mut self, number: usize) {
        let index = self
            .flying
            .iter()
            .position(|packet| packet.number == number);
        let packet = self.flying.remove(index.expect("it is on its way"));
        let (from, to) = (packet.from, packet.to);
        if self.nodes[to].machine.is_none() {
            return;
        }
        match packet.body {
            Body::Message(message) => {
                let from = ReplicaId(from as u16 + 1);
                self.step(to, Input::Message { from, message });
            }
            Body::Fetch(first) => self.give_log(to, from, first),
            Body::Log(first, entries) => self.learn(to, first, entries),
        }
    }

    fn learn(&mut self, me: usize, first: Slot, entries: Vec<Option<Entry>>) {
        let next = self.nodes[me].log.len();
        let skip = next.saturating_sub(first.0 as usize);
        if first.0 as usize > next || entries.len() <= skip {
            return;
        }
        for (slot, entry) in (next as u64..).zip(entries.into_iter().skip(skip)) {
            self.append(me, Slot(slot), entry);
        }
        let base = self.nodes[me].base.clone();
        let next = Slot(self.nodes[me].log.len() as u64);
        self.step(me, Input::Installed { next, base });
    }
}
