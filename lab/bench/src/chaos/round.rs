//! One round: load, faults in the middle of it, recovery, and every check.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use quorate_etcd_api::etcdserverpb::RangeRequest;
use quorate_sim::judge::{self, Request, Response};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::args::ChaosArgs;
use super::client::{Client, one};
use super::fault::Planned;
use super::history::{Session, Told};
use super::hurt::Hurt;
use super::lease::{Keeper, Kept, LEASED};
use super::order::Order;
use super::replicas::Replicas;
use super::report::RoundReport;
use super::watch::Watcher;
use crate::rounds::converged;
use quorate_load::load::gaps;
use quorate_load::relay::Network;

/// What all rounds share.
pub(super) struct Field<'a> {
    pub(super) args: &'a ChaosArgs,
    pub(super) runtime: &'a Runtime,
    pub(super) network: &'a Network,
    pub(super) replicas: &'a mut Replicas,
}

/// A round in progress.
pub(super) struct Round<'a, 'b> {
    field: &'b mut Field<'a>,
    session: Arc<Session>,
    planned: Vec<Planned>,
    seed: u64,
    /// The store's revision when it began.
    begin: i64,
    watchers: Vec<JoinHandle<Watcher>>,
    stop_watching: watch::Sender<bool>,
    kept: Vec<Kept>,
    pub(super) report: RoundReport,
}

impl<'a, 'b> Round<'a, 'b> {
    pub(super) fn new(
        field: &'b mut Field<'a>,
        number: u16,
        seed: u64,
        planned: Vec<Planned>,
    ) -> Round<'a, 'b> {
        let count = field.replicas.count();
        let lives = (0..count).map(|replica| field.replicas.life(replica));
        let endpoints = &field.replicas.endpoints;
        let session = Session::new(seed, endpoints, lives.collect(), field.args.timeout);
        Round {
            session: Arc::new(session),
            report: RoundReport::new(number, seed, &planned),
            planned,
            seed,
            begin: 0,
            watchers: Vec::new(),
            stop_watching: watch::Sender::new(false),
            kept: Vec::new(),
            field,
        }
    }

    /// Runs the round. What is wrong is in the report.
    pub(super) fn run(&mut self) {
        if let Err(why) = self.stages() {
            self.report.violations.push(why);
        }
        self.stop_watching.send_replace(true);
    }

    fn stages(&mut self) -> Result<(), String> {
        self.begin = self.revision()?;
        self.watch()?;
        self.load()?;
        let last = self.settle()?;
        self.judge(last)
    }

    /// A client that asks for what the round itself wants to know.
    fn own_client(&self, replica: usize) -> Result<Client, String> {
        let id = OWN_CLIENTS * self.session.replicas() + replica;
        Client::new(id, &self.session, self.seed, self.begin)
    }

    /// The store's revision now.
    fn revision(&self) -> Result<i64, String> {
        let urls = &self.field.replicas.endpoints;
        let patience = self.field.args.patience;
        let (state, _) = self.field.runtime.block_on(converged(urls, patience))?;
        Ok(state.revision)
    }

    fn watch(&mut self) -> Result<(), String> {
        for replica in 0..self.session.replicas() {
            let watcher = Watcher::new(replica, &self.session, self.begin + 1)?;
            self.report.reached.push(watcher.reached());
            let stop = self.stop_watching.subscribe();
            let watching = self.field.runtime.spawn(watcher.run(stop));
            self.watchers.push(watching);
        }
        Ok(())
    }

    /// Lets all clients run while faults come and go.
    fn load(&mut self) -> Result<(), String> {
        let runtime = self.field.runtime;
        let mut clients = Vec::new();
        for id in 0..self.field.args.clients as usize {
            let client = Client::new(id, &self.session, self.seed, self.begin)?;
            clients.push(runtime.spawn(client.run()));
        }
        let mut keepers = Vec::new();
        for id in 0..self.session.replicas() {
            let id = KEEPERS * self.session.replicas() + id;
            let keeper = Keeper::new(id, &self.session, self.seed)?;
            keepers.push(runtime.spawn(keeper.run()));
        }
        let started = Instant::now();
        let result = self.hurt(started);
        self.session.end();
        let ended = Instant::now();
        // Bounded by the timeouts of requests.
        for client in clients {
            let ran = runtime.block_on(client);
            ran.map_err(|error| format!("a client failed: {error}"))?;
        }
        for keeper in keepers {
            let ran = runtime.block_on(keeper);
            let keeper = ran.map_err(|error| format!("a client failed: {error}"))?;
            self.kept.extend(keeper.kept);
        }
        self.report.load = Some((started, ended));
        result
    }

