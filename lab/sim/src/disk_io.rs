//! What a replica's disk does, and how long that takes.

use crate::network::chance;
use crate::node::Inbound;
use crate::snapshots::INJECTED;
use crate::subject::Subject;
use crate::world::{Event, World};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{MICROS, Machine};
use quorate_host::{Completed, Flush, LogRead};

/// What a sync takes at most on a disk that is well.
const SYNC_NS_MAX: u64 = 400 * MICROS;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A replica has given its disk a flush to perform.
    pub(crate) fn flush(&mut self, index: usize, flush: Flush) {
        let now_ns = self.queue.now_ns();
        let sync = flush.sync;
        if sync {
            self.measure(|meter, _| meter.flushed());
        }
        self.trace
            .event(now_ns, "flush", &[index as u64, u64::from(sync)], || {
                format!("r{} through {:?}, sync {sync}", index + 1, flush.through)
            });
        let taken = self.rig_writes_ns(index, (&flush.writes, &flush.fragments), sync);
        let taken = taken.or_else(|| self.core_flushes_ns(index));
        let disk = &self.plan.disk;
        let delay = match (sync, taken) {
            (false, _) => 0,
            (true, Some(taken_ns)) => taken_ns,
            (true, None) => disk_delay(&mut self.rng, disk.slow, disk.slow_max_ns),
        };
        if delay > SYNC_NS_MAX {
            self.totals.hit("slow sync");
        }
        let node = &mut self.nodes[index];
        let mut writes = flush.writes.iter().chain(&flush.fragments);
        let begins_segment = writes.any(|write| write.offset == 0);
        let waits_ns = node.full_until_ns.saturating_sub(now_ns);
        let waits_ns = if begins_segment { waits_ns } else { 0 };
        let delay = delay + waits_ns;
        node.disk.write(&flush);
        if !sync && waits_ns == 0 {
            let now = node.clock.now(now_ns);
            let host = node.host.as_mut().expect("it asked for this flush");
            host.completed(now, Completed::Flush(flush.through));
            return;
        }
        node.in_flight = Some(flush);
        let life = node.life;
        if disk.blocking {
            node.busy_until_ns = node.busy_until_ns.max(now_ns + delay);
        }
        if std::mem::take(&mut node.crash_at_flush) {
            let when = self.rng.u64(..=delay);
            self.queue.after(when, Event::Crash { node: index, life });
        }
        self.queue
            .after(delay, Event::Flushed { node: index, life });
    }

    /// The disk has performed the flush it was given.
    pub(crate) fn flush_done(&mut self, node: usize, life: u32) {
        if self.nodes[node].life == life {
            let failure = self.plan.disk.sync_failure;
            if failure > 0.0 && chance(&mut self.nemesis.rng, failure) {
                // Nothing is known about what this disk holds: the replica stops.
                self.totals.hit("failed sync");
                return self.crash(node);
            }
            let target = &mut self.nodes[node];
            let flush = target.in_flight.as_ref().expect("a flush was in flight");
            target.disk.sync(flush);
            self.arrive(node, Inbound::Flushed);
        }
    }

    /// The disk has read what a peer needs.
    pub(crate) fn read_done(&mut self, node: usize, life: u32, read: &LogRead) {
        if self.nodes[node].life == life {
            let bytes = self.nodes[node].disk.read_at(read);
            let bytes = self.misread(bytes);
            let token = read.token;
            let done = Completed::Read { token, bytes };
            self.arrive(node, Inbound::Completed(done));
        }
    }

    /// What a disk in trouble makes of a read.
    pub(crate) fn misread(&mut self, bytes: Result<Bytes, String>) -> Result<Bytes, String> {
        let rng = &mut self.nemesis.rng;
        if self.nemesis.tired || !chance(rng, self.plan.disk.read_error) {
            return bytes;
        }
        let mut bytes = bytes?.to_vec();
        if bytes.is_empty() || rng.bool() {
            self.totals.hit("read error");
            return Err(INJECTED.into());
        }
        self.totals.hit("wrong read");
        let at = rng.usize(..bytes.len());
        bytes[at] ^= 1 << rng.u8(..8);
        Ok(bytes.into())
    }
}

pub(crate) fn disk_delay(rng: &mut Rng, slow: f64, slow_max_ns: u64) -> u64 {
    if chance(rng, slow) {
        rng.u64(SYNC_NS_MAX..slow_max_ns)
    } else {
        rng.u64(150 * MICROS..SYNC_NS_MAX)
    }
}
