//! Replicas, their servers and clients in virtual time.

use crate::clients::{Client, Phase};
use crate::fake::{Act, Fake, Socket};
use crate::faults::Faults;
use crate::history::{FinalValues, Op, judge};
use crate::log::{Log, Ordered, Read};
use crate::node::Node;
use crate::reference::Reference;
use bytes::Bytes;
use quorate_core::{Application, At, ReplicaId};
use quorate_redis_effects::{
    Conn, Gate, Input, Life, MemoryRdb, Mutant, Output, Role, StreamQuery,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

pub(crate) const MS: u64 = 1_000_000;

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// What chance begins with.
    pub seed: u64,
    /// Replicas of the group.
    pub replicas: usize,
    /// Clients, spread over the replicas.
    pub clients: usize,
    /// How long faults happen, in ms.
    pub duration_ms: u64,
    /// A rule that drivers break.
    pub mutant: Option<Mutant>,
}

impl Options {
    /// A run of the usual size.
    #[must_use]
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            replicas: 3,
            clients: 5,
            duration_ms: 12_000,
            mutant: None,
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Questions that were answered.
    pub answered: usize,
    /// Questions of unknown outcome.
    pub unknown: usize,
    /// Epochs that began.
    pub epochs: u64,
    /// Bytes of the stream.
    pub len: u64,
    /// Servers that followed again without a reload.
    pub continued: usize,
    /// Servers that were replaced because of a tail.
    pub tails: usize,
    /// RDBs that took the place of others.
    pub saved: usize,
    /// Snapshots that replicas took from each other.
    pub installed: usize,
}

/// Something that is going to happen.
pub(crate) enum Event {
    /// A driver is told something.
    Tell(usize, u64, Input),
    /// A server gets bytes.
    ToServer(usize, Life, Socket, Bytes),
    /// A server loses a connection.
    ServerClosed(usize, Life, Socket),
    /// A server's link to its driver is open.
    LinkOpened(usize, Life),
    /// A process is started.
    StartServer(usize, u64, Life, Arc<dyn quorate_redis_effects::Rdb>),
    /// Bytes of a server arrive at its replica.
    FromServer(usize, Life, Socket, Bytes),
    /// A command gets its place.
    Order(Ordered),
    /// A replica applies what comes next.
    Apply(usize, u64),
    /// A driver's or a server's time.
    Tick(usize, u64),
    /// An answer arrives at its client.
    Answered(usize, u64, Bytes),
    /// A client does what is next.
    Client(usize),
    /// A replica that crashed is started again.
    Restart(usize),
    /// Something breaks.
    Fault,
}

struct Due(u64, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The whole of it.
pub struct World {
    pub(crate) options: Options,
    pub(crate) now_ns: u64,
    pub(crate) rng: fastrand::Rng,
    queue: BinaryHeap<Reverse<Due>>,
    next_event: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) log: Log,
    pub(crate) history: Vec<Op>,
    pub(crate) faults: Faults,
    pub(crate) report: Report,
    reference: Reference,
    /// Digests of states, by how many commands are in them.
    pub(crate) cuts: BTreeMap<usize, u64>,
    failure: Option<String>,
    pub(crate) trace: Vec<String>,
}

impl World {
    /// A group that begins.
    #[must_use]
    pub fn new(options: Options) -> World {
        let mut rng = fastrand::Rng::with_seed(options.seed);
        let nodes = (0..options.replicas)
            .map(|index| Node::new(index, &options, rng.u64(..)))
            .collect();
        let clients = (0..options.clients)
            .map(|index| Client::new(index, index % options.replicas))
            .collect();
        let mut world = World {
            faults: Faults::new(&mut rng),
            options,
            now_ns: MS,
            rng,
            queue: BinaryHeap::new(),
            next_event: 0,
            nodes,
            clients,
            log: Log::default(),
            history: Vec::new(),
            report: Report::default(),
            reference: Reference::default(),
            cuts: BTreeMap::new(),
            failure: None,
            trace: Vec::new(),
        };
        for index in 0..world.options.replicas {
            world.begin_node(index);
        }
        for index in 0..world.options.clients {
            world.after(MS, Event::Client(index));
        }
        world.after(300 * MS, Event::Fault);
        world
    }

