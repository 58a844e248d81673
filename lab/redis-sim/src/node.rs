//! A replica: its driver, its part of the stream, and its server.

use crate::fake::{Fake, Socket};
use crate::log::Ordered;
use crate::options::Options;
use bytes::Bytes;
use quorate_core::{Application, At, ReplicaId};
use quorate_redis_effects::{
    Config, Driver, Flavour, Life, MemoryFiles, ServerVersion, Shared, Stream,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of a piece of a snapshot.
const PIECE_BYTES: usize = 4096;

/// An answer that waits for its proof.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) label: u64,
    pub(crate) client: u64,
    pub(crate) bytes: Bytes,
}

/// A replica and its server.
pub(crate) struct Node {
    pub(crate) index: usize,
    config: Config,
    /// Counts up with each start.
    pub(crate) life: u64,
    pub(crate) is_up: bool,
    /// Whether the group counts on it.
    pub(crate) is_member: bool,
    pub(crate) driver: Driver,
    pub(crate) stream: Stream,
    pub(crate) applied: usize,
    pub(crate) is_applying: bool,
    /// How many times slower it applies than others.
    pub(crate) slowness: u64,
    /// When it goes on to apply.
    pub(crate) applies_after_ns: u64,
    pub(crate) server: Option<Fake>,
    pub(crate) server_life: Life,
    pub(crate) asked_life: Life,
    pub(crate) skew_ms: i64,
    pub(crate) hangs_until_ns: u64,
    pub(crate) frozen_until_ns: u64,
    /// The epoch for which clients reach the server.
    pub(crate) gate: Option<u64>,
    /// The last epoch for which they did.
    pub(crate) opened: Option<u64>,
    pub(crate) is_paused: bool,
    pub(crate) executor: Option<(u64, usize)>,
    pub(crate) label: u64,
    pub(crate) held: VecDeque<Held>,
    /// The newest snapshot, and how much of the log is in it.
    pub(crate) snapshot: Option<(usize, Vec<Bytes>, u64)>,
    /// Bytes that the server has not read.
    pub(crate) unread: VecDeque<(Life, Socket, Bytes)>,
    lanes: BTreeMap<(Socket, bool), u64>,
}

impl Node {
    pub(crate) fn new(index: usize, options: &Options, chance: u64) -> Node {
        let version = ServerVersion {
            flavour: Flavour::Redis,
            number: (7, 0, 15),
        };
        let mut config = Config::new(ReplicaId(index as u16 + 1), 1, version);
        config.link_secret = "secret".to_owned();
        config.password = "password".to_owned();
        config.history_bytes = 2000;
        config.piece_bytes = 200;
        config.link_window_bytes = 4096;
        config.hang_max_ns = 3_000_000_000;
        config.mutant = options.mutant;
        let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
        Node {
            index,
            driver: Driver::new(config.clone(), Arc::clone(&shared)),
            config,
            life: 1,
            is_up: true,
            is_member: true,
            stream: Stream::broken(shared, options.mutant),
            applied: 0,
            is_applying: false,
            slowness: 1,
            applies_after_ns: 0,
            server: None,
            server_life: Life::default(),
            asked_life: Life::default(),
            // A day, either way.
            skew_ms: (chance % 172_800_000) as i64 - 86_400_000,
            hangs_until_ns: 0,
            frozen_until_ns: 0,
            gate: None,
            opened: None,
            is_paused: false,
            executor: None,
            label: 0,
            held: VecDeque::new(),
            snapshot: None,
            unread: VecDeque::new(),
            lanes: BTreeMap::new(),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let server = self.server.as_ref().map(Fake::standing);
        format!("{} {:?} {server:?}", self.applied, self.driver)
    }

    pub(crate) fn kill_server(&mut self) {
        self.server = None;
        self.server_life = Life::default();
        self.lanes.clear();
        self.unread.clear();
    }

    /// When bytes of a server arrive: in order on each connection.
    pub(crate) fn lane(&mut self, socket: Socket, now_ns: u64, draw_ns: u64) -> u64 {
        lane(&mut self.lanes, (socket, false), now_ns + draw_ns)
    }

    /// When bytes for a server arrive: in order on each connection.
    pub(crate) fn lane_in(&mut self, socket: Socket, now_ns: u64, draw_ns: u64) -> u64 {
        lane(&mut self.lanes, (socket, true), now_ns + draw_ns)
    }

    /// Attempts commands that may come next, and takes them back.
    pub(crate) fn attempt_in_vain(&mut self, rng: &mut fastrand::Rng, entries: &[Ordered]) {
        if rng.u8(..) > 40 {
            return;
        }
        let ahead = rng.usize(1..3);
        for _ in 0..ahead {
            let at = rng.usize(self.applied..entries.len());
            let _ = self.stream.attempt(At::default(), &entries[at].body);
        }
        for _ in 0..ahead {
            self.stream.retract();
        }
    }

    /// A snapshot of its state, in pieces.
    pub(crate) fn cut(&mut self) {
        let mut cut = self.stream.cut();
        let digest = self.stream.cut_digest(&cut).unwrap_or(0);
        let mut pieces = Vec::new();
        while let Some(piece) = self.stream.piece(&mut cut, PIECE_BYTES) {
            pieces.push(piece);
        }
        self.snapshot = Some((self.applied, pieces, digest));
    }

    /// A snapshot takes the place of its state.
    pub(crate) fn install(&mut self, applied: usize, pieces: &[Bytes]) -> Result<(), String> {
        let mut stream = self.stream.empty();
        for piece in pieces {
            stream.load(piece.clone())?;
        }
        stream.loaded()?;
        stream.installed();
        self.stream = stream;
        self.applied = applied;
        Ok(())
    }

    /// The replica starts anew: nothing is left but its snapshot.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.begin(Shared::new(Arc::new(MemoryFiles), Box::new(|| {})));
        match self.snapshot.clone() {
            Some((applied, pieces, _)) => self.install(applied, &pieces),
            None => Ok(()),
        }
    }

    /// The process of the replica starts.
    pub(crate) fn begin(&mut self, shared: Arc<Shared>) {
        self.kill_server();
        self.life += 1;
        self.is_up = true;
        self.is_applying = false;
        self.gate = None;
        self.is_paused = false;
        self.executor = None;
        self.held.clear();
        self.applied = 0;
        self.asked_life = Life::default();
        self.frozen_until_ns = 0;
        self.config.boot = self.life;
        self.driver = Driver::new(self.config.clone(), Arc::clone(&shared));
        self.stream = Stream::broken(shared, self.config.mutant);
    }
}

fn lane(lanes: &mut BTreeMap<(Socket, bool), u64>, which: (Socket, bool), at_ns: u64) -> u64 {
    let last_ns = lanes.entry(which).or_insert(0);
    *last_ns = at_ns.max(*last_ns + 1);
    *last_ns
}
