//! One round: load, faults in the middle of it, recovery, and every check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_sim::judge::{self, Request, Response, Returned};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::COMMAND;
use super::args::ChaosArgs;
use super::fault::Planned;
use super::hurt::Hurt;
use super::lease::{Keeper, Kept, LEASED};
use super::order::Order;
use super::replicas::Replicas;
use super::report::Report;
use super::watch::Watcher;
use crate::faults::client::{Client, Workload};
use crate::faults::series::Turn;
use crate::faults::session::{Session, Told};
use crate::faults::stage::{Load, Span, Stage, ms, wait_until};
use crate::faults::state::{Converged, converged};
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
    /// The store's revision when it began.
    begin: i64,
    watchers: Vec<JoinHandle<Watcher>>,
    /// The last revision that each watcher was told of.
    reached: Vec<Arc<AtomicI64>>,
    stop_watching: watch::Sender<bool>,
    kept: Vec<Kept>,
    pub(super) report: Report,
}

impl<'a, 'b> Round<'a, 'b> {
    pub(super) fn new(field: &'b mut Field<'a>, turn: Turn<Vec<Planned>>) -> Round<'a, 'b> {
        let count = field.replicas.count();
        let lives = (0..count).map(|replica| field.replicas.life(replica));
        let endpoints = &field.replicas.endpoints;
        let timeout = field.args.faults.timeout;
        let session = Session::new(COMMAND, turn.seed, VALUE_BYTES, endpoints, timeout);
        Round {
            session: Arc::new(session.with_lives(lives.collect())),
            report: Report {
                round: turn.number,
                seed: turn.seed,
                faults: turn.plan.clone(),
                ..Report::default()
            },
            planned: turn.plan,
            begin: 0,
            watchers: Vec::new(),
            reached: Vec::new(),
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
        self.begin = self.converge()?.state.revision;
        self.watch()?;
        let span = self.load()?;
        let last = self.quiesce()?;
        self.judge(last, span)
    }

    /// Waits until all replicas have the same.
    fn converge(&self) -> Result<Converged, String> {
        let urls = &self.field.replicas.endpoints;
        let patience = self.field.args.faults.patience;
        self.field.runtime.block_on(converged(urls, patience))
    }

    fn watch(&mut self) -> Result<(), String> {
        for replica in 0..self.field.replicas.count() {
            let watcher = Watcher::new(replica, &self.session, self.begin + 1)?;
            self.reached.push(watcher.reached());
            let stop = self.stop_watching.subscribe();
            let watching = self.field.runtime.spawn(watcher.run(stop));
            self.watchers.push(watching);
        }
        Ok(())
    }

    /// Lets all clients run while faults come and go.
    fn load(&mut self) -> Result<Span, String> {
        let runtime = self.field.runtime;
        let workload = Workload::Mixed { begin: self.begin };
        let mut load = Load {
            runtime,
            session: Arc::clone(&self.session),
            clients: Client::all(&self.session, self.field.args.clients, workload)?,
        };
        let running = load.begin();
        let keepers = self.keep_leases(&running.stage)?;
        let result = self.hurt(running.stage.started());
        let span = load.end(running)?;
        for keeper in keepers {
            let ran = runtime.block_on(keeper);
            let keeper = ran.map_err(|error| format!("a client failed: {error}"))?;
            self.kept.extend(keeper.kept);
        }
        result.map(|()| span)
    }

    /// Has a client at each replica that keeps leases.
    fn keep_leases(&self, stage: &Arc<Stage>) -> Result<Vec<JoinHandle<Keeper>>, String> {
        let count = self.field.replicas.count();
        let keep = |replica| {
            let id = KEEPERS * count + replica;
            let keeper = Keeper::new(id, replica, &self.session)?;
            Ok(self.field.runtime.spawn(keeper.run(Arc::clone(stage))))
        };
        (0..count).map(keep).collect()
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
        wait_until(started + field.args.load_seconds);
        result
    }

    /// Waits until nothing changes any more, all replicas have the same, and every watcher knows.
    /// Gives the last revision.
    fn quiesce(&mut self) -> Result<i64, String> {
        self.wait_for_leases()?;
        let put = Request::Put(PutRequest {
            key: self.session.key("last"),
            value: self.session.value(self.session.observer(0), 1),
            ..PutRequest::default()
        });
        let taken = self.ask_until_answered(&put);
        let last = taken.map_err(|why| format!("the healed cluster does not take a put: {why}"))?;
        let Converged { state, took } = self.converge()?;
        self.report.equal_ms = Some(ms(took));
        self.report.revision = state.revision;
        self.report.hash = state.hash;
        self.wait_for_watchers(last)?;
        let endpoints = &self.field.replicas.endpoints;
        self.field
            .runtime
            .block_on(self.session.read_all(endpoints))?;
        Ok(state.revision)
    }

    fn wait_for_watchers(&self, last: i64) -> Result<(), String> {
        let deadline = Instant::now() + self.field.args.faults.patience;
        for (replica, reached) in self.reached.iter().enumerate() {
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
        Ok(())
    }

    /// Asks the first replica for something the round itself wants to know.
    fn ask(&self, request: Request) -> Result<Returned, String> {
        let (session, url) = (&self.session, &self.field.replicas.endpoints[0]);
        let asked = session.ask_apart(session.observer(0), 0, url, request);
        self.field.runtime.block_on(asked)
    }

    /// Asks until there is an answer, and returns its revision: alarms about full disks end a little after there is
    /// room again.
    fn ask_until_answered(&self, request: &Request) -> Result<i64, String> {
        let deadline = Instant::now() + self.field.args.faults.patience;
        loop {
            match self.ask(request.clone()) {
                Ok(answer) => return Ok(answer.revision),
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => std::thread::sleep(STEP * 5),
            }
        }
    }

    /// Leases that nobody renews any more must end, and take their keys with them.
    fn wait_for_leases(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.field.args.faults.patience;
        let request = Request::Range(RangeRequest {
            limit: 1,
            ..self.session.range(LEASED).request()
        });
        loop {
            let left = match self.ask(request.clone()).map(|answer| answer.response) {
                Ok(Response::Range(range)) if range.kvs.is_empty() => return Ok(()),
                Ok(Response::Range(range)) => format!("{} keys with leases", range.count),
                Ok(_) => "another answer".to_owned(),
                Err(why) => why,
            };
            if Instant::now() > deadline {
                return Err(format!("leases did not end in time: there are {left}"));
            }
            std::thread::sleep(STEP * 5);
        }
    }

    /// Holds everything that was told against the order that replicas say they executed.
    fn judge(&mut self, last: i64, span: Span) -> Result<(), String> {
        self.stop_watching.send_replace(true);
        let runtime = self.field.runtime;
        let mut watchers = Vec::new();
        for watching in self.watchers.drain(..) {
            let ran = runtime.block_on(watching);
            watchers.push(ran.map_err(|error| format!("a watcher failed: {error}"))?);
        }
        let told = std::mem::take(&mut *self.session.told());
        self.note(&told, span);
        self.report.events = watchers.iter().map(Watcher::told).sum();
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
        let deadline = Instant::now() + self.field.args.faults.patience;
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
        for replica in 0..self.field.replicas.count() {
            order.add(replica, &self.field.replicas.export(replica)?)?;
        }
        Ok(order)
    }

    fn note(&mut self, told: &Told, span: Span) {
        let history = &told.history;
        let answered = history.iter().filter(|op| op.returned.is_some()).count();
        self.report.answered = answered as u64;
        self.report.unknown = (history.len() - answered) as u64;
        self.report.changed = told.changes.len() as u64;
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for error in &told.errors {
            *errors.entry(kind_of(&error.text).to_owned()).or_default() += 1;
        }
        self.report.errors = errors;
        self.report.gap_ms = span.gap(told.changes.iter()).longest_ns as f64 / 1e6;
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

/// An error by its kind: what the transport adds differs from case to case.
fn kind_of(text: &str) -> &str {
    let is_code = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    match text.split_once(": ") {
        Some((code, message)) if is_code(code) => message,
        _ if text.starts_with("connect") || text.starts_with("stream reset") => "connection lost",
        _ => text,
    }
}

const STEP: Duration = Duration::from_millis(20);
/// Bytes of a value that a client puts.
const VALUE_BYTES: usize = 100;
/// Numbers of clients that keep leases begin here, in multiples of the replicas.
const KEEPERS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_what_the_server_says_and_not_by_how_a_connection_ended() {
        assert_eq!(kind_of("connect: connection refused"), "connection lost");
        assert_eq!(kind_of("connection lost: broken pipe"), "connection lost");
        assert_eq!(
            kind_of("UNAVAILABLE: etcdserver: no leader"),
            "etcdserver: no leader"
        );
        assert_eq!(kind_of("no answer within 5 s"), "no answer within 5 s");
    }
}
