//! The machines of a cluster whose capacity is measured: what each resource of each replica is busy
//! with, and what came of it between two moments.

use super::serial::{Serial, takes_ns};
use super::wires::{LinkSpeed, Wires};
use crate::core_costs::CoreCosts;
use crate::plan::Plan;

/// What the machine of every replica can do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Hardware {
    pub(crate) link: LinkSpeed,
    /// What a disk writes a second, and what a flush takes beyond that, ns.
    pub(crate) disk_bytes_per_second: u64,
    pub(crate) flush_ns: u64,
    pub(crate) core: CoreCosts,
}

/// What clients do: each puts values of so many bytes, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Puts {
    pub(crate) clients: usize,
    pub(crate) value_bytes: usize,
    /// They ask who leads. Otherwise each has a replica of its own.
    pub(crate) is_led: bool,
    /// How many are done when measuring begins, and when it ends.
    pub(crate) warm_up: u64,
    pub(crate) count: u64,
}

/// A run that is to be measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct RigPlan {
    pub(crate) hardware: Hardware,
    pub(crate) puts: Puts,
    /// How many fragments make a value, if the leader's disk is to write it whole: that is charged for
    /// what it appends to its fragment store.
    pub(crate) whole: Option<u64>,
    /// The leader does nothing else while its disk writes.
    pub(crate) leader_waits: bool,
}

/// What was counted between two moments.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reading {
    pub(crate) lasted_ns: u64,
    /// Puts answered.
    pub(crate) answered: u64,
    /// From the client's request to the answer, ascending.
    pub(crate) latencies_ns: Vec<u64>,
    /// Bytes sent by replicas to replicas, and written to disks.
    pub(crate) sent: u64,
    pub(crate) written: u64,
    /// By replica, how long each resource was busy.
    pub(crate) busy: Vec<Busy>,
    /// Bytes that a host had appended in the end and not given to its disk, at most.
    pub(crate) unwritten: u64,
    /// Frames for which no queue had room.
    pub(crate) dropped: u64,
    /// Requests that a replica had no room for, or that came to nothing.
    pub(crate) failed: u64,
}

/// How long the resources of one replica were busy, ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Busy {
    pub(crate) link: u64,
    pub(crate) disk: u64,
    pub(crate) core: u64,
    pub(crate) aside: u64,
}

/// The machines, and what was counted.
pub(crate) struct Rig<C> {
    pub(crate) plan: RigPlan,
    pub(crate) wires: Wires<C>,
    boxes: Vec<Machines>,
    /// Who decided last by its own count: the leader, if there is one.
    pub(crate) decider: Option<usize>,
    now: Reading,
    began_ns: u64,
    /// When measuring began and ended.
    began: Option<Reading>,
    ended: Option<Reading>,
}

/// Of one replica.
#[derive(Clone, Copy, Default)]
struct Machines {
    disk: Serial,
    /// The thread of the host and of short messages.
    core: Serial,
    /// The thread of connections for bulk.
    aside: Serial,
}

/// Bytes around a value in a client's request.
const REQUEST_BYTES: u64 = 64;

impl<C> Rig<C> {
    pub(crate) fn new(replicas: usize, plan: RigPlan) -> Self {
        Rig {
            plan,
            wires: Wires::new(replicas, plan.hardware.link),
            boxes: vec![Machines::default(); replicas],
            decider: None,
            now: Reading::default(),
            began_ns: 0,
            began: None,
            ended: None,
        }
    }

    /// So many bytes have come to a replica: when its socket has given them.
    pub(crate) fn comes(&mut self, replica: usize, now_ns: u64, bytes: u64, is_bulk: bool) -> u64 {
        let takes_ns = self.plan.hardware.core.socket(bytes) as u64;
        let machines = &mut self.boxes[replica];
        match is_bulk {
            true => machines.aside.take(now_ns, takes_ns),
            false => machines.core.take(now_ns, takes_ns),
        }
    }

    /// A replica's host takes a message of so many bytes in.
    pub(crate) fn takes_in(&mut self, replica: usize, now_ns: u64, bytes: u64) {
        let takes_ns = self.plan.hardware.core.step(bytes);
        self.boxes[replica].core.take(now_ns, takes_ns as u64);
    }