    /// Does all faults in their time, and has everything work again.
    fn hurt(&mut self, started: Instant) -> Result<(), String> {
        let field = &mut *self.field;
        let mut hurt = Hurt::new(field.replicas, field.network, field.runtime, &self.session);
        let mut moments: Vec<(Duration, bool, Planned)> = Vec::new();
        for planned in &self.planned {
            moments.push((planned.from, true, *planned));
            moments.push((planned.to, false, *planned));
        }
        moments.sort_by_key(|(at, ..)| *at);
        let mut under_way: Vec<Planned> = Vec::new();
        let mut result = Ok(());
        for (at, begins, planned) in moments {
            while started.elapsed() < at {
                let left = at.saturating_sub(started.elapsed());
                std::thread::sleep(left.min(STEP));
                under_way.iter().for_each(|planned| hurt.go_on(planned));
            }
            let done = match begins {
                true => hurt.begin(&planned),
                false => hurt.end(&planned),
            };
            match begins {
                true => under_way.push(planned),
                false => under_way.retain(|other| *other != planned),
            }
            result = result.and(done);
        }
        let healed = Instant::now();
        let result = result.and_then(|()| hurt.recover());
        self.report.notes.append(&mut hurt.notes);
        self.report.serves_ms = Some(ms(healed.elapsed()));
        let rest = (started + field.args.load_seconds).saturating_duration_since(Instant::now());
        std::thread::sleep(rest);
        result
    }

    /// Waits until nothing changes any more, all replicas have the same, and every watcher knows.
    /// Gives the last revision.
    fn settle(&mut self) -> Result<i64, String> {
        self.wait_for_leases()?;
        let urls = &self.field.replicas.endpoints;
        let patience = self.field.args.patience;
        let put = Request::Put(quorate_etcd_api::etcdserverpb::PutRequest {
            key: self.session.key("last"),
            value: self.session.value(format!("last-{}", self.seed)),
            ..Default::default()
        });
        let mut client = self.own_client(0)?;
        let runtime = self.field.runtime;
        let last = match runtime.block_on(client.ask(put)) {
            Some(Response::Put(answer)) => answer.header.map_or(0, |header| header.revision),
            _ => return Err("the healed cluster does not take a put".to_owned()),
        };
        let (state, took) = runtime.block_on(converged(urls, patience))?;
        self.report.equal_ms = Some(ms(took));
        self.report.revision = state.revision;
        self.report.hash = state.hash;
        let deadline = Instant::now() + patience;
        for (replica, reached) in self.report.reached.iter().enumerate() {
            while reached.load(SeqCst) < last {
                if Instant::now() > deadline {
                    return Err(format!(
                        "the watch through replica {} was told of revisions up to {} only, not of \
                         {last}",
                        replica + 1,
                        reached.load(SeqCst)
                    ));
                }
                std::thread::sleep(STEP);
            }
        }
        self.read_all()?;
        Ok(state.revision)
    }

    /// Leases that nobody renews any more must end, and take their keys with them.
    fn wait_for_leases(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.field.args.patience;
        let (key, range_end) = self.session.range(LEASED);
        let mut client = self.own_client(0)?;
        loop {
            let request = Request::Range(RangeRequest {
                range_end: range_end.clone(),
                limit: 1,
                ..one(key.clone())
            });
            let left = match self.field.runtime.block_on(client.ask(request)) {
                Some(Response::Range(range)) if range.kvs.is_empty() => return Ok(()),
                Some(Response::Range(range)) => format!("{} keys with leases", range.count),
                _ => "no answer".to_owned(),
            };
            if Instant::now() > deadline {
                return Err(format!("leases did not end in time: there are {left}"));
            }
            std::thread::sleep(STEP * 5);
        }
    }

