//! The loop around a driver: it is told what happens, and what it asks for is done.

use crate::board::{Board, RdbReply};
use crate::hub::{Hub, Place};
use crate::orders::{Look, Orders};
use crate::server::{Events, ServerEvent, Servers};
use crate::tunnel::{self, Purpose};
use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_redis_effects::{Conn, Driver, Gate, Input, Output, StreamState};
use quorate_server::{Connection, TunnelDialer};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Instant, sleep_until};

/// How often the replica is asked about its peers while clients wait.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Events that are taken before clients have their turn.
const EVENTS_PER_TURN: usize = 256;
/// Probes of other replicas that may wait for their answer.
const PROBES_MAX: usize = 64;
/// How long the loop waits where nothing is to come.
const IDLE: Duration = Duration::from_secs(3600);

/// What happens beside what servers do.
pub(crate) enum Happening {
    /// A connection came to the port for links, of a process that is not known yet.
    Linked(TcpStream),
    /// A command came to this.
    Result(u64, Option<Bytes>),
    /// A quorum has this state.
    Read(u64, Option<StreamState>),
    /// The replica stands so among its peers.
    Looked(Option<Look>),
    /// A peer executes, in the epoch that was asked for.
    Alive(ReplicaId),
    /// A peer asks whether this replica executes.
    Probed(Connection, u64),
    /// The executor offers its office.
    Offered(Connection, u64),
    /// An operator wants another executor.
    Move(ReplicaId),
    /// This replica is to execute, if nobody does in that epoch.
    Claim(u64),
    /// An operator wants an RDB.
    RdbWanted(RdbReply),
    /// An operator wants an RDB of all that a quorum has.
    RdbWantedOf(RdbReply, Option<StreamState>),
    /// Everything is to end.
    Stop,
}

/// What the loop is made of.
pub(crate) struct Engine {
    pub(crate) me: ReplicaId,
    pub(crate) driver: Driver,
    pub(crate) hub: Rc<Hub>,
    pub(crate) servers: Servers,
    pub(crate) orders: Box<dyn Orders>,
    pub(crate) dialer: Option<TunnelDialer>,
    pub(crate) board: Arc<Board>,
    /// The application changed what it shares with the driver.
    pub(crate) shared: Arc<Notify>,
    pub(crate) happenings: mpsc::UnboundedSender<Happening>,
    pub(crate) state: EngineState,
}

/// What the loop remembers.
pub(crate) struct EngineState {
    began: Instant,
    waits: bool,
    looks_at: Instant,
    is_looking: bool,
    probes: BTreeMap<u64, Connection>,
    next_probe: u64,
    gate: Gate,
    /// Whether the driver waits until all clients have left the server.
    is_closing: bool,
    executor: (u64, Option<ReplicaId>),
    /// Who waits for an RDB, and of which offset at least.
    rdb_replies: Vec<(u64, RdbReply)>,
    is_to_stop: bool,
}

impl EngineState {
    pub(crate) fn new() -> EngineState {
        let now = Instant::now();
        EngineState {
            began: now,
            waits: false,
            looks_at: now,
            is_looking: false,
            probes: BTreeMap::new(),
            next_probe: 0,
            gate: Gate::Closed,
            is_closing: false,
            executor: (0, None),
            rdb_replies: Vec::new(),
            is_to_stop: false,
        }
    }
}

