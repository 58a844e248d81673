//! The driver of one server: a state machine without input or output of its own.
//!
//! It keeps one server process in one of two roles. *Following*, the server is a replica of the driver: it gets the
//! stream as it is accepted (`link`). *Executing*, it is a master to which clients speak, and what it would send to a
//! replica comes to the driver (`office`, `rounds`). Between the two stands a claim in the log (`demand`).
//!
//! What must hold, beside what the [`Stream`](crate::Stream) sees to (V1, V5):
//!
//! - V2: a server that is fed has an offset of at most `len`, and at an offset the state of the stream before it. It is
//!   fed from the history of accepted units only, and a process is believed to be at an offset only if this driver
//!   started it from an RDB of that offset, fed it up to there, or saw it stand exactly there when it was deposed.
//! - V3: no byte of an answer leaves before its proof: a command that was submitted behind the barrier was accepted in
//!   the own epoch, and all effects before the barrier were.
//! - V4: the gate opens once per epoch, and not before the server stood at the length at which the epoch began.
//! - V6: after a deposition the server stood exactly at the length at which its epoch ended, or it is replaced.
//! - V7: an RDB is used only if the stream got as far in the epoch in which it was saved.
//! - V9: nothing reaches a server that this driver did not have started: events of other lives are ignored.

mod api;
mod control;
mod demand;
mod link;
mod office;
mod resp;
mod rounds;
mod saving;
mod server;

pub use api::{Config, Conn, Gate, Input, Life, Note, Output, Role, Status};

use crate::rdb::Rdb;
use crate::shared::{Claimed, Shared, StreamState};
use bytes::Bytes;
use control::Control;
use demand::Demand;
use link::Link;
use office::Office;
use saving::Saving;
use server::Server;
use std::collections::VecDeque;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// How often a driver looks at what has no event of its own.
const TICK_NS: u64 = 5 * MS;

/// The driver of one server.
pub struct Driver {
    config: Config,
    shared: Arc<Shared>,
    now_ns: u64,
    out: VecDeque<Output>,
    /// The stream, as of the last look at what is shared.
    stream: StreamState,
    installs: u64,
    server: Server,
    control: Control,
    link: Link,
    office: Office,
    demand: Demand,
    saving: Saving,
    next_token: u64,
    failed: bool,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("status", &self.status())
            .field("office", &self.office)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver whose server is to be started: what for is asked at the first input.
    #[must_use]
    pub fn new(config: Config, shared: Arc<Shared>) -> Driver {
        let stream = shared.state();
        Driver {
            config,
            shared,
            now_ns: 0,
            out: VecDeque::new(),
            stream,
            installs: 0,
            server: Server::default(),
            control: Control::default(),
            link: Link::default(),
            office: Office::default(),
            demand: Demand::default(),
            saving: Saving::default(),
            next_token: 1,
            failed: false,
        }
    }

