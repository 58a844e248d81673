//! Replicas, their servers and clients in virtual time.

use crate::client::{Client, Phase};
use crate::fake::{Fake, Socket};
use crate::history::Op;
use crate::log::{Log, Ordered};
use crate::node::Node;
use crate::options::{Faults, MS, Options, Report};
use crate::reference::Reference;
use crate::wanted::Wanted;
use bytes::Bytes;
use quorate_redis_effects::{Conn, Input, Life};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

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
    /// One thing breaks.
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
    pub(crate) reference: Reference,
    /// Digests of states, by how many commands are in them.
    pub(crate) cuts: BTreeMap<usize, u64>,
    failure: Option<String>,
    /// What is wanted of hosts that somebody else runs, if they stand in the place of the own log.
    pub(crate) wanted: Option<Vec<Wanted>>,
    pub(crate) trace: Vec<String>,
}

impl World {
    /// A group that begins.
    #[must_use]
    pub fn new(options: Options) -> World {
        let mut world = World::without_replicas(options);
        for index in 0..world.options.replicas {
            world.begin_node(index);
        }
        world.begin_load();
        world
    }

    /// A group none of whose replicas runs.
    pub(crate) fn without_replicas(options: Options) -> World {
        let mut rng = fastrand::Rng::with_seed(options.seed);
        let nodes = (0..options.replicas)
            .map(|index| Node::new(index, &options, rng.u64(..)))
            .collect();
        let clients = (0..options.clients)
            .map(|index| Client::new(index, index % options.replicas))
            .collect();
        World {
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
            wanted: None,
            trace: Vec::new(),
        }
    }

    /// Clients ask, and things break.
    pub(crate) fn begin_load(&mut self) {
        for index in 0..self.options.clients {
            self.after(MS, Event::Client(index));
        }
        self.after(300 * MS, Event::Fault);
    }

    /// What is due until then happens.
    pub(crate) fn run_until(&mut self, end_ns: u64) -> Result<(), String> {
        while let Some(Reverse(Due(at_ns, ..))) = self.queue.peek()
            && *at_ns <= end_ns
        {
            self.step()?;
        }
        self.now_ns = self.now_ns.max(end_ns);
        self.failure.take().map_or(Ok(()), Err)
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
                let states = self.describe();
                return Err(format!("no calm after a minute: {states}"));
            }
            self.step()?;
        }
        self.judge_end()
    }

    /// What replicas and clients do, for people.
    pub(crate) fn describe(&self) -> String {
        let states: Vec<_> = self.nodes.iter().map(Node::describe).collect();
        let waiting: Vec<_> = self.clients.iter().map(|client| client.phase).collect();
        format!("{states:?} {waiting:?}")
    }

    /// What a run came to until faults are over, and what happened, for people.
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

    /// Hosts are to do something.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        if let Some(list) = &mut self.wanted {
            list.push(wanted);
        }
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

    /// What was under way on a connection is lost with it: the next one begins with its own greetings.
    fn forget_bytes(&mut self, index: usize, life: Life, socket: Socket) {
        self.queue.retain(|Reverse(Due(.., event))| match event {
            Event::ToServer(at, of, on, _) | Event::FromServer(at, of, on, _) => {
                (*at, *of, *on) != (index, life, socket)
            }
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

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Tell(index, life, input) => self.tell(index, life, input),
            Event::ToServer(index, life, socket, bytes) => {
                self.nodes[index].unread.push_back((life, socket, bytes));
                self.read_server(index);
            }
            Event::ServerClosed(index, life, socket) => {
                // What came on a connection that is closed is not read on the next one.
                let unread = &mut self.nodes[index].unread;
                unread.retain(|(of, on, _)| *of != life || *on != socket);
                if matches!(socket, Socket::Link | Socket::Control) {
                    self.forget_bytes(index, life, socket);
                }
                self.with_server(index, life, |server| match socket {
                    Socket::Link => server.link_closed(),
                    socket => server.closed(socket),
                });
            }
            Event::LinkOpened(index, life) => {
                self.forget_bytes(index, life, Socket::Link);
                let node_life = self.nodes[index].life;
                let conn = Conn::Link;
                self.tell(index, node_life, Input::Opened { life, conn });
                self.with_server(index, life, Fake::link_opened);
            }
            Event::StartServer(index, node_life, life, rdb) => {
                self.start_server(index, node_life, life, &*rdb);
            }
            Event::FromServer(index, life, socket, bytes) => {
                self.server_sent(index, life, socket, bytes);
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
    pub(crate) fn read_server(&mut self, index: usize) {
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
    pub(crate) fn is_held_up(&self, index: usize, life: Life) -> bool {
        let node = &self.nodes[index];
        node.server_life == life && node.hangs_until_ns > self.now_ns
    }

    pub(crate) fn with_server(&mut self, index: usize, life: Life, act: impl FnOnce(&mut Fake)) {
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
}