    /// A replica sends so many bytes to another: when they are with the socket.
    pub(crate) fn sends(&mut self, replica: usize, now_ns: u64, bytes: u64, is_bulk: bool) -> u64 {
        self.now.sent += bytes;
        let takes_ns = self.plan.hardware.core.socket(bytes) as u64;
        let machines = &mut self.boxes[replica];
        match is_bulk {
            true => {
                let ready_ns = machines.core.free_ns(now_ns);
                machines.aside.take(ready_ns, takes_ns)
            }
            false => machines.core.take(now_ns, takes_ns),
        }
    }

    /// How long a client's request is.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.plan.puts.value_bytes as u64 + REQUEST_BYTES
    }

    /// When the replica's core has done all it has to do by now.
    pub(crate) fn core_free_ns(&self, replica: usize, now_ns: u64) -> u64 {
        self.boxes[replica].core.free_ns(now_ns)
    }

    /// Whether a replica leads.
    pub(crate) fn leads(&self, replica: usize) -> bool {
        self.plan.puts.is_led && self.decider == Some(replica)
    }

    /// A replica gives its disk so much of the log and of the fragment store to write: when it is done.
    pub(crate) fn writes(
        &mut self,
        replica: usize,
        now_ns: u64,
        (log, bulk): (u64, u64),
        sync: bool,
    ) -> u64 {
        let leads = self.leads(replica);
        let factor = self.plan.whole.filter(|_| leads).unwrap_or(1);
        let bytes = log + bulk * factor;
        self.now.written += bytes;
        let hardware = &self.plan.hardware;
        let flush_ns = if sync { hardware.flush_ns } else { 0 };
        let takes_ns = flush_ns + takes_ns(bytes, hardware.disk_bytes_per_second);
        let machines = &mut self.boxes[replica];
        let begins_ns = machines.core.free_ns(now_ns);
        machines.disk.take(begins_ns, takes_ns)
    }

    /// A client's put has ended.
    pub(crate) fn ended(&mut self, now_ns: u64, took_ns: u64, is_done: bool) {
        if !is_done {
            self.now.failed += 1;
            return;
        }
        self.now.answered += 1;
        let puts = self.plan.puts;
        if self.now.answered > puts.warm_up && self.ended.is_none() {
            self.now.latencies_ns.push(took_ns);
        }
        if self.now.answered == puts.warm_up {
            self.began_ns = now_ns;
            self.began = Some(self.read(now_ns));
        }
        if self.now.answered == puts.count {
            self.ended = Some(Reading {
                lasted_ns: now_ns - self.began_ns,
                ..self.read(now_ns)
            });
        }
    }

    fn read(&self, now_ns: u64) -> Reading {
        let busy = |(replica, machines): (usize, &Machines)| Busy {
            link: self.wires.busy_ns(replica, now_ns),
            disk: machines.disk.busy_ns(now_ns),
            core: machines.core.busy_ns(now_ns),
            aside: machines.aside.busy_ns(now_ns),
        };
        Reading {
            busy: self.boxes.iter().enumerate().map(busy).collect(),
            dropped: self.wires.dropped,
            ..self.now.clone()
        }
    }

    /// What was counted from the end of the warm-up to the last put; `None` if it never came.
    pub(crate) fn finish(self, unwritten: u64) -> Option<Reading> {
        let (began, mut ended) = (self.began?, self.ended?);
        ended.unwritten = unwritten;
        ended.answered -= began.answered;
        ended.sent -= began.sent;
        ended.written -= began.written;
        ended.latencies_ns.sort_unstable();
        for (ended, began) in ended.busy.iter_mut().zip(&began.busy) {
            ended.link -= began.link;
            ended.disk -= began.disk;
            ended.core -= began.core;
            ended.aside -= began.aside;
        }
        Some(ended)
    }
}

impl RigPlan {
    /// The plan of such a run: the clients of this, and nothing to disks but what they put.
    pub(crate) fn settle(&self, plan: &mut Plan) {
        plan.load.clients = self.puts.clients;
        plan.load.keys = u8::MAX;
        plan.load.arrivals = None;
        (plan.load.think_ns, plan.load.storm_every_ns) = (0, None);
        (plan.limits.snapshot_slots, plan.limits.snapshot_bytes) = (0, 0);
    }
}