    /// Runs until faults are over and everything has calmed down.
    ///
    /// # Errors
    /// What went wrong.
    pub fn run(mut self) -> Result<Report, String> {
        let end_ns = self.options.duration_ms * MS;
        while self.now_ns < end_ns {
            self.step()?;
        }
        self.heal();
        let calm_ns = end_ns + 60_000 * MS;
        while !self.is_calm() {
            if self.now_ns > calm_ns {
                let states: Vec<_> = self.nodes.iter().map(Node::describe).collect();
                let waiting: Vec<_> = self
                    .clients
                    .iter()
                    .map(|c| format!("{:?}", c.phase))
                    .collect();
                return Err(format!("no calm after a minute: {states:?} {waiting:?}"));
            }
            self.step()?;
        }
        self.judge_end()
    }

    /// What happened, for people.
    #[must_use]
    pub fn traced(mut self) -> (Result<Report, String>, Vec<String>) {
        let end_ns = self.options.duration_ms * MS;
        let mut result = Ok(());
        while self.now_ns < end_ns && result.is_ok() {
            result = self.step();
        }
        let trace = std::mem::take(&mut self.trace);
        (result.map(|()| self.report), trace)
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let line = format!("{:>9.3} {}", self.now_ns as f64 / MS as f64, text());
        self.trace.push(line);
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    pub(crate) fn after(&mut self, delay_ns: u64, event: Event) {
        self.next_event += 1;
        let due = Due(self.now_ns + delay_ns, self.next_event, event);
        self.queue.push(Reverse(due));
    }

    /// A short way within a machine.
    pub(crate) fn hop(&mut self) -> u64 {
        self.rng.u64(10_000..200_000)
    }

    /// A way between machines.
    pub(crate) fn trip(&mut self) -> u64 {
        self.rng.u64(100_000..3 * MS)
    }

    /// What was under way to or from a replica is lost.
    pub(crate) fn purge(&mut self, index: usize) {
        self.queue.retain(|Reverse(Due(.., event))| match event {
            Event::Tell(at, ..)
            | Event::ToServer(at, ..)
            | Event::ServerClosed(at, ..)
            | Event::LinkOpened(at, ..)
            | Event::StartServer(at, ..)
            | Event::FromServer(at, ..)
            | Event::Apply(at, ..)
            | Event::Tick(at, ..) => *at != index,
            _ => true,
        });
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(Reverse(Due(at_ns, _, event))) = self.queue.pop() else {
            return Err("nothing is going to happen any more".to_owned());
        };
        self.now_ns = self.now_ns.max(at_ns);
        self.happen(event);
        match self.failure.take() {
            Some(why) => Err(format!(
                "at {:.3} ms: {why}",
                self.now_ns as f64 / MS as f64
            )),
            None => Ok(()),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tell(index, life, input) => self.tell(index, life, input),
            Event::ToServer(index, life, socket, bytes) => {
                self.nodes[index].unread.push_back((life, socket, bytes));
                self.read_server(index);
            }
            Event::ServerClosed(index, life, socket) => {
                self.with_server(index, life, |server| match socket {
                    Socket::Link => server.link_closed(),
                    socket => server.closed(socket),
                });
            }
            Event::LinkOpened(index, life) => {
                let node_life = self.nodes[index].life;
                let conn = Conn::Link;
                self.tell(index, node_life, Input::Opened { life, conn });
                self.with_server(index, life, Fake::link_opened);
            }
            Event::StartServer(index, node_life, life, rdb) => {
                self.start_server(index, node_life, life, &*rdb);
            }
            Event::FromServer(index, life, socket, bytes) => {
                self.from_server(index, life, socket, bytes);
            }
            Event::Order(ordered) => self.order(ordered),
            Event::Apply(index, life) => self.apply(index, life),
            Event::Tick(index, life) => self.tick(index, life),
            Event::Answered(client, number, bytes) => self.answered(client, number, &bytes),
            Event::Client(client) => self.client_next(client),
            Event::Restart(index) => self.restart(index),
            Event::Fault => self.fault(),
        }
    }

    /// A server reads what was sent to it, unless it hangs.
    fn read_server(&mut self, index: usize) {
        let now_ms = self.now_ns / MS;
        while !self.is_held_up(index, self.nodes[index].server_life)
            && let Some((life, socket, bytes)) = self.nodes[index].unread.pop_front()
        {
            self.with_server(index, life, |server| {
                server.receive(socket, &bytes, now_ms);
            });
        }
    }

    /// Whether a server of this life hangs.
    fn is_held_up(&self, index: usize, life: Life) -> bool {
        let node = &self.nodes[index];
        node.server_life == life && node.hangs_until_ns > self.now_ns
    }

    fn with_server(&mut self, index: usize, life: Life, act: impl FnOnce(&mut Fake)) {
        let node = &mut self.nodes[index];
        if node.server_life != life {
            return;
        }
        let Some(server) = &mut node.server else {
            return;
        };
        act(server);
        let acts = server.take_acts();
        self.perform_acts(index, life, acts);
        self.check_standing(index);
    }

    fn perform_acts(&mut self, index: usize, life: Life, acts: Vec<Act>) {
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

    fn start_server(
        &mut self,
        index: usize,
        node_life: u64,
        life: Life,
        rdb: &dyn quorate_redis_effects::Rdb,
    ) {
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

    fn from_server(&mut self, index: usize, life: Life, socket: Socket, bytes: Bytes) {
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

    fn perform(&mut self, index: usize, output: Output) {
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
            Output::QuorumRead { token } => {
                let by = (index, node_life);
                let after = self.log.entries.len();
                self.log.reads.push(Read { by, token, after });
                self.schedule_apply(index);
            }
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
            Output::Fail(why) if why.contains(crate::faults::KILLED) => self.crash(index),
            Output::Fail(why) => self.fail(format!("replica {index} gives up: {why}")),
        }
    }

    fn noted(&mut self, index: usize, note: quorate_redis_effects::Note) {
        use quorate_redis_effects::Note;
        match &note {
            Note::Deposed { tail: Some(0), .. } => self.report.continued += 1,
            Note::Deposed { tail: Some(_), .. } => self.report.tails += 1,
            Note::Saved { .. } => self.report.saved += 1,
            _ => {}
        }
        self.note(|| format!("replica {index}: {note}"));
    }

    fn probe(&mut self, peer: usize, token: u64, epoch: u64) {
        let life = self.nodes[peer].life;
        let delay_ns = self.trip();
        self.after(
            delay_ns,
            Event::Tell(peer, life, Input::Probed { token, epoch }),
        );
    }

    fn collect_rdb(&mut self, index: usize, life: Life) {
        let is_torn = self.rng.u8(..) < self.faults.torn_of_256;
        let node = &mut self.nodes[index];
        let node_life = node.life;
        let saved = node.server.as_mut().filter(|_| node.server_life == life);
        let rdb = saved.and_then(Fake::take_rdb).filter(|_| !is_torn);
        let rdb =
            rdb.map(|bytes| Arc::new(MemoryRdb(bytes)) as Arc<dyn quorate_redis_effects::Rdb>);
        let delay_ns = self.hop();
        self.after(
            delay_ns,
            Event::Tell(index, node_life, Input::RdbSaved { life, rdb }),
        );
    }

    fn submit(&mut self, index: usize, token: u64, body: Bytes) {
        let life = self.nodes[index].life;
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

    fn order(&mut self, ordered: Ordered) {
        self.reference.order(&ordered.body);
        self.log.entries.push(ordered);
        for index in 0..self.nodes.len() {
            self.schedule_apply(index);
        }
    }

    fn schedule_apply(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !std::mem::replace(&mut node.is_applying, true) {
            let life = node.life;
            let slow = node.slowness;
            let delay_ns = self.trip() * slow;
            self.after(delay_ns, Event::Apply(index, life));
        }
    }

    fn apply(&mut self, index: usize, life: u64) {
        let frozen = self.nodes[index].frozen_until_ns;
        if self.nodes[index].life != life || !self.nodes[index].is_up {
            return;
        }
        if frozen > self.now_ns {
            return self.after(frozen - self.now_ns, Event::Apply(index, life));
        }
        self.nodes[index].is_applying = false;
        let most = self.rng.usize(1..20);
        for _ in 0..most {
            let node = &mut self.nodes[index];
            let Some(entry) = self.log.entries.get(node.applied).cloned() else {
                break;
            };
            node.attempt_in_vain(&mut self.rng, &self.log.entries);
            let at = At::default();
            let node = &mut self.nodes[index];
            let result = match self.rng.bool() {
                true => node.stream.apply(at, &entry.body, &[]),
                false => {
                    let result = node.stream.attempt(at, &entry.body);
                    node.stream.keep();
                    result
                }
            };
            node.applied += 1;
            if let Some((_, life, token)) = entry.by.filter(|by| by.0 == index) {
                let result = Some(result);
                self.after(0, Event::Tell(index, life, Input::Result { token, result }));
            }
        }
        self.tell(index, life, Input::Shared);
        self.answer_reads(index);
        self.maybe_cut(index);
        if self.nodes[index].applied < self.log.entries.len() {
            self.schedule_apply(index);
        }
    }

    fn answer_reads(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (applied, life) = (node.applied, node.life);
        let state = node.stream.query(&StreamQuery);
        let is_answered = |read: &Read| read.by == (index, life) && read.after <= applied;
        let answered: Vec<Read> = self.log.reads.iter().copied().filter(is_answered).collect();
        self.log.reads.retain(|read| !is_answered(read));
        for Read { token, .. } in answered {
            let state = Some(state).filter(|_| self.rng.u8(..) >= self.faults.lost_of_256);
            let input = Input::ReadResult { token, state };
            self.after(0, Event::Tell(index, life, input));
        }
    }

    fn tick(&mut self, index: usize, life: u64) {
        if self.nodes[index].life != life {
            return;
        }
        self.after(5 * MS, Event::Tick(index, life));
        let waiting = (self.clients.iter())
            .any(|client| client.home == index && !matches!(client.phase, Phase::Idle));
        self.tell(index, life, Input::Waiting(waiting));
        let is_due = self.nodes[index].driver.deadline().is_some();
        if is_due {
            self.tell(index, life, Input::Tick);
        }
        let server_life = self.nodes[index].server_life;
        let now_ms = self.now_ns / MS;
        self.read_server(index);
        if !self.is_held_up(index, server_life) {
            self.with_server(index, server_life, |server| server.tick(now_ms));
        }
    }

    pub(crate) fn begin_node(&mut self, index: usize) {
        let (replicas, life) = (self.options.replicas as u32, self.nodes[index].life);
        let rank = index as u32;
        self.tell(index, life, Input::Rank { rank, replicas });
        self.tell(index, life, Input::Shared);
        self.after(MS, Event::Tick(index, life));
        self.schedule_apply(index);
    }

    fn gate(&mut self, index: usize, gate: Gate) {
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

    /// V2: a server that follows has, at its offset, the data of the stream before it.
    fn check_standing(&mut self, index: usize) {
        let node = &self.nodes[index];
        let Some(server) = &node.server else {
            return;
        };
        let (is_master, offset, digest) = server.standing();
        if is_master || node.driver.status().role != Role::Following {
            return;
        }
        if offset > self.reference.len() {
            self.fail(format!(
                "V2: server {index} is at {offset}, beyond the stream"
            ));
        } else if let Some(right) = self.reference.digest_at(offset)
            && right != digest
        {
            self.fail(format!(
                "V2: server {index} holds other data at offset {offset}"
            ));
        }
    }

    fn is_calm(&self) -> bool {
        let len = self.reference.len();
        let is_rested = |node: &Node| {
            let standing = node.server.as_ref().map(Fake::standing);
            node.applied == self.log.entries.len()
                && standing.is_some_and(|(_, offset, _)| offset == len)
                && matches!(node.driver.status().role, Role::Following | Role::Executing)
        };
        self.nodes.iter().all(is_rested)
            && (self.clients.iter()).all(|client| matches!(client.phase, Phase::Idle))
    }

    fn judge_end(mut self) -> Result<Report, String> {
        self.report.len = self.reference.len();
        let mut executors = 0;
        for node in &self.nodes {
            let (is_master, offset, digest) =
                (node.server.as_ref().map(Fake::standing)).unwrap_or_default();
            executors += usize::from(is_master);
            if self.reference.digest_at(offset) != Some(digest) {
                let index = node.index;
                return Err(format!(
                    "server {index} holds other data in the end, at {offset}"
                ));
            }
        }
        if executors > 1 {
            return Err(format!("{executors} servers are masters in the end"));
        }
        let values = FinalValues {
            counter: self.reference.counter(),
            members: self.reference.members(),
        };
        let known = self.history.iter().filter(|op| op.answer.is_some());
        self.report.answered = known.count();
        self.report.unknown = self.history.len() - self.report.answered;
        judge(&self.history, &values)?;
        Ok(self.report)
    }
}

fn socket_of(conn: Conn) -> Socket {
    match conn {
        Conn::Control => Socket::Control,
        Conn::Tap => Socket::Tap,
        Conn::Link => Socket::Link,
    }
}
