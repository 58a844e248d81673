//! Stretches of load: all clients of a round run while something is done to the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use quorate_load::load::gaps::{self, Gap};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::client::Client;
use super::session::{AcknowledgedChange, Session};

/// A stretch of load, as its clients see it.
#[derive(Debug)]
pub(super) struct Stage {
    started: Instant,
    over: AtomicBool,
    /// While set, half of all operations are on shared keys: around a fault.
    hot: AtomicBool,
    /// Operations on shared keys still allowed in bursts, which bounds what the checker has to do.
    budget: AtomicU64,
}

/// The clients of a round.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) session: Arc<Session>,
    pub(super) clients: Vec<Client>,
}

/// Clients while they run.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) stage: Arc<Stage>,
    tasks: Vec<JoinHandle<Client>>,
}

/// When a stretch of load began and ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

impl Load<'_> {
    /// Lets all clients run.
    pub(super) fn begin(&mut self) -> Running {
        let stage = Arc::new(Stage::new());
        let start = |client: Client| {
            let running = client.run(Arc::clone(&self.session), Arc::clone(&stage));
            self.runtime.spawn(running)
        };
        let tasks = self.clients.drain(..).map(start).collect();
        Running { stage, tasks }
    }

    /// Ends a stretch of load, and waits for what is under way.
    pub(super) fn end(&mut self, running: Running) -> Result<Span, String> {
        running.stage.over.store(true, SeqCst);
        let ended = Instant::now();
        for task in running.tasks {
            // Bounded by the timeouts of operation and connection.
            let client = self.runtime.block_on(task);
            self.clients
                .push(client.map_err(|error| format!("a client failed: {error}"))?);
        }
        Ok(Span {
            started: running.stage.started,
            ended,
        })
    }
}

impl Span {
    /// How long the stretch took.
    pub(super) fn length(&self) -> Duration {
        self.ended - self.started
    }

    /// The longest time in it without any of these changes.
    pub(super) fn gap<'a>(&self, changes: impl Iterator<Item = &'a AcknowledgedChange>) -> Gap {
        let in_time = changes.filter(|change| change.at <= self.ended);
        let times = in_time.map(|change| (change.at - self.started).as_nanos() as u64);
        gaps::longest(times.collect(), self.length().as_nanos() as u64)
    }
}

impl Stage {
    fn new() -> Stage {
        Stage {
            started: Instant::now(),
            over: AtomicBool::new(false),
            hot: AtomicBool::new(false),
            budget: AtomicU64::new(BUDGET),
        }
    }

    /// When the stretch began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Says whether a fault is near.
    pub(super) fn set_hot(&self, hot: bool) {
        self.hot.store(hot, SeqCst);
    }

    /// Whether clients are to stop.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Whether the next operation of a client is on a shared key, where that is asked for in bursts. Bursts come at
    /// the same moments for all clients, and leave enough of the budget for those around a fault.
    pub(super) fn shares(&self, random: &mut fastrand::Rng) -> bool {
        let burst = self.started.elapsed().as_millis() % BURST_EVERY_MS < BURST_MS;
        let reserve = match self.hot.load(SeqCst) {
            true if random.bool() => 0,
            false if burst => RESERVE,
            _ => return false,
        };
        let spend = |left: u64| (left > reserve).then(|| left - 1);
        self.budget.fetch_update(SeqCst, SeqCst, spend).is_ok()
    }
}

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Lets load run until a moment.
pub(super) fn wait_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

const BUDGET: u64 = 16_000;
const RESERVE: u64 = 8_000;
const BURST_EVERY_MS: u128 = 100;
const BURST_MS: u128 = 10;
