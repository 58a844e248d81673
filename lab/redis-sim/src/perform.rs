//! What drivers and servers ask for, done with delays.

use crate::fake::{Act, Fake, Socket};
use crate::log::{Ordered, Read};
use crate::options::{KILLED, MS};
use crate::wanted::Wanted;
use crate::world::{Event, World};
use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_redis_effects::{Conn, Gate, Input, Life, MemoryRdb, Note, Output, Rdb};
use std::sync::Arc;

impl World {
    pub(crate) fn perform_acts(&mut self, index: usize, life: Life, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send(socket, bytes) => {
                    let at_ns =
                        self.nodes[index].lane(socket, self.now_ns, self.rng.u64(10_000..150_000));
                    let event = Event::FromServer(index, life, socket, bytes);
                    self.after(at_ns - self.now_ns, event);
                }
                Act::Connect => {
                    let delay_ns = self.hop() + MS;
                    self.after(delay_ns, Event::LinkOpened(index, life));
                }
                Act::Disconnect => {
                    let (node_life, conn) = (self.nodes[index].life, Conn::Link);
                    let input = Input::Closed { life, conn };
                    let delay_ns = self.hop();
                    self.after(delay_ns, Event::Tell(index, node_life, input));
                }
                Act::Saved => {}
            }
        }
    }

    pub(crate) fn start_server(&mut self, index: usize, node_life: u64, life: Life, rdb: &dyn Rdb) {
        if self.nodes[index].life != node_life || self.nodes[index].asked_life != life {
            return;
        }
        let (seed, skew_ms) = (self.rng.u64(..), self.nodes[index].skew_ms);
        match Fake::start(rdb, seed, skew_ms) {
            Ok(mut server) => {
                let acts = server.take_acts();
                let node = &mut self.nodes[index];
                node.server = Some(server);
                node.server_life = life;
                node.hangs_until_ns = 0;
                self.tell(index, node_life, Input::Started { life });
                self.perform_acts(index, life, acts);
            }
            Err(why) => self.tell(index, node_life, Input::Died { life, why }),
        }
    }

    pub(crate) fn server_sent(&mut self, index: usize, life: Life, socket: Socket, bytes: Bytes) {
        let node = &mut self.nodes[index];
        if node.server_life != life || node.server.is_none() || !node.is_up {
            return;
        }
        if node.frozen_until_ns > self.now_ns {
            let event = Event::FromServer(index, life, socket, bytes);
            let delay_ns = node.frozen_until_ns - self.now_ns + 1;
            return self.after(delay_ns, event);
        }
        let node_life = node.life;
        let conn = match socket {
            Socket::Client(client) => return self.answer_read(index, client, bytes),
            Socket::Control => Conn::Control,
            Socket::Tap => Conn::Tap,
            Socket::Link => Conn::Link,
        };
        self.tell(index, node_life, Input::Bytes { life, conn, bytes });
    }

    /// Tells a driver something, and does what it asks for.
    pub(crate) fn tell(&mut self, index: usize, life: u64, input: Input) {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[index];
        if node.life != life || !node.is_up {
            return;
        }
        if node.frozen_until_ns > now_ns {
            let delay_ns = node.frozen_until_ns - now_ns;
            return self.after(delay_ns, Event::Tell(index, life, input));
        }
        node.driver.input(now_ns, input);
        while let Some(output) = self.nodes[index].driver.output() {
            self.perform(index, output);
        }
    }

    pub(crate) fn perform(&mut self, index: usize, output: Output) {
        let node_life = self.nodes[index].life;
        match output {
            Output::Start { life, rdb } => {
                self.nodes[index].kill_server();
                self.nodes[index].asked_life = life;
                let delay_ns = self.rng.u64(MS..30 * MS);
                self.after(delay_ns, Event::StartServer(index, node_life, life, rdb));
            }
            Output::Kill { .. } => self.nodes[index].kill_server(),
            Output::Connect { life, conn } => {
                let delay_ns = self.hop();
                let input = Input::Opened { life, conn };
                self.after(delay_ns, Event::Tell(index, node_life, input));
            }
            Output::Disconnect { life, conn } => {
                let delay_ns = self.hop();
                self.after(delay_ns, Event::ServerClosed(index, life, socket_of(conn)));
            }
            Output::Write { life, conn, bytes } => {
                let (now_ns, draw) = (self.now_ns, self.rng.u64(10_000..150_000));
                let at_ns = self.nodes[index].lane_in(socket_of(conn), now_ns, draw);
                if conn == Conn::Link {
                    let flushed = Input::Flushed {
                        life,
                        bytes: bytes.len() as u64,
                    };
                    self.after(at_ns - now_ns, Event::Tell(index, node_life, flushed));
                }
                let event = Event::ToServer(index, life, socket_of(conn), bytes);
                self.after(at_ns - now_ns, event);
            }
            Output::CollectRdb { life } => self.collect_rdb(index, life),
            Output::Submit { token, body } => self.submit(index, token, body),
            Output::QuorumRead { token } => self.ask_quorum(index, token),
            Output::Gate(gate) => self.gate(index, gate),
            Output::Pause(paused) => self.nodes[index].is_paused = paused,
            Output::Release { up_to } => self.release(index, up_to),
            Output::Executor { epoch, executor } => {
                self.report.epochs = self.report.epochs.max(epoch);
                self.nodes[index].executor = executor.map(|id| (epoch, usize::from(id.0) - 1));
            }
            Output::Probe { peer, epoch } => {
                let token = (index as u64) << 48 | node_life << 32 | epoch;
                self.probe(usize::from(peer.0) - 1, token, epoch);
            }
            Output::Offer { peer, epoch } => {
                let peer = usize::from(peer.0) - 1;
                let (life, delay_ns) = (self.nodes[peer].life, self.trip());
                self.after(delay_ns, Event::Tell(peer, life, Input::Offered { epoch }));
            }
            Output::ProbeReply { token, alive } => {
                let (to, life) = ((token >> 48) as usize, token >> 32 & 0xffff);
                if alive && !self.faults.are_probes_lost {
                    let peer = ReplicaId(index as u16 + 1);
                    let delay_ns = self.trip();
                    self.after(delay_ns, Event::Tell(to, life, Input::PeerAlive { peer }));
                }
            }
            Output::Note(note) => self.noted(index, note),
            // Where it was only unlucky, its operator starts it anew.
            Output::Fail(why) if why.contains(KILLED) => self.crash(index),
            Output::Fail(why) => self.fail(format!("replica {index} gives up: {why}")),
        }
    }

    pub(crate) fn noted(&mut self, index: usize, note: Note) {
        match &note {
            Note::Deposed { tail: Some(0), .. } => self.report.continued += 1,
            Note::Deposed { tail: Some(_), .. } => self.report.tails += 1,
            Note::Saved { .. } => self.report.saved += 1,
            _ => {}
        }
        self.note(|| format!("replica {index}: {note}"));
    }

    pub(crate) fn probe(&mut self, peer: usize, token: u64, epoch: u64) {
        let life = self.nodes[peer].life;
        let delay_ns = self.trip();
        self.after(
            delay_ns,
            Event::Tell(peer, life, Input::Probed { token, epoch }),
        );
    }

    pub(crate) fn collect_rdb(&mut self, index: usize, life: Life) {
        let is_torn = self.rng.u8(..) < self.faults.torn_of_256;
        let node = &mut self.nodes[index];
        let node_life = node.life;
        let saved = node.server.as_mut().filter(|_| node.server_life == life);
        let rdb = saved.and_then(Fake::take_rdb).filter(|_| !is_torn);
        let rdb = rdb.map(|bytes| Arc::new(MemoryRdb(bytes)) as Arc<dyn Rdb>);
        let delay_ns = self.hop();
        self.after(
            delay_ns,
            Event::Tell(index, node_life, Input::RdbSaved { life, rdb }),
        );
    }

    fn ask_quorum(&mut self, index: usize, token: u64) {
        let life = self.nodes[index].life;
        if self.wanted.is_some() {
            return self.want(Wanted::Read((index, life, token)));
        }
        let (by, after) = ((index, life), self.log.entries.len());
        self.log.reads.push(Read { by, token, after });
        self.schedule_apply(index);
    }

    pub(crate) fn submit(&mut self, index: usize, token: u64, body: Bytes) {
        let life = self.nodes[index].life;
        if self.wanted.is_some() {
            return self.want(Wanted::Submit((index, life, token), body));
        }
        let fate = self.rng.u8(..);
        let delay_ns = self.trip();
        if fate < self.faults.lost_of_256 {
            // Nobody knows: it may be ordered late, or never.
            let input = Input::Result {
                token,
                result: None,
            };
            self.after(delay_ns, Event::Tell(index, life, input));
            if fate.is_multiple_of(2) {
                let late_ns = self.rng.u64(MS..300 * MS);
                self.after(late_ns, Event::Order(Ordered { body, by: None }));
            }
            return;
        }
        let by = Some((index, life, token));
        self.after(delay_ns, Event::Order(Ordered { body, by }));
    }

    pub(crate) fn gate(&mut self, index: usize, gate: Gate) {
        match gate {
            Gate::Open { epoch } => {
                let is_second = self.nodes.iter().any(|node| node.opened == Some(epoch));
                if is_second {
                    self.fail(format!("V4: the gate of epoch {epoch} opened twice"));
                }
                self.nodes[index].opened = Some(epoch);
                self.nodes[index].gate = Some(epoch);
                self.nodes[index].label = 0;
            }
            Gate::Closed => {
                self.nodes[index].gate = None;
                self.nodes[index].is_paused = false;
                self.close_clients(index);
                let (life, delay_ns) = (self.nodes[index].life, self.hop());
                self.after(delay_ns, Event::Tell(index, life, Input::ClientsClosed));
            }
        }
    }
}

fn socket_of(conn: Conn) -> Socket {
    match conn {
        Conn::Control => Socket::Control,
        Conn::Tap => Socket::Tap,
        Conn::Link => Socket::Link,
    }
}
