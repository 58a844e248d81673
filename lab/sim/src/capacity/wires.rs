//! Links of machines, as what goes over TCP sees them: nothing is lost, what does not fit waits.
//!
//! Each machine has one link to a switch that is never full. A connection has so many bytes on their
//! way at most; the connections of a link take turns in it, so that what is small passes what is long
//! on another one. That is all a sender notices: no socket tells a host that it is full (in the
//! server, too, queues grow up to a bound, beyond which frames are dropped).

use super::serial::{Serial, takes_ns};
use std::collections::{BTreeMap, VecDeque};

/// What a link carries of one connection before the next has its turn.
const TURN_BYTES: u64 = 16 << 10;
/// What one connection has on its way at most: more than a fast link within one data centre holds.
const WINDOW_BYTES: u64 = 256 << 10;
/// What may wait for a connection, as in the server; beyond it what comes is dropped.
const QUEUE_BYTES_MAX: [u64; 2] = [8 << 20, 64 << 20];

/// Where a connection begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum From {
    /// At a replica, as one of its two connections to another: for bulk, or for the rest.
    Replica(usize, bool),
    /// At a client, whose own link is never full.
    Client(usize),
}

/// A connection: from where, and to which replica.
pub(crate) type Flow = (From, usize);

/// Something that happens to the links at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tick {
    /// What was to leave by now leaves.
    Leaves(u64),
    /// A link has carried what it was busy with.
    Carried(usize),
    /// A part of what a connection carries has come to the receiver's link.
    Comes(Flow, u64),
}

/// How fast links are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LinkSpeed {
    /// Bytes a second, in either direction; 0 for no limit.
    pub(crate) bytes_per_second: u64,
    /// Both directions together carry so much, and not each of them.
    pub(crate) is_shared: bool,
    /// From the end of one link to that of another, ns.
    pub(crate) delay_ns: u64,
}

/// All links, and what is on its way.
pub(crate) struct Wires<C> {
    speed: LinkSpeed,
    ports: Vec<Port>,
    ways: BTreeMap<Flow, Way<C>>,
    /// What leaves later.
    held: BTreeMap<u64, (Flow, u64, C)>,
    /// What was put in ever.
    count: u64,
    /// What no queue had room for.
    pub(crate) dropped: u64,
    /// To be taken by the driver: after which time what happens.
    ticks: Vec<(u64, Tick)>,
}

/// One direction of a link, or both where they share it.
#[derive(Default)]
struct Port {
    line: Serial,
    /// What is being carried, and whether it leaves the machine.
    carries: Option<Part>,
    waiting: BTreeMap<Flow, VecDeque<Part>>,
    /// Whose turn it is.
    turns: VecDeque<Flow>,
}

#[derive(Clone, Copy)]
struct Part {
    flow: Flow,
    bytes: u64,
    leaves: bool,
}

/// What is put into a connection, in order.
struct Way<C> {
    queue: VecDeque<Parcel<C>>,
    /// Bytes of the queue that were not given to a link yet; those of it that were and have not come.
    unsent: u64,
    on_its_way: u64,
}

struct Parcel<C> {
    unsent: u64,
    missing: u64,
    cargo: C,
}

impl<C> Wires<C> {
    pub(crate) fn new(replicas: usize, speed: LinkSpeed) -> Self {
        let ports = if speed.is_shared { 1 } else { 2 } * replicas;
        Wires {
            speed,
            ports: (0..ports).map(|_| Port::default()).collect(),
            ways: BTreeMap::new(),
            held: BTreeMap::new(),
            count: 0,
            dropped: 0,
            ticks: Vec::new(),
        }
    }

    /// Gives a connection something to carry, after a time.
    pub(crate) fn put(&mut self, after_ns: u64, flow: Flow, bytes: u64, cargo: C) {
        self.count += 1;
        self.held.insert(self.count, (flow, bytes.max(1), cargo));
        self.ticks.push((after_ns, Tick::Leaves(self.count)));
    }

    /// What is to happen, to be handed back to [`Wires::happen`] after these times.
    pub(crate) fn take_ticks(&mut self) -> Vec<(u64, Tick)> {
        std::mem::take(&mut self.ticks)
    }