    /// Takes an input, at a monotone time.
    pub fn input(&mut self, now_ns: u64, input: Input) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.failed {
            if let Input::Probed { token, .. } = input {
                let alive = false;
                self.out.push_back(Output::ProbeReply { token, alive });
            }
            return;
        }
        if self.server.life == Life::default() {
            self.look();
            // An executor that was known before the driver began is no change, and clients are to find it.
            self.tell_of_executor();
            self.reload("it begins");
        }
        self.take(input);
        self.look();
        self.advance();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick | Input::Shared => {}
            Input::Started { life } if self.is_life(life) => self.started(),
            Input::Died { life, why } if self.is_life(life) => self.died(&why),
            Input::Opened { life, conn } if self.is_life(life) => self.opened(conn),
            Input::Closed { life, conn } if self.is_life(life) => self.closed(conn),
            Input::Bytes { life, conn, bytes } if self.is_life(life) => self.received(conn, bytes),
            Input::Flushed { life, bytes } if self.is_life(life) => self.link.flushed(bytes),
            Input::RdbSaved { life, rdb } if self.is_life(life) => self.rdb_saved(rdb),
            Input::Answers { total, held } => self.answers(total, held),
            Input::Waiting(waiting) => self.demand.wait(waiting, self.now_ns),
            Input::PeerAlive { peer } => self.demand.alive(peer, self.stream.executor, self.now_ns),
            Input::PeerDown { peer, down } => self.demand.note_down(peer, down),
            Input::Probed { token, epoch } => self.probed(token, epoch),
            Input::Rank { rank, replicas } => {
                self.demand.rank = rank;
                self.saving.set_place(rank, replicas);
            }
            Input::Result { token, result } => self.result(token, result),
            Input::ReadResult { token, state } => self.read_result(token, state),
            Input::MoveTo(target) => self.move_to(target),
            Input::Offered { epoch } => self.offered(epoch),
            Input::ClientsClosed => self.clients_closed(),
            Input::SaveWanted { offset } => self.saving.want(offset),
            // Of a process that is replaced.
            Input::Started { .. }
            | Input::Died { .. }
            | Input::Opened { .. }
            | Input::Closed { .. }
            | Input::Bytes { .. }
            | Input::Flushed { .. }
            | Input::RdbSaved { .. } => {}
        }
    }

    /// The next thing to do, in order.
    pub fn output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When the driver wants an [`Input::Tick`], if nothing else comes.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let is_idle = self.is_following()
            && !self.demand.is_waiting()
            && !self.demand.is_offered()
            && self.control.is_quiet()
            && self.has_caught_up()
            && !self.saving.is_under_way()
            && !self.is_save_wanted();
        match is_idle {
            _ if self.failed => None,
            true => self.watch_ns(),
            false => Some(self.now_ns + TICK_NS),
        }
    }

    /// The driver as operators see it.
    #[must_use]
    pub fn status(&self) -> Status {
        let inner = self.shared.lock();
        let (tapped, held) = self.office.tapped_and_held();
        Status {
            role: self.role(),
            stream: inner.state,
            server_offset: self.server.offset,
            tapped,
            held,
            rdb_offset: inner.base.offset,
            history_bytes: inner.history.bytes(),
            deaths: self.server.deaths_total,
        }
    }

    /// The newest RDB, and the offset at which it was taken.
    #[must_use]
    pub fn newest_rdb(&self) -> (u64, Arc<dyn Rdb>) {
        let base = self.shared.lock().base.clone();
        (base.offset, base.rdb)
    }

    fn role(&self) -> Role {
        match &self.office {
            _ if self.failed => Role::Failed,
            Office::Executing(_) => Role::Executing,
            Office::Taking(_) => Role::TakingOffice,
            Office::Leaving(_) => Role::Leaving,
            Office::None if self.link.is_streaming() => Role::Following,
            Office::None => Role::Loading,
        }
    }

    fn is_life(&self, life: Life) -> bool {
        life == self.server.life
    }

    fn is_following(&self) -> bool {
        matches!(self.office, Office::None) && self.link.is_streaming()
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn note(&mut self, note: Note) {
        self.out.push_back(Output::Note(note));
    }

    fn write(&mut self, conn: Conn, bytes: Bytes) {
        let life = self.server.life;
        self.out.push_back(Output::Write { life, conn, bytes });
    }

    /// Takes over what the application did since the last look.
    fn look(&mut self) {
        let mut inner = self.shared.lock();
        let claims: Vec<Claimed> = inner.claims.drain(..).collect();
        let state = inner.state;
        let was_installed = std::mem::replace(&mut self.installs, inner.installs) != inner.installs;
        drop(inner);
        for claim in claims {
            self.saw_claim(claim);
        }
        if was_installed {
            self.saw_install();
        }
        let was_importing = self.stream.import.is_some();
        if state.epoch != self.stream.epoch || state.executor != self.stream.executor {
            let over = self.stream.executor;
            self.stream = state;
            self.tell_of_executor();
            self.saw_epoch(over.filter(|executor| state.executor != Some(*executor)));
        }
        self.stream = state;
        if was_importing && state.import.is_none() && state.executor.is_none() {
            self.saw_cutover();
        }
    }

    /// Says where clients are to be served, as of the last look.
    fn tell_of_executor(&mut self) {
        let StreamState {
            epoch, executor, ..
        } = self.stream;
        self.out.push_back(Output::Executor { epoch, executor });
    }

    /// Does whatever can be done now.
    fn advance(&mut self) {
        self.adopt_rdb();
        self.advance_server();
        self.advance_control();
        self.advance_office();
        self.feed();
        self.advance_saving();
        self.advance_demand();
        self.look_for_hang();
    }

    fn opened(&mut self, conn: Conn) {
        match conn {
            Conn::Control => self.control_opened(),
            Conn::Tap => self.tap_opened(),
            Conn::Link => self.link.open(),
        }
    }

    fn closed(&mut self, conn: Conn) {
        match conn {
            Conn::Control => self.control_closed(),
            Conn::Tap => self.tap_closed(),
            Conn::Link => self.link.close(),
        }
    }

    fn received(&mut self, conn: Conn, bytes: Bytes) {
        match conn {
            Conn::Control => self.control_received(&bytes),
            Conn::Tap => self.tap_received(&bytes),
            Conn::Link => self.link_received(&bytes),
        }
    }
}
