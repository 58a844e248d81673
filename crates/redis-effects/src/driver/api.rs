//! What the driver is told, and what it asks for.

use crate::command::ServerVersion;
use crate::mutant::Mutant;
use crate::rdb::Rdb;
use crate::shared::StreamState;
use bytes::Bytes;
use quorate_core::ReplicaId;
use std::fmt;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// What a driver has to know beforehand.
#[derive(Clone)]
pub struct Config {
    /// The replica of the driver.
    pub me: ReplicaId,
    /// A number that no other process of this replica has or had.
    pub boot: u64,
    /// The version of its server.
    pub version: ServerVersion,
    /// The server's user for the driver.
    pub user: String,
    /// The password of that user.
    pub password: String,
    /// What the server says when it connects (`masterauth`).
    pub link_secret: String,
    /// The loopback port at which the server finds the driver.
    pub link_port: u16,
    /// How long an executor may answer no probe before others claim; longer where executors have changed often.
    pub claim_after_ns: u64,
    /// How long, where the link to the executor's replica is known to be down.
    pub claim_after_down_ns: u64,
    /// How much later each rank claims than the one before it.
    pub rank_step_ns: u64,
    /// How long a server may leave the driver without an answer.
    pub hang_max_ns: u64,
    /// Bytes of held answers, and of effects that are not accepted, beyond which no client is read.
    pub held_bytes_max: u64,
    /// Bytes of the stream since the last RDB beyond which the next is saved, or the RDB's own length if longer.
    pub history_bytes: u64,
    /// Bytes of one piece, at most.
    pub piece_bytes: u64,
    /// Bytes on their way to a following server, at most.
    pub link_window_bytes: u64,
    /// A rule that the driver breaks, so that tests can tell whether they would see it.
    pub mutant: Option<Mutant>,
}

impl Config {
    /// The defaults, for a replica and its server.
    #[must_use]
    pub fn new(me: ReplicaId, boot: u64, version: ServerVersion) -> Config {
        Config {
            me,
            boot,
            version,
            user: "quorate".to_owned(),
            password: String::new(),
            link_secret: String::new(),
            link_port: 0,
            claim_after_ns: 800 * MS,
            claim_after_down_ns: 150 * MS,
            rank_step_ns: 100 * MS,
            hang_max_ns: 30_000 * MS,
            held_bytes_max: 64 << 20,
            history_bytes: 64 << 20,
            piece_bytes: 1 << 20,
            link_window_bytes: 16 << 20,
            mutant: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("me", &self.me)
            .field("version", &self.version)
            .field("link_port", &self.link_port)
            .finish_non_exhaustive()
    }
}

/// The number of a server process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Life(pub u64);

/// A connection between driver and server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Conn {
    /// The driver's own commands, to the server's socket.
    Control,
    /// The executor's replication stream, from the server's socket.
    Tap,
    /// The stream to a following server, which connects to the driver's loopback port.
    Link,
}