    /// Something happens; says what has arrived by that, and on which connection.
    pub(crate) fn happen(&mut self, now_ns: u64, tick: Tick) -> Option<(Flow, C)> {
        match tick {
            Tick::Leaves(number) => {
                let (flow, bytes, cargo) = self.held.remove(&number)?;
                self.enqueue(now_ns, flow, bytes, cargo);
                None
            }
            Tick::Comes(flow, bytes) => {
                let port = self.port(flow.1, false);
                let leaves = false;
                self.enter(
                    now_ns,
                    port,
                    Part {
                        flow,
                        bytes,
                        leaves,
                    },
                );
                None
            }
            Tick::Carried(port) => {
                let part = self.ports[port].carries.take()?;
                self.begin(now_ns, port);
                if part.leaves {
                    let comes = Tick::Comes(part.flow, part.bytes);
                    self.ticks.push((self.speed.delay_ns, comes));
                    return None;
                }
                self.arrive(now_ns, part)
            }
        }
    }

    /// How long the link of a replica was busy, in the busier direction.
    pub(crate) fn busy_ns(&self, replica: usize, now_ns: u64) -> u64 {
        let of = |leaves| self.ports[self.port(replica, leaves)].line.busy_ns(now_ns);
        of(true).max(of(false))
    }

    fn port(&self, replica: usize, leaves: bool) -> usize {
        match self.speed.is_shared {
            true => replica,
            false => 2 * replica + usize::from(leaves),
        }
    }

    fn enqueue(&mut self, now_ns: u64, flow: Flow, bytes: u64, cargo: C) {
        let way = self.ways.entry(flow).or_default();
        if let From::Replica(_, is_bulk) = flow.0
            && way.unsent > QUEUE_BYTES_MAX[usize::from(is_bulk)]
        {
            self.dropped += 1;
            return;
        }
        way.unsent += bytes;
        way.queue.push_back(Parcel {
            unsent: bytes,
            missing: bytes,
            cargo,
        });
        self.feed(now_ns, flow);
    }

    /// Gives a connection's link as much as may be on its way.
    fn feed(&mut self, now_ns: u64, flow: Flow) {
        while let Some(bytes) = self.ways.get_mut(&flow).and_then(Way::next_part) {
            match flow.0 {
                From::Replica(from, _) => {
                    let (port, leaves) = (self.port(from, true), true);
                    self.enter(
                        now_ns,
                        port,
                        Part {
                            flow,
                            bytes,
                            leaves,
                        },
                    );
                }
                From::Client(_) => {
                    self.ticks
                        .push((self.speed.delay_ns, Tick::Comes(flow, bytes)));
                }
            }
        }
    }

    fn enter(&mut self, now_ns: u64, port: usize, part: Part) {
        let waiting = self.ports[port].waiting.entry(part.flow).or_default();
        waiting.push_back(part);
        if waiting.len() == 1 {
            self.ports[port].turns.push_back(part.flow);
        }
        if self.ports[port].carries.is_none() {
            self.begin(now_ns, port);
        }
    }

    /// The next connection has its turn.
    fn begin(&mut self, now_ns: u64, number: usize) {
        let port = &mut self.ports[number];
        let Some(flow) = port.turns.pop_front() else {
            return;
        };
        let Some(waiting) = port.waiting.get_mut(&flow) else {
            return;
        };
        port.carries = waiting.pop_front();
        if !waiting.is_empty() {
            port.turns.push_back(flow);
        }
        let bytes = port.carries.map_or(0, |part| part.bytes);
        let takes_ns = takes_ns(bytes, self.speed.bytes_per_second);
        let done_ns = port.line.take(now_ns, takes_ns);
        self.ticks.push((done_ns - now_ns, Tick::Carried(number)));
    }

    /// A part is there, and with it perhaps the whole of what it belongs to.
    fn arrive(&mut self, now_ns: u64, part: Part) -> Option<(Flow, C)> {
        let way = self.ways.get_mut(&part.flow)?;
        way.on_its_way -= part.bytes;
        let first = way.queue.front_mut()?;
        first.missing -= part.bytes;
        let whole = first.missing == 0;
        let arrived = whole.then(|| way.queue.pop_front()).flatten();
        self.feed(now_ns, part.flow);
        arrived.map(|parcel| (part.flow, parcel.cargo))
    }
}

impl<C> Default for Way<C> {
    fn default() -> Self {
        Way {
            queue: VecDeque::new(),
            unsent: 0,
            on_its_way: 0,
        }
    }
}

