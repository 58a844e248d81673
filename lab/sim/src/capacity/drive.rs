//! A cluster on machines whose capacity counts: where the simulator otherwise draws how long
//! something takes, these resources say it.

use super::rig::Rig;
use super::wires::{From, Tick};
use crate::node::Inbound;
use crate::subject::Subject;
use crate::world::{Event, World};
use bytes::Bytes;
use quorate_core::{MILLIS, Machine};
use quorate_host::{Request, Write};

/// The rig of a world: links carry what is to happen.
pub(crate) type RigOf<A> =
    Rig<Event<<A as quorate_core::Application>::Query, <A as quorate_core::Application>::Answer>>;

/// Bytes around a frame.
const HEADER_BYTES: u64 = 16;
/// How often a client looks again who leads.
const ASK_AGAIN_NS: u64 = 10 * MILLIS;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A frame goes to another replica.
    pub(crate) fn rig_sends(&mut self, (from, to): (usize, usize), bytes: Bytes, is_bulk: bool) {
        let now_ns = self.queue.now_ns();
        let connection = self.network.life(from, to);
        let Some(rig) = &mut self.rig else { return };
        let len = bytes.len() as u64 + HEADER_BYTES;
        let leaves_ns = rig.sends(from, now_ns, len, is_bulk);
        let frame = Event::Frame {
            from,
            to,
            connection,
            bytes,
        };
        let flow = (From::Replica(from, is_bulk), to);
        rig.wires.put(leaves_ns - now_ns, flow, len, frame);
        self.rig_goes_on();
    }

    /// A client's request goes to a replica.
    pub(crate) fn rig_asks(&mut self, node: usize, token: u64, request: Request<A::Query>) {
        let client = self.clients.client_of(token);
        let Some(rig) = &mut self.rig else { return };
        let len = rig.request_bytes();
        let request = Event::Request {
            node,
            token,
            request: Box::new(request),
        };
        rig.wires.put(0, (From::Client(client), node), len, request);
        self.rig_goes_on();
    }

    /// Something happens to the links.
    pub(crate) fn rig_happens(&mut self, tick: Tick) {
        let now_ns = self.queue.now_ns();
        let Some(rig) = &mut self.rig else { return };
        if let Some(((from, to), arrived)) = rig.wires.happen(now_ns, tick) {
            let (len, is_bulk) = match (&arrived, from) {
                (Event::Frame { bytes, .. }, From::Replica(_, is_bulk)) => {
                    (bytes.len() as u64 + HEADER_BYTES, is_bulk)
                }
                _ => (rig.request_bytes(), false),
            };
            let given_ns = rig.comes(to, now_ns, len, is_bulk);
            self.queue.after(given_ns - now_ns, arrived);
        }
        self.rig_goes_on();
    }

    /// What comes next of the links.
    fn rig_goes_on(&mut self) {
        let ticks = self.rig.as_mut().map(|rig| rig.wires.take_ticks());
        for (after_ns, tick) in ticks.unwrap_or_default() {
            self.queue.after(after_ns, Event::Wire(tick));
        }
    }

    /// A replica's core takes in what its inbox holds.
    pub(crate) fn rig_takes_in(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let Some(rig) = &mut self.rig else { return };
        for input in &self.nodes[index].inbox {
            let bytes = match input {
                Inbound::Frame { bytes, .. } => bytes.len() as u64,
                Inbound::Request { .. } => rig.request_bytes(),
                _ => 0,
            };
            rig.takes_in(index, now_ns, bytes);
        }
    }

    /// How long from now until a replica's core has done what it has to do.
    pub(crate) fn rig_core_ns(&self, index: usize) -> u64 {
        let now_ns = self.queue.now_ns();
        let rig = self.rig.as_ref();
        rig.map_or(0, |rig| rig.core_free_ns(index, now_ns) - now_ns)
    }

    /// How long what a replica gives its disk takes from now on, where that counts.
    pub(crate) fn rig_writes_ns(
        &mut self,
        index: usize,
        (log, bulk): (&[Write], &[Write]),
        sync: bool,
    ) -> Option<u64> {
        let now_ns = self.queue.now_ns();
        let rig = self.rig.as_mut()?;
        let done_ns = rig.writes(index, now_ns, (bytes_of(log), bytes_of(bulk)), sync);
        if sync && rig.plan.leader_waits && rig.leads(index) {
            let busy_until_ns = &mut self.nodes[index].busy_until_ns;
            *busy_until_ns = done_ns.max(*busy_until_ns);
        }
        Some(done_ns - now_ns)
    }

    /// What a replica has appended and not given to its disk, of the one that has most of it.
    pub(crate) fn rig_unwritten(&self) -> u64 {
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let most = hosts.map(|host| host.look().unwritten_bytes() as u64).max();
        most.unwrap_or(0)
    }

    /// A client puts a value, as soon as the one before is answered.
    pub(crate) fn rig_puts(&mut self, client: usize) {
        let Some(rig) = &self.rig else { return };
        let puts = rig.plan.puts;
        if self.clients.stopped {
            return;
        }
        let node = match (puts.is_led, rig.decider) {
            (false, _) => client % self.nodes.len(),
            (true, Some(leader)) => leader,
            // One client has a leader elected; the others have to know it.
            (true, None) if client == 0 => 0,
            (true, None) => {
                return self.queue.after(ASK_AGAIN_NS, Event::Client { client });
            }
        };
        self.put_at(client, node, puts.value_bytes);
    }
}

/// Bytes that writes bring.
fn bytes_of(writes: &[Write]) -> u64 {
    let chunks = writes.iter().flat_map(|write| &write.chunks);
    chunks.map(|chunk| chunk.len() as u64).sum()
}
