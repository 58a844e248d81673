//! What breaks, and when.

use crate::disk::Disk;
use crate::network::exponential;
use crate::node::Node;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{Durability, MILLIS, Machine};

/// A kind of fault that strikes again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Crash,
    CrashAll,
    Pause,
    Partition,
    Reset,
    ClockJump,
    Wipe,
}

const FAULTS: [Fault; 7] = [
    Fault::Crash,
    Fault::CrashAll,
    Fault::Pause,
    Fault::Partition,
    Fault::Reset,
    Fault::ClockJump,
    Fault::Wipe,
];

/// What the nemesis remembers.
#[derive(Default)]
pub(crate) struct Nemesis {
    /// No new outage begins.
    pub(crate) tired: bool,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Schedules the first strike of every kind of fault in the plan.
    pub(crate) fn schedule_faults(&mut self) {
        FAULTS
            .into_iter()
            .for_each(|fault| self.schedule_fault(fault));
    }

    fn schedule_fault(&mut self, fault: Fault) {
        let every_ns = match fault {
            Fault::Crash => self.plan.crash_every_ns,
            Fault::CrashAll => self.plan.crash_all_every_ns,
            Fault::Pause => self.plan.pause_every_ns,
            Fault::Partition => self.plan.partition_every_ns,
            Fault::Reset => self.plan.reset_every_ns,
            Fault::ClockJump => self.plan.clock_jump_every_ns,
            Fault::Wipe => self.plan.wipe_every_ns,
        };
        if let Some(every_ns) = every_ns {
            let delay = exponential(&mut self.rng, every_ns);
            self.queue.after(delay, Event::Fault(fault));
        }
    }

    /// A fault strikes.
    pub(crate) fn strike(&mut self, fault: Fault) {
        if self.nemesis.tired {
            return;
        }
        let now_ns = self.queue.now_ns();
        self.trace
            .event(now_ns, "fault", &[fault as u64], || format!("{fault:?}"));
        match fault {
            Fault::Crash => self.aim_crash(),
            Fault::CrashAll => self.crash_all(),
            Fault::Pause => self.pause(),
            Fault::Partition => self.partition(),
            Fault::Reset => self.reset(),
            Fault::ClockJump => self.jump_clock(),
            Fault::Wipe => self.wipe(),
        }
        self.schedule_fault(fault);
    }

    /// Power fails at one replica.
    pub(crate) fn crash(&mut self, index: usize) {
        if self.nodes[index].host.is_none() || self.is_crash_forbidden(index) {
            return;
        }
        let now_ns = self.queue.now_ns();
        self.totals.crashes += 1;
        self.nodes[index].fall(&mut self.rng);
        self.move_watchers(index);
        self.trace.event(now_ns, "crash", &[index as u64], || {
            format!("r{}", index + 1)
        });
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            self.network.reset(index, peer);
            if self.rng.bool() {
                let delay = self.rng.u64(..5 * MILLIS);
                self.queue.after(
                    delay,
                    Event::Link {
                        node: peer,
                        peer: index,
                        up: false,
                    },
                );
            }
        }
        let delay = self.rng.u64(..=self.plan.outage_max_ns);
        self.queue.after(delay, Event::Restart { node: index });
    }

    /// Without disks each crash costs promises: no more at a time than the protocol survives.
    fn is_crash_forbidden(&self, index: usize) -> bool {
        self.setup.durability == Durability::Memory
            && self.without_promises(index) >= self.setup.failures_survived
    }

    /// Replicas, but for one, that lost their promises and have not recovered yet.
    fn without_promises(&self, but: usize) -> usize {
        let is_memory = self.setup.durability == Durability::Memory;
        let others = self.nodes.iter().enumerate().filter(|(i, _)| *i != but);
        let is_lost = |node: &Node<M, A>| match &node.host {
            None => is_memory || node.lost,
            Some(host) => !host.machine().is_serving(),
        };
        others.filter(|(_, node)| is_lost(node)).count()
    }

    /// A replica dies, and its disk is replaced by an empty one.
    fn wipe(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let is_too_much = self.without_promises(index) >= self.setup.failures_survived;
        if is_too_much || self.nodes[index].host.is_none() || !self.nodes[index].started {
            return;
        }
        self.crash(index);
        let node = &mut self.nodes[index];
        node.disk = Disk::new(self.plan.disk.recycle);
        (node.wiped, node.lost) = (true, true);
    }

    /// Half of the crashes hit a disk that is just writing.
    fn aim_crash(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        if self.rng.bool() {
            self.nodes[index].crash_at_flush = true;
        } else {
            self.crash(index);
        }
    }

    fn crash_all(&mut self) {
        if self.setup.durability == Durability::Memory {
            return;
        }
        (0..self.nodes.len()).for_each(|index| self.crash(index));
    }

    /// A replica is stopped for a while, as by SIGSTOP; what arrives meanwhile waits.
    fn pause(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let until_ns = self.queue.now_ns() + self.rng.u64(..=self.plan.outage_max_ns);
        let node = &mut self.nodes[index];
        node.busy_until_ns = node.busy_until_ns.max(until_ns);
    }

    fn partition(&mut self) {
        let n = self.nodes.len();
        let one = self.rng.usize(..n);
        let side: Vec<bool> = match self.rng.u8(..3) {
            0 => (0..n).map(|_| self.rng.bool()).collect(),
            _ => (0..n).map(|index| index == one).collect(),
        };
        let (outward, inward) = [(true, true), (true, false), (false, true)][self.rng.usize(..3)];
        let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        let links: Vec<(usize, usize)> = pairs
            .filter(|(from, to)| {
                side[*from] != side[*to] && if side[*from] { outward } else { inward }
            })
            .collect();
        self.network.cut(&links);
        for (from, to) in &links {
            if self.rng.bool() {
                let delay = self.rng.u64(..20 * MILLIS);
                self.queue.after(
                    delay,
                    Event::Link {
                        node: *from,
                        peer: *to,
                        up: false,
                    },
                );
            }
        }
        let delay = self.rng.u64(..=self.plan.outage_max_ns);
        for (from, to) in &links {
            let later = delay + self.rng.u64(..5 * MILLIS);
            self.queue.after(
                later,
                Event::Link {
                    node: *from,
                    peer: *to,
                    up: true,
                },
            );
        }
        self.queue.after(delay, Event::Mend { links });
    }

    /// A connection breaks and comes back; now and then the hints about it are wrong.
    fn reset(&mut self) {
        let n = self.nodes.len();
        let (a, b) = (self.rng.usize(..n), self.rng.usize(..n));
        if a == b {
            return;
        }
        if self.rng.u8(..10) > 0 {
            self.network.reset(a, b);
        }
        for (node, peer) in [(a, b), (b, a)] {
            if self.rng.u8(..10) > 0 {
                let down = self.rng.u64(..MILLIS);
                let up = down + self.rng.u64(..5 * MILLIS);
                self.queue.after(
                    down,
                    Event::Link {
                        node,
                        peer,
                        up: false,
                    },
                );
                self.queue.after(
                    up,
                    Event::Link {
                        node,
                        peer,
                        up: true,
                    },
                );
            }
        }
    }

    fn jump_clock(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let most = self.plan.clock_offset_max_ns as i64;
        self.nodes[index].clock.offset_ns = self.rng.i64(-most..=most);
    }
}
