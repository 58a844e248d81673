//! What goes wrong.

use crate::fake::Socket;
use crate::options::{KILLED, MS};
use crate::wanted::Wanted;
use crate::world::{Event, World};
use quorate_core::ReplicaId;
use quorate_redis_effects::{Conn, Input, Life};

impl World {
    /// One thing breaks.
    pub(crate) fn fault(&mut self) {
        if self.faults.is_over {
            return;
        }
        let next_ns = self.rng.u64(50 * MS..900 * MS);
        self.after(next_ns, Event::Fault);
        let executor = self.nodes.iter().position(|node| node.gate.is_some());
        let any = self.rng.usize(..self.nodes.len());
        let index = match self.rng.u8(..3) {
            0 => any,
            _ => executor.unwrap_or(any),
        };
        let kinds = if self.options.has_races { 15 } else { 12 };
        let choice = self.rng.u8(..kinds);
        self.note(|| format!("fault {choice} at {index}"));
        if !self.nodes[index].is_up {
            return;
        }
        match choice {
            // Hosts that somebody else runs have faults of their own.
            3 | 9 | 12 if self.wanted.is_some() => self.race(index),
            0 | 1 => self.kill_server(index),
            2 => {
                let until_ns = self.now_ns + self.rng.u64(50 * MS..2_500 * MS);
                self.nodes[index].hangs_until_ns = until_ns;
            }
            3 => self.crash(index),
            4 | 5 => {
                let until_ns = self.now_ns + self.rng.u64(100 * MS..2_500 * MS);
                // What waits for the end of a freeze comes before what waits for the end of the next.
                let node = &mut self.nodes[index];
                node.frozen_until_ns = node.frozen_until_ns.max(until_ns);
            }
            6 => self.faults.are_probes_lost = !self.faults.are_probes_lost,
            7 => self.nodes[index].slowness = self.rng.u64(1..20),
            8 => {
                let target = ReplicaId(self.rng.u16(..self.nodes.len() as u16) + 1);
                let life = self.nodes[index].life;
                self.tell(index, life, Input::MoveTo(target));
            }
            9 => self.take_from_peer(index),
            10 => self.cut_connection(index),
            12 => {
                let until_ns = self.now_ns + self.rng.u64(50 * MS..1_500 * MS);
                self.nodes[index].applies_after_ns = until_ns;
                self.race(index);
            }
            13 => self.race(index),
            _ => {
                let peer = ReplicaId(self.rng.u16(..self.nodes.len() as u16) + 1);
                let (life, down) = (self.nodes[index].life, self.rng.bool());
                self.tell(index, life, Input::PeerDown { peer, down });
            }
        }
    }

    fn kill_server(&mut self, index: usize) {
        let life = self.nodes[index].server_life;
        if life == Life::default() {
            return;
        }
        self.nodes[index].kill_server();
        let node_life = self.nodes[index].life;
        let why = KILLED.to_owned();
        let delay_ns = self.hop();
        self.after(
            delay_ns,
            Event::Tell(index, node_life, Input::Died { life, why }),
        );
    }

    pub(crate) fn crash(&mut self, index: usize) {
        self.nodes[index].is_up = false;
        self.nodes[index].kill_server();
        self.nodes[index].gate = None;
        self.close_clients(index);
        if self.wanted.is_some() {
            return self.want(Wanted::Restart(index));
        }
        let delay_ns = self.rng.u64(50 * MS..1_500 * MS);
        self.after(delay_ns, Event::Restart(index));
    }

    pub(crate) fn restart(&mut self, index: usize) {
        self.purge(index);
        match self.nodes[index].restart() {
            Ok(()) => self.begin_node(index),
            Err(why) => self.fail(format!("replica {index} does not load its snapshot: {why}")),
        }
    }

    /// Others claim though the executor is well.
    fn race(&mut self, executor: usize) {
        for index in 0..self.nodes.len() {
            if index != executor && self.rng.bool() {
                let life = self.nodes[index].life;
                let epoch = self.nodes[index].driver.status().stream.epoch;
                self.tell(index, life, Input::Offered { epoch });
            }
        }
    }

    fn take_from_peer(&mut self, index: usize) {
        let applied = self.nodes[index].applied;
        let newest = (self.nodes.iter())
            .filter_map(|node| node.snapshot.as_ref())
            .filter(|snapshot| snapshot.0 > applied)
            .max_by_key(|snapshot| snapshot.0);
        let Some((applied, pieces, _)) = newest.cloned() else {
            return;
        };
        match self.nodes[index].install(applied, &pieces) {
            Ok(()) => self.report.installed += 1,
            Err(why) => self.fail(format!("a snapshot is refused: {why}")),
        }
        let life = self.nodes[index].life;
        self.tell(index, life, Input::Shared);
    }

    fn cut_connection(&mut self, index: usize) {
        let (life, node_life) = (self.nodes[index].server_life, self.nodes[index].life);
        let conn = match self.rng.u8(..3) {
            0 => Conn::Tap,
            1 => Conn::Link,
            _ => Conn::Control,
        };
        if life == Life::default() {
            return;
        }
        if conn == Conn::Control {
            // The next one is opened soon: what was said on this one may not be taken for its replies.
            self.happen(Event::ServerClosed(index, life, Socket::Control));
        }
        self.tell(index, node_life, Input::Closed { life, conn });
        if conn == Conn::Link {
            self.after(MS, Event::ServerClosed(index, life, Socket::Link));
        }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&mut self) {
        self.faults.is_over = true;
        self.faults.lost_of_256 = 0;
        self.faults.torn_of_256 = 0;
        self.faults.are_probes_lost = false;
        for index in 0..self.nodes.len() {
            self.nodes[index].slowness = 1;
            self.nodes[index].applies_after_ns = 0;
            self.nodes[index].hangs_until_ns = 0;
            let life = self.nodes[index].life;
            for peer in 1..=self.nodes.len() as u16 {
                let peer = ReplicaId(peer);
                self.tell(index, life, Input::PeerDown { peer, down: false });
            }
        }
    }

    /// Snapshots are taken now and then; those of equal places are compared.
    pub(crate) fn maybe_cut(&mut self, index: usize) {
        if self.rng.u8(..) > 6 {
            return;
        }
        self.nodes[index].cut();
        let Some((applied, _, digest)) = &self.nodes[index].snapshot else {
            return;
        };
        let (applied, digest) = (*applied, *digest);
        if *self.cuts.entry(applied).or_insert(digest) != digest {
            self.fail(format!(
                "V1: the states of two replicas differ after {applied} commands"
            ));
        }
    }
}