    /// Reads all keys of the round through every replica, into the history.
    fn read_all(&self) -> Result<(), String> {
        let (key, range_end) = self.session.range("");
        for replica in 0..self.session.replicas() {
            let mut client = self.own_client(replica)?;
            for serializable in [false, true] {
                let request = Request::Range(RangeRequest {
                    range_end: range_end.clone(),
                    serializable,
                    ..one(key.clone())
                });
                let answer = self.field.runtime.block_on(client.ask(request));
                if answer.is_none() {
                    return Err(format!("replica {} does not answer a read", replica + 1));
                }
            }
        }
        Ok(())
    }

    /// Holds everything that was told against the order that replicas say they executed.
    fn judge(&mut self, last: i64) -> Result<(), String> {
        self.stop_watching.send_replace(true);
        let runtime = self.field.runtime;
        let mut watchers = Vec::new();
        for watching in self.watchers.drain(..) {
            let ran = runtime.block_on(watching);
            watchers.push(ran.map_err(|error| format!("a watcher failed: {error}"))?);
        }
        let mut told = self.session.take();
        self.note(&mut told, &watchers);
        let mut order = self.order(last)?;
        self.report.slots = order.len() as u64;
        self.report.violations.append(&mut order.violations);
        let prefix = self.session.key("");
        let journal = order.journal(&prefix, self.begin + 1, &told.values)?;
        let judged = judge::check(&told.history, &journal);
        let summary = judged.map_err(|why| format!("the clients' history: {why}"))?;
        self.report.unknown_done = summary.unknown_done;
        self.report.leases_ended = summary.leases_ended;
        for watcher in &watchers {
            watcher.check(&journal, last)?;
        }
        self.check_leases(&watchers)
    }

    /// The order that the replicas tell, up to a revision at least. They write notes of decisions a
    /// little later than they answer, and may be tidying up while they are copied.
    fn order(&self, last: i64) -> Result<Order, String> {
        let deadline = Instant::now() + self.field.args.patience;
        loop {
            let exported = self.exported();
            match exported {
                Ok(order) if order.last() >= last => return Ok(order),
                Err(why) if Instant::now() > deadline => return Err(why),
                Ok(order) if Instant::now() > deadline => {
                    let told = order.last();
                    return Err(format!(
                        "the exports end with revision {told}, before {last}"
                    ));
                }
                _ => std::thread::sleep(STEP),
            }
        }
    }

    fn exported(&self) -> Result<Order, String> {
        let mut order = Order::default();
        for replica in 0..self.session.replicas() {
            order.add(replica, &self.field.replicas.export(replica)?)?;
        }
        Ok(order)
    }

    fn note(&mut self, told: &mut Told, watchers: &[Watcher]) {
        let history = &told.history;
        let answered = history.iter().filter(|op| op.returned.is_some()).count();
        self.report.answered = answered as u64;
        self.report.unknown = (history.len() - answered) as u64;
        self.report.changed = told.changed.len() as u64;
        self.report.events = watchers.iter().map(Watcher::told).sum();
        self.report.errors = std::mem::take(&mut told.errors);
        if let Some((started, ended)) = self.report.load {
            let within = told.changed.iter().filter(|at| **at <= ended);
            let times = within.map(|at| (*at - started).as_nanos() as u64).collect();
            let gap = gaps::longest(times, (ended - started).as_nanos() as u64);
            self.report.gap_ms = gap.longest_ns as f64 / 1e6;
        }
    }

    /// No lease may end before its time.
    fn check_leases(&self, watchers: &[Watcher]) -> Result<(), String> {
        for kept in &self.kept {
            for watcher in watchers {
                if let Some(at) = watcher.deleted(&kept.key)
                    && at < kept.until
                {
                    return Err(format!(
                        "replica {}: {} was gone {:?} before its lease could have ended",
                        watcher.replica + 1,
                        String::from_utf8_lossy(&kept.key),
                        kept.until - at
                    ));
                }
            }
        }
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const STEP: Duration = Duration::from_millis(20);
/// Numbers of clients that are not among those of the load, in multiples of the replicas.
const KEEPERS: usize = 1_000;
const OWN_CLIENTS: usize = 10_000;
