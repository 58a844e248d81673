//! `bench put`, `bench get` and `bench mixed`: load over the etcd v3 API.

pub mod access;
mod args;
mod client;
pub mod connection;
pub mod gaps;
mod history;
pub mod ledger;
mod pace;
pub mod payload;
mod phase;
mod progress;
pub mod rpc;
mod session;
pub mod verify;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::latency::Latency;
use crate::report::{EndpointReport, Report, ServerCosts};
use access::Access;
pub use args::CONNECTIONS_DEFAULT_MAX;
pub use args::{GetArgs, Job, LoadArgs, MixedArgs, PutArgs, ReadArgs, VerifyArgs};
use client::Client;
use connection::Connection;
pub use gaps::{EndpointGap, Gap, Gaps};
use history::History;
use ledger::Ledger;
pub use pace::Arrivals;
use payload::Payload;
use phase::Phase;
use quorate_tooling::cleanup;
pub use quorate_tooling::keys::Keys;
use quorate_tooling::process::Usage;
use quorate_tooling::scrape::{self, Counters, Fetcher};
use session::{Endpoint, Session, Settings, Stats};
pub use verify::{Readback, Verdict};

/// Runs a load and returns what was measured.
pub fn run(job: &Job) -> Result<Report, String> {
    cleanup::on_interrupt();
    job.check()?;
    let mut builder = match job.load.workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder
        .worker_threads(job.load.workers.into())
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(Run::new(job)?.run())
}

/// A run in progress.
struct Run<'a> {
    job: &'a Job,
    seed: u64,
    /// How endpoints are reached that speak TLS.
    access: Access,
    session: Arc<Session>,
    clients: Vec<Client>,
}