impl Engine {
    /// Runs until it is told to stop, and ends the server then.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::Receiver<ServerEvent>,
        mut happenings: mpsc::UnboundedReceiver<Happening>,
    ) {
        self.input(Input::Shared);
        self.look_at_peers();
        self.perform();
        // One timer that is kept, and moved only to be earlier: one that is begun anew in each turn would be the
        // earliest of all each time, which costs a write to the event loop.
        let mut alarm = pin!(sleep_until(self.deadline()));
        while !self.state.is_to_stop {
            let deadline = self.deadline();
            if alarm.is_elapsed() || deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
            let (mut from_servers, mut from_others) = (Vec::new(), Vec::new());
            tokio::select! {
                _ = events.recv_many(&mut from_servers, EVENTS_PER_TURN) => {}
                _ = happenings.recv_many(&mut from_others, EVENTS_PER_TURN) => {}
                () = self.shared.notified() => {}
                () = self.hub.changed.notified() => {}
                () = alarm.as_mut() => {}
            }
            // Clients read the answers that are there: one barrier serves them all.
            yield_now().await;
            self.input(Input::Shared);
            self.tell_of_clients();
            for event in from_servers {
                self.server_event(event);
            }
            for happening in from_others {
                self.happening(happening);
            }
            self.perform();
            self.hand_out_rdbs();
            (self.board).show(self.driver.status(), self.hub.clients());
        }
        self.hub.set_place(Place::Nowhere);
        self.servers.end().await;
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.state.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn input(&mut self, input: Input) {
        let now_ns = self.now_ns();
        self.driver.input(now_ns, input);
    }

    /// When there is something to do at the latest.
    fn deadline(&self) -> Instant {
        let wanted = self.driver.deadline();
        let wanted = wanted.map(|at_ns| self.state.began + Duration::from_nanos(at_ns));
        let looks = self.state.waits.then_some(self.state.looks_at);
        let idle = Instant::now() + IDLE;
        [wanted, looks]
            .into_iter()
            .flatten()
            .fold(idle, Instant::min)
    }

    /// Tells the driver of answers that were read, of clients that wait, and of those that have left.
    fn tell_of_clients(&mut self) {
        if let Some((total, held)) = self.hub.take_batch()
            && self.state.gate != Gate::Closed
        {
            self.input(Input::Answers { total, held });
        }
        if self.hub.take_unreachable() && self.state.gate != Gate::Closed {
            self.look_for_socket();
        }
        let waits = self.hub.waiting() > 0;
        if waits != self.state.waits {
            self.state.waits = waits;
            self.input(Input::Waiting(waits));
        }
        if waits && Instant::now() >= self.state.looks_at {
            self.look_at_peers();
        }
        if self.state.is_closing && self.hub.served() == 0 {
            self.state.is_closing = false;
            self.input(Input::ClientsClosed);
        }
    }

    /// Clients find nobody at the server's socket: the driver has to connect anew, and replaces a server with which it
    /// cannot.
    fn look_for_socket(&mut self) {
        let conn = Conn::Control;
        if let Some(life) = self.servers.life().filter(|_| self.servers.has(conn)) {
            self.servers.close(conn);
            self.input(Input::Closed { life, conn });
        }
    }

    /// Asks the replica how it stands among its peers.
    fn look_at_peers(&mut self) {
        self.state.looks_at = Instant::now() + LOOK_AGAIN;
        if !std::mem::replace(&mut self.state.is_looking, true) {
            let looked = self.orders.look();
            self.later(async move { Happening::Looked(looked.await) });
        }
    }

    /// Has something happen when its answer comes.
    fn later(&self, happening: impl Future<Output = Happening> + 'static) {
        let happenings = self.happenings.clone();
        spawn_local(async move {
            // Nobody listens any more once all is being stopped.
            let _ = happenings.send(happening.await);
        });
    }

    fn server_event(&mut self, event: ServerEvent) {
        let input = match event {
            ServerEvent::Started { life } => Input::Started { life },
            ServerEvent::Died { life, why } => {
                tracing::info!("the server ended: {why}");
                Input::Died { life, why }
            }
            ServerEvent::Opened { life, conn, number } if self.servers.is_open(conn, number) => {
                Input::Opened { life, conn }
            }
            ServerEvent::Bytes {
                life,
                conn,
                number,
                bytes,
            } if self.servers.is_open(conn, number) => Input::Bytes { life, conn, bytes },
            ServerEvent::Flushed {
                life,
                number,
                bytes,
            } if self.servers.is_open(Conn::Link, number) => Input::Flushed { life, bytes },
            ServerEvent::Closed { life, conn, number } if self.servers.is_open(conn, number) => {
                self.servers.close(conn);
                Input::Closed { life, conn }
            }
            ServerEvent::Opened { .. }
            | ServerEvent::Bytes { .. }
            | ServerEvent::Flushed { .. }
            | ServerEvent::Closed { .. } => return,
        };
        self.input(input);
        // What follows may be of a connection that is to be closed.
        self.perform();
    }

    fn happening(&mut self, happening: Happening) {
        match happening {
            Happening::Linked(stream) => self.servers.linked(stream),
            Happening::Result(token, result) => self.input(Input::Result { token, result }),
            Happening::Read(token, state) => self.input(Input::ReadResult { token, state }),
            Happening::Looked(look) => self.looked(look),
            Happening::Alive(peer) => self.input(Input::PeerAlive { peer }),
            Happening::Probed(connection, epoch) => self.probed(connection, epoch),
            Happening::Offered(connection, epoch) => {
                self.input(Input::Offered { epoch });
                answer(connection, true);
            }
            Happening::Claim(epoch) => self.input(Input::Offered { epoch }),
            Happening::Move(target) => self.input(Input::MoveTo(target)),
            Happening::RdbWanted(reply) => {
                let read = self.orders.read();
                self.later(async move { Happening::RdbWantedOf(reply, read.await) });
            }
            Happening::RdbWantedOf(reply, Some(StreamState { len: offset, .. })) => {
                self.state.rdb_replies.push((offset, reply));
                self.input(Input::SaveWanted { offset });
            }
            Happening::RdbWantedOf(reply, None) => {
                // Who asked may be gone.
                let _ = reply.send(Err("no majority of the replicas answers".to_owned()));
            }
            Happening::Stop => self.state.is_to_stop = true,
        }
    }

    /// Gives the newest RDB to those who wait for one that is no newer.
    fn hand_out_rdbs(&mut self) {
        if self.state.rdb_replies.is_empty() {
            return;
        }
        let (newest, rdb) = self.driver.newest_rdb();
        let waiting = std::mem::take(&mut self.state.rdb_replies);
        for (offset, reply) in waiting {
            if reply.is_closed() {
                continue;
            }
            match offset <= newest {
                // Who asked may be gone.
                true => drop(reply.send(Ok(Arc::clone(&rdb)))),
                false => self.state.rdb_replies.push((offset, reply)),
            }
        }
    }

    fn looked(&mut self, look: Option<Look>) {
        self.state.is_looking = false;
        let Some(Look {
            rank,
            replicas,
            peers,
        }) = look
        else {
            return;
        };
        self.input(Input::Rank { rank, replicas });
        for (peer, down) in peers {
            self.input(Input::PeerDown { peer, down });
        }
    }

    fn probed(&mut self, connection: Connection, epoch: u64) {
        if self.state.probes.len() >= PROBES_MAX {
            return;
        }
        self.state.next_probe += 1;
        let token = self.state.next_probe;
        self.state.probes.insert(token, connection);
        self.input(Input::Probed { token, epoch });
    }

    /// Does what the driver asks for.
    fn perform(&mut self) {
        while let Some(output) = self.driver.output() {
            match output {
                Output::Start { life, rdb } => self.servers.start(life, rdb),
                Output::Kill { life } => self.servers.kill(life),
                Output::Connect { life, conn } => self.servers.connect(life, conn),
                Output::Disconnect { conn, .. } => self.servers.close(conn),
                Output::Write { life, conn, bytes } => self.servers.write(life, conn, bytes),
                Output::CollectRdb { life } => {
                    let rdb = self.servers.collect(life);
                    self.input(Input::RdbSaved { life, rdb });
                }
                Output::Submit { token, body } => {
                    let ordered = self.orders.submit(body);
                    self.later(async move { Happening::Result(token, ordered.await) });
                }
                Output::QuorumRead { token } => {
                    let read = self.orders.read();
                    self.later(async move { Happening::Read(token, read.await) });
                }
                Output::Gate(gate) => self.set_gate(gate),
                Output::Pause(paused) => self.hub.set_paused(paused),
                Output::Release { up_to } => self.hub.release(up_to),
                Output::Executor { epoch, executor } => {
                    self.state.executor = (epoch, executor);
                    self.place_clients();
                }
                Output::Probe { peer, epoch } => self.ask(peer, Purpose::Probe { epoch }),
                Output::Offer { peer, epoch } => self.ask(peer, Purpose::Offer { epoch }),
                Output::ProbeReply { token, alive } => {
                    if let Some(connection) = self.state.probes.remove(&token) {
                        answer(connection, alive);
                    }
                }
                Output::Note(note) => tracing::info!("{note}"),
                Output::Fail(why) => {
                    tracing::error!("this replica serves no clients of Redis: {why}");
                    self.board.fail(why);
                }
            }
        }
    }

    fn set_gate(&mut self, gate: Gate) {
        self.state.gate = gate;
        match gate {
            Gate::Open { .. } => {
                // An office that was left in the middle of a move had them wait.
                self.hub.set_paused(false);
                self.hub.begin_epoch();
            }
            Gate::Closed => self.state.is_closing = true,
        }
        self.place_clients();
    }

    /// Tells clients where they are served now.
    fn place_clients(&self) {
        let folder = self.servers.folder();
        let is_importing = self.driver.status().stream.import.is_some();
        let place = match (self.state.gate, self.state.executor, folder) {
            (Gate::Closed, (_, None), _) if is_importing => Place::Importing,
            (Gate::Open { epoch }, _, Some(folder)) => Place::Here { epoch, folder },
            (Gate::Closed, (epoch, Some(executor)), _) if executor != self.me => {
                Place::There { epoch, executor }
            }
            _ => Place::Nowhere,
        };
        self.hub.set_place(place);
        // Clients that were served elsewhere are told before the driver goes on.
        self.hub.changed.notify_one();
    }

    /// Asks a peer something that is worth a sign of life.
    fn ask(&self, peer: ReplicaId, purpose: Purpose) {
        let Some(dialer) = self.dialer.clone() else {
            return;
        };
        let happenings = self.happenings.clone();
        spawn_local(async move {
            let asked = tunnel::ask(&dialer, peer, purpose).await;
            if asked.is_ok() && matches!(purpose, Purpose::Probe { .. }) {
                // Nobody listens any more once all is being stopped.
                let _ = happenings.send(Happening::Alive(peer));
            }
        });
    }
}

/// Answers a peer that asked; it may have given up meanwhile.
fn answer(mut connection: Connection, is_so: bool) {
    spawn_local(async move { tunnel::answer(&mut connection, is_so).await });
}

/// A way for servers to tell what happens to them.
pub(crate) fn server_events() -> (Events, mpsc::Receiver<ServerEvent>) {
    mpsc::channel(EVENTS_PER_TURN)
}