impl<C> Way<C> {
    /// The bytes that may go next, all of one parcel.
    fn next_part(&mut self) -> Option<u64> {
        if self.on_its_way >= WINDOW_BYTES || self.unsent == 0 {
            return None;
        }
        let parcel = self.queue.iter_mut().find(|parcel| parcel.unsent > 0)?;
        let bytes = parcel.unsent.min(TURN_BYTES);
        parcel.unsent -= bytes;
        self.unsent -= bytes;
        self.on_its_way += bytes;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Queue;
    use quorate_core::{MICROS, MILLIS, SECONDS};

    const SPEED: LinkSpeed = LinkSpeed {
        bytes_per_second: 100_000_000,
        is_shared: false,
        delay_ns: 50 * MICROS,
    };

    /// Puts all in at once, and says when what arrives.
    fn carried(speed: LinkSpeed, puts: &[(Flow, u64)]) -> Vec<(u64, usize)> {
        let (mut wires, mut queue) = (Wires::new(4, speed), Queue::new());
        for (number, (flow, bytes)) in puts.iter().enumerate() {
            wires.put(0, *flow, *bytes, number);
        }
        let mut arrived = Vec::new();
        loop {
            for (after_ns, tick) in wires.take_ticks() {
                queue.after(after_ns, tick);
            }
            let Some(tick) = queue.next() else {
                assert_eq!(wires.dropped, 0);
                return arrived;
            };
            let now_ns = queue.now_ns();
            let cargo = wires.happen(now_ns, tick);
            arrived.extend(cargo.map(|(_, number)| (now_ns, number)));
        }
    }

    /// 10 MB, over so many connections: the last is there after about so many ms.
    fn takes_ms(speed: LinkSpeed, flows: &[Flow]) -> u64 {
        let puts: Vec<_> = flows.iter().map(|flow| (*flow, 10_000_000)).collect();
        let arrived = carried(speed, &puts);
        assert_eq!(arrived.len(), flows.len());
        arrived.iter().map(|(at_ns, _)| *at_ns).max().unwrap() / MILLIS
    }

    #[test]
    fn a_link_of_a_rate_moves_that_rate_in_either_direction() {
        let replica = |from, to| (From::Replica(from, true), to);
        let client = |from, to| (From::Client(from), to);
        assert_eq!(takes_ms(SPEED, &[replica(0, 1)]), 100);
        assert_eq!(takes_ms(SPEED, &[replica(0, 1), replica(0, 2)]), 200);
        assert_eq!(takes_ms(SPEED, &[replica(0, 2), replica(1, 2)]), 200);
        assert_eq!(takes_ms(SPEED, &[client(0, 2), client(1, 2)]), 200);
        assert_eq!(takes_ms(SPEED, &[replica(0, 1), replica(1, 0)]), 100);
        let shared = LinkSpeed {
            is_shared: true,
            ..SPEED
        };
        assert_eq!(takes_ms(shared, &[replica(0, 1), replica(1, 0)]), 200);
        let none = LinkSpeed {
            bytes_per_second: 0,
            ..SPEED
        };
        assert!(takes_ms(none, &[replica(0, 1)]) < 5);
    }

    #[test]
    fn what_is_small_passes_what_is_long_on_another_connection() {
        let puts = [
            ((From::Replica(0, true), 1), 10_000_000),
            ((From::Replica(0, true), 2), 10_000_000),
            ((From::Replica(0, false), 1), 100),
        ];
        let arrived = carried(SPEED, &puts);
        let small = arrived.iter().find(|(_, number)| *number == 2);
        let at_ns = small.unwrap().0;
        assert!(at_ns < 2 * MILLIS, "{at_ns}");
        // In order on its own, as soon as the link has carried all.
        let puts = [((From::Replica(0, false), 1), 100_000); 20];
        let arrived = carried(SPEED, &puts);
        assert!(arrived.iter().map(|(_, number)| *number).eq(0..20));
        assert!(arrived[19].0 - 20 * MILLIS < SECONDS / 1000);
    }

    #[test]
    fn what_waits_has_the_bound_of_the_servers_queues() {
        let mut wires = Wires::new(2, SPEED);
        for number in 0..12 {
            wires.put(0, (From::Replica(0, false), 1), 1 << 20, number);
        }
        for (_, tick) in wires.take_ticks() {
            wires.happen(0, tick);
        }
        assert_eq!(wires.dropped, 3);
    }
}