/// What was read before measuring started.
struct Before {
    servers: Usage,
    counters: Option<Counters>,
    generator: Usage,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job) -> Result<Run<'a>, String> {
        let load = &job.load;
        let seed = load.seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
        let access = Access {
            tls: load.tls.connector(&load.endpoints)?,
            login: load.user.clone(),
        };
        let endpoints = endpoints(&load.endpoints)?;
        let connections = (0..job.connections() as usize)
            .map(|index| index % endpoints.len())
            .map(|endpoint| {
                let Endpoint { url, authority, .. } = &endpoints[endpoint];
                let is_secured = load.tls.complete(url).starts_with("https://");
                Connection::new(endpoint, authority).by(Access {
                    tls: access.tls.clone().filter(|_| is_secured),
                    ..access.clone()
                })
            })
            .collect();
        let session = Session {
            endpoints,
            connections,
            payload: Payload::new(seed, load.key_size, load.val_size),
            settings: Settings {
                read_share: job.read_share,
                serializable: job.read.serializable,
                keys: Keys::new(job.key_space(), load.skew),
                timeout: load.timeout,
                gap: load.gap,
            },
            history: load.history.as_deref().map(History::create).transpose()?,
            began: Instant::now(),
            completed: 0.into(),
        };
        let slots = load.key_space.map(|keys| keys / u64::from(load.clients));
        let clients = (0..load.clients)
            .map(|id| {
                let ledger = job.verify.verify.then(|| Ledger::new(id, slots));
                Client::new(id, (id % job.connections()) as usize, seed, ledger)
            })
            .collect();
        Ok(Run {
            job,
            seed,
            access,
            session: Arc::new(session),
            clients,
        })
    }

    async fn run(mut self) -> Result<Report, String> {
        let load = &self.job.load;
        self.connect().await?;
        if self.job.read.fill {
            self.phase(Phase::start(None, self.job.key_space(), None), true)
                .await?;
        }
        if !load.warmup.is_zero() {
            self.phase(
                Phase::start(Some(load.warmup), u64::MAX, load.pace()),
                false,
            )
            .await?;
        }
        self.session
            .endpoints
            .iter()
            .for_each(|endpoint| drop(endpoint.take_stats()));
        let before = Before {
            servers: Usage::of(&load.server_pids),
            counters: Counters::scrape_by(&self.fetcher(), &load.metrics),
            generator: Usage::of(&[std::process::id()]),
        };
        let duration = match load.total {
            Some(_) => None,
            None => Some(load.duration.unwrap_or(DURATION)),
        };
        let phase = Phase::start(duration, load.total.unwrap_or(u64::MAX), load.pace());
        let progress = progress::start(&self.session, duration, load.total);
        let phase = self.phase(phase, false).await?;
        progress.stop();
        let mut report = self.report(&phase, duration, &before);
        if let Some(history) = &self.session.history {
            history
                .finish()
                .map_err(|error| format!("cannot write the history: {error}"))?;
        }
        if self.job.verify.verify {
            report.verify = Some(self.verify().await);
        }
        Ok(report)
    }

    fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.access.tls.clone())
    }

    /// Connects before any clock runs, and refuses to measure endpoints that are not there.
    async fn connect(&self) -> Result<(), String> {
        for connection in &self.session.connections {
            let url = &self.session.endpoints[connection.endpoint].url;
            match connection.attach(|| false).await {
                Some(Err(text)) if !self.job.load.allow_down => {
                    return Err(format!("nothing serves at {url}: {text}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets all clients run through a phase.
    async fn phase(&mut self, phase: Phase, filling: bool) -> Result<Arc<Phase>, String> {
        let phase = Arc::new(phase);
        let mut tasks = JoinSet::new();
        let count = self.clients.len();
        for client in self.clients.drain(..) {
            tasks.spawn(client.run(self.session.clone(), phase.clone(), filling));
        }
        phase
            .drive(count)
            .await
            .map_err(|error| format!("cannot keep time: {error}"))?;
        while let Some(client) = tasks.join_next().await {
            self.clients
                .push(client.map_err(|error| format!("a client failed: {error}"))?);
        }
        Ok(phase)
    }

    fn report(&self, phase: &Phase, duration: Option<Duration>, before: &Before) -> Report {
        let load = &self.job.load;
        let servers = Usage::of(&load.server_pids).since(before.servers);
        let counters = Counters::scrape_by(&self.fetcher(), &load.metrics);
        let generator = Usage::of(&[std::process::id()]).since(before.generator);
        let stats: Vec<Stats> = self
            .session
            .endpoints
            .iter()
            .map(Endpoint::take_stats)
            .collect();
        let last = stats.iter().filter_map(|stats| stats.last).max();
        let last = last.map_or(Duration::ZERO, |last| last - phase.started);
        // A cluster that fell silent is not fast: the silence counts up to the planned end.
        let elapsed = last.max(duration.unwrap_or_default());

        let mut report = Report::new(self.job.name);
        report.clients = load.clients;
        report.connections = self.job.connections();
        report.value_bytes = load.val_size;
        report.seed = Some(self.seed);
        report.rate = load.rate;
        report.unsent = phase.unsent();
        self.count(&mut report, &stats, elapsed);
        report.generator_cpu_us_per_op = generator.cpu_us as f64 / report.operations.max(1) as f64;
        report.servers = self.costs(&report, servers, before.counters.zip(counters));
        report.gaps = load.gap.then(|| self.gaps(stats, phase.started, elapsed));
        report
    }

    fn count(&self, report: &mut Report, stats: &[Stats], elapsed: Duration) {
        let (mut reads, mut writes) = (Latency::new(), Latency::new());
        for (endpoint, stats) in self.session.endpoints.iter().zip(stats) {
            reads.merge(&stats.reads);
            writes.merge(&stats.writes);
            report.misses += stats.misses;
            for (text, count) in &stats.errors {
                *report.errors.entry(text.clone()).or_default() += count;
            }
            report.endpoints.push(EndpointReport {
                url: endpoint.url.clone(),
                operations: stats.reads.count() + stats.writes.count(),
                errors: stats.errors.values().sum(),
            });
        }
        if reads.count() > 0 && writes.count() > 0 {
            report.reads = Some(reads.summary());
            report.writes = Some(writes.summary());
        }
        writes.merge(&reads);
        report.set_operations(&writes, elapsed);
    }

    fn costs(
        &self,
        report: &Report,
        usage: Usage,
        counters: Option<(Counters, Counters)>,
    ) -> Option<ServerCosts> {
        if self.job.load.server_pids.is_empty() && counters.is_none() {
            return None;
        }
        let mut costs = ServerCosts::from_usage(usage, report.operations);
        if let Some((before, after)) = counters {
            costs.set_counters(after.since(before));
        }
        Some(costs)
    }

    fn gaps(&self, stats: Vec<Stats>, started: Instant, elapsed: Duration) -> Gaps {
        let since = |time: Instant| time.saturating_duration_since(started).as_nanos() as u64;
        let completions: Vec<(String, Vec<u64>)> = self
            .session
            .endpoints
            .iter()
            .zip(stats)
            .map(|(endpoint, stats)| {
                (
                    endpoint.url.clone(),
                    stats.completions.into_iter().map(since).collect(),
                )
            })
            .collect();
        Gaps::find(&completions, elapsed.as_nanos() as u64)
    }

    async fn verify(&mut self) -> Verdict {
        let mut verdict = Verdict {
            down_allowed: self.job.load.allow_down,
            ..Verdict::default()
        };
        let mut expectations = Vec::new();
        for client in &mut self.clients {
            verdict.acknowledged += client.outcome.acknowledged;
            verdict.unknown += client.outcome.unknown;
            verdict.stale_reads += client.outcome.stale_reads;
            client
                .outcome
                .examples
                .drain(..)
                .for_each(|example| verdict.note(example));
            let ledger = client.ledger.as_ref();
            expectations.extend(
                ledger
                    .map(|ledger| ledger.expectations(&self.session.payload))
                    .unwrap_or_default(),
            );
        }
        let endpoints: Vec<(String, String)> = self
            .session
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.url.clone(), endpoint.authority.clone()))
            .collect();
        verdict
            .read_back_over(
                &self.access,
                &endpoints,
                &self.session.payload,
                expectations,
            )
            .await;
        verdict
    }
}

fn endpoints(urls: &[String]) -> Result<Vec<Endpoint>, String> {
    urls.iter()
        .map(|url| Ok(Endpoint::new(url, scrape::authority(url)?)))
        .collect()
}

const DURATION: Duration = Duration::from_secs(10);