/// What the driver is told.
#[derive(Clone)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The application changed what is shared.
    Shared,
    /// The server of this life takes connections.
    Started {
        /// The process that runs.
        life: Life,
    },
    /// The server of this life is dead, or could not be started.
    Died {
        /// The process that ended.
        life: Life,
        /// What is known of the cause.
        why: String,
    },
    /// A connection is open; a new link takes the place of the last one.
    Opened {
        /// The process that it leads to.
        life: Life,
        /// The connection to close.
        conn: Conn,
    },
    /// A connection ended, or could not be opened.
    Closed {
        /// The process that it led to.
        life: Life,
        /// The connection that ended.
        conn: Conn,
    },
    /// The server sent bytes.
    Bytes {
        /// The process that sent them.
        life: Life,
        /// The connection they came on.
        conn: Conn,
        /// What was sent.
        bytes: Bytes,
    },
    /// The kernel has taken more bytes of what was written to the link.
    Flushed {
        /// The process that the link leads to.
        life: Life,
        /// The number of bytes.
        bytes: u64,
    },
    /// The RDB that [`Output::CollectRdb`] asked for; `None` if there is none.
    RdbSaved {
        /// The process that saved it.
        life: Life,
        /// The file, taken away from the server.
        rdb: Option<Arc<dyn Rdb>>,
    },
    /// Answers were read from the connections of clients.
    Answers {
        /// The label of the newest batch: they count up from 1 in each epoch of the gate.
        total: u64,
        /// Bytes that are held now.
        held: u64,
    },
    /// Whether a client here waits for an executor or an answer.
    Waiting(bool),
    /// The executor's face has answered the last [`Output::Probe`].
    PeerAlive {
        /// The replica that answered.
        peer: ReplicaId,
    },
    /// Whether the link to a peer is known to be down.
    PeerDown {
        /// The replica at the other end.
        peer: ReplicaId,
        /// Whether its link is down.
        down: bool,
    },
    /// A peer asks whether this replica executes.
    Probed {
        /// What the reply is to carry.
        token: u64,
        /// The epoch that it asks about.
        epoch: u64,
    },
    /// The order of this replica among those that claim, and how many there are.
    Rank {
        /// 0 for the one that claims first.
        rank: u32,
        /// The number of replicas.
        replicas: u32,
    },
    /// What a submitted command came to; `None` if that is unknown, or it was not taken.
    Result {
        /// The command's token.
        token: u64,
        /// An encoded [`Outcome`](crate::Outcome).
        result: Option<Bytes>,
    },
    /// The answer of a quorum; `None` if there is none.
    ReadResult {
        /// The question's token.
        token: u64,
        /// The state of the stream.
        state: Option<StreamState>,
    },
    /// Another replica is to execute, if this one does.
    MoveTo(ReplicaId),
    /// The executor of an epoch has offered its office ([`Output::Offer`]), or nobody executes in it: this replica is
    /// to do so, as soon as its server follows.
    Offered {
        /// The epoch to claim over.
        epoch: u64,
    },
    /// An RDB is wanted that was taken at this offset or later.
    SaveWanted {
        /// The offset, which the stream has.
        offset: u64,
    },
    /// Behind [`Gate::Closed`]: no client has a connection to the server any more.
    ClientsClosed,
}

/// Whether clients here reach the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// Each client may have a connection to the server.
    Open {
        /// The epoch in which they are served.
        epoch: u64,
    },
    /// All of them end at once, and no answer that is held leaves.
    Closed,
}

