//! Remote gateways, as a replica sees them: it answers who asks, and keeps of each no more than how long its
//! requests take. They come and go; what they may do is bounded, and nothing depends on their number.

use super::Replica;
use super::dom::Delays;
use super::gateway::requests;
use super::messages::{Body, Message};
use quorate_core::{Event, Out, Peers, ReplicaId};
use std::collections::BTreeMap;

/// Gateways of which delays are kept, at most: others are estimated anew.
const GATEWAYS_MAX: usize = 256;

/// Of requests from each remote gateway.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct RemoteGateways(BTreeMap<ReplicaId, Delays>);

impl RemoteGateways {
    pub(super) fn forget(&mut self, gateway: ReplicaId) {
        self.0.remove(&gateway);
    }

    fn of(&mut self, gateway: ReplicaId) -> &mut Delays {
        if self.0.len() >= GATEWAYS_MAX && !self.0.contains_key(&gateway) {
            self.0.pop_first();
        }
        self.0.entry(gateway).or_default()
    }
}

/// How long requests take from each gateway.
#[derive(Clone, Debug, Hash)]
pub(super) struct RequestDelays {
    /// From the gateway inside each member.
    pub(super) members: Vec<Delays>,
    /// From remote gateways.
    pub(super) remote: RemoteGateways,
}

impl RequestDelays {
    /// Nothing is known, of `members` members.
    pub(super) fn new(members: usize) -> RequestDelays {
        RequestDelays {
            members: vec![Delays::default(); members],
            remote: RemoteGateways::default(),
        }
    }
}

impl Replica {
    /// A remote gateway asks for one thing only, and for what it named itself, with nothing kept apart.
    pub(super) fn on_gateway(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        match message {
            Message::Request {
                body,
                sent,
                deadline,
            } if body.entry.id.origin == from && body.entry.bulk_len() == 0 => {
                self.on_request(from, body, sent, deadline, out);
            }
            _ => {
                let what = "what is no request of its own, from a gateway";
                out.emit(Event::Misbehaved { peer: from, what });
            }
        }
    }

    /// A request came for the first time.
    pub(super) fn note_delay(&mut self, from: ReplicaId, sent: u64) {
        let delays = match self.config.member(from) {
            Some(me) if me == self.config.me => return,
            Some(member) => &mut self.delays.members[member],
            None => self.delays.remote.of(from),
        };
        let delay = self.now.clock_ns.wrapping_sub(sent) as i64;
        let (percentile, max_ns) = (self.config.percentile, self.config.owd_max_ns);
        delays.add(self.now.mono_ns, delay, percentile, max_ns);
    }

    /// How long requests of a gateway take to here, ns; 0 if that is not known, and `None` if nobody of that
    /// number listens.
    pub(super) fn owd_from(&self, gateway: ReplicaId) -> Option<u64> {
        match self.config.member(gateway) {
            Some(member) => Some(self.delays.members[member].estimate()),
            None if gateway.is_gateway() => Some(
                self.delays
                    .remote
                    .0
                    .get(&gateway)
                    .map_or(0, Delays::estimate),
            ),
            None => None,
        }
    }

    /// Says something to a gateway, inside a replica or apart, once everything so far is durable.
    pub(super) fn say_to(&mut self, gateway: ReplicaId, message: Message, out: &mut Out<Self>) {
        match self.config.member(gateway) {
            Some(member) => self.say(member, message, out),
            None => out.send(Peers::One(gateway), message),
        }
    }

    /// Has a remote gateway told what came of an entry that is decided here: inside of replicas that is seen.
    pub(super) fn tell(&self, gateway: ReplicaId, body: &Body, out: &mut Out<Self>) {
        if gateway.is_gateway() {
            out.tell(gateway, body.entry.id, requests(body));
        }
    }
}