/// What the driver asks for.
#[derive(Clone)]
pub enum Output {
    /// Kill what runs, and start a server with this RDB, as the driver's replica.
    Start {
        /// The number of the new process.
        life: Life,
        /// The RDB that it is to load.
        rdb: Arc<dyn Rdb>,
    },
    /// Kill the server.
    Kill {
        /// The process to end.
        life: Life,
    },
    /// Open a connection to the server's socket.
    Connect {
        /// The process to connect to.
        life: Life,
        /// The connection to open.
        conn: Conn,
    },
    /// Close a connection.
    Disconnect {
        /// The process that it leads to.
        life: Life,
        /// The connection to close.
        conn: Conn,
    },
    /// Send bytes to the server.
    Write {
        /// The process that is to have them.
        life: Life,
        /// The connection to send them on.
        conn: Conn,
        /// What to send.
        bytes: Bytes,
    },
    /// An RDB is complete: take it away from the server.
    CollectRdb {
        /// The process that saved it.
        life: Life,
    },
    /// Order a command.
    Submit {
        /// What the result is to carry.
        token: u64,
        /// The body of the command.
        body: Bytes,
    },
    /// Ask a quorum for the state of the stream.
    QuorumRead {
        /// What the answer is to carry.
        token: u64,
    },
    /// Whether clients here reach the server.
    Gate(Gate),
    /// Take no bytes of clients, or go on.
    Pause(bool),
    /// Answers may leave, in order.
    Release {
        /// The label of the newest batch that may.
        up_to: u64,
    },
    /// Where clients are to be served.
    Executor {
        /// The epoch, as of what was applied here.
        epoch: u64,
        /// The replica that executes in it.
        executor: Option<ReplicaId>,
    },
    /// Ask the face of a peer whether it executes.
    Probe {
        /// The replica to ask.
        peer: ReplicaId,
        /// The epoch in which it is said to execute.
        epoch: u64,
    },
    /// Tell a peer's driver that it may claim ([`Input::Offered`]): nothing is under way here. It is told again for as
    /// long as it does not, so that an offer may be lost.
    Offer {
        /// The replica that is to execute.
        peer: ReplicaId,
        /// The epoch to claim over.
        epoch: u64,
    },
    /// Answer a probe.
    ProbeReply {
        /// The probe's token.
        token: u64,
        /// Whether this replica executes in that epoch.
        alive: bool,
    },
    /// Something for the log.
    Note(Note),
    /// The driver cannot go on: its replica needs a person.
    Fail(String),
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// Clients are served here.
    Serving {
        /// The epoch of this executor.
        epoch: u64,
    },
    /// Another replica executes, or this one has given up.
    Deposed {
        /// The epoch that ended.
        epoch: u64,
        /// Bytes that the server had and nobody accepted; `None` if it could not be asked.
        tail: Option<u64>,
    },
    /// A server is started from an RDB.
    Reload {
        /// The offset of the RDB.
        offset: u64,
        /// What made it necessary.
        why: String,
    },
    /// An RDB took the place of the last one.
    Saved {
        /// The offset of the RDB.
        offset: u64,
    },
    /// Clients are served here on, for a replica that was to execute did not claim in time.
    MoveGivenUp {
        /// The replica that was to execute.
        target: ReplicaId,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Serving { epoch } => write!(f, "clients are served here, in epoch {epoch}"),
            Note::Deposed {
                epoch,
                tail: Some(tail),
            } => {
                write!(
                    f,
                    "epoch {epoch} ended, {tail} bytes of it were never ordered"
                )
            }
            Note::Deposed { epoch, tail: None } => write!(f, "epoch {epoch} ended"),
            Note::Reload { offset, why } => {
                write!(
                    f,
                    "a server is started from the RDB at offset {offset}: {why}"
                )
            }
            Note::Saved { offset } => write!(f, "an RDB was saved at offset {offset}"),
            Note::MoveGivenUp { target } => write!(
                f,
                "replica {target} was to execute and did not claim in time: clients are served here on"
            ),
        }
    }
}

/// What a replica does at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// The server has not asked for the stream yet.
    #[default]
    Loading,
    /// The server follows the stream.
    Following,
    /// The own claim was accepted, and clients are not let in yet.
    TakingOffice,
    /// Clients are served here.
    Executing,
    /// Another one executes, and its server is not following yet.
    Leaving,
    /// The replica needs a person.
    Failed,
}

impl Role {
    /// The role in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Loading => "loading",
            Role::Following => "following",
            Role::TakingOffice => "taking-office",
            Role::Executing => "executing",
            Role::Leaving => "leaving",
            Role::Failed => "failed",
        }
    }
}

/// A driver as operators see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// What the replica does.
    pub role: Role,
    /// The stream, as of what was applied here.
    pub stream: StreamState,
    /// The offset that the server told last.
    pub server_offset: u64,
    /// At the executor, the offset up to which effects were received.
    pub tapped: u64,
    /// Bytes of answers that are held.
    pub held: u64,
    /// The offset of the newest RDB.
    pub rdb_offset: u64,
    /// Bytes of the stream since the newest RDB.
    pub history_bytes: u64,
    /// Processes that ended by themselves.
    pub deaths: u64,
}
