//! One round: load, a fault in the middle of it, recovery, and every check.

use std::sync::Arc;
use std::time::Instant;

use quorate_load::load::payload::Payload;
use quorate_load::replicas::Replicas;
use quorate_sim::judge::{self, Journal};
use tokio::runtime::Runtime;

use super::COMMAND;
use super::args::{Kind, RoundsArgs};
use super::promise::Promise;
use super::report::{Report, Stretch};
use crate::faults::client::{Client, Workload};
use crate::faults::guest::Guest;
use crate::faults::series::Turn;
use crate::faults::session::Session;
use crate::faults::stage::{Load, Span, Stage, ms};
use crate::faults::state::{Converged, converged};
use crate::gateways::Gateways;
use crate::observe;

/// What all rounds share.
pub(super) struct Field<'a> {
    pub(super) args: &'a RoundsArgs,
    pub(super) runtime: &'a Runtime,
    pub(super) replicas: &'a mut Replicas,
    pub(super) gateways: Option<Gateways>,
}

/// A round in progress.
pub(super) struct Round<'a, 'b> {
    pub(super) field: &'b mut Field<'a>,
    load: Load<'a>,
    /// A replica that was added in this round.
    pub(super) guest: Option<Guest>,
    pub(super) random: fastrand::Rng,
    /// Replicas that are hurt in this round: what their clients see is not counted from then on.
    pub(super) hurt: Vec<usize>,
    pub(super) hurt_at: Option<Instant>,
    /// When gateways were out of service.
    pub(super) outages: Vec<Outage>,
    pub(super) report: Report,
}

/// The time in which a gateway was out of service.
#[derive(Debug)]
pub(super) struct Outage {
    /// The number of the gateway.
    pub(super) gateway: usize,
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl<'a, 'b> Round<'a, 'b> {
    pub(super) fn new(
        field: &'b mut Field<'a>,
        turn: &Turn<Kind>,
    ) -> Result<Round<'a, 'b>, String> {
        let Turn { number, seed, plan } = *turn;
        let args = field.args;
        let gateways = field.gateways.as_ref();
        let gateways = gateways.filter(|_| plan == Kind::KillGateway);
        let endpoints = gateways.map_or(&field.replicas.endpoints, |all| &all.endpoints);
        let timeout = args.faults.timeout;
        let session = Session::new(COMMAND, seed, args.val_size, endpoints, timeout);
        let workload = Workload::Ledger {
            asks_again: gateways.is_some(),
        };
        let count = field.replicas.endpoints.len();
        let hurt: Vec<usize> = match plan {
            Kind::KillAll => (0..count).collect(),
            Kind::KillOne | Kind::Wipe => (0..usize::from(args.victims))
                .map(|victim| (usize::from(number) + victim) % count)
                .collect(),
            Kind::Pause => vec![usize::from(number) % count],
            // One after the other, or one that no client uses.
            Kind::Rolling | Kind::Upgrade | Kind::KillGateway | Kind::ReturnAdded => Vec::new(),
        };
        let victims = match plan {
            Kind::KillAll => Vec::new(),
            _ => hurt.iter().map(|index| index + 1).collect(),
        };
        Ok(Round {
            load: Load {
                runtime: field.runtime,
                clients: Client::all(&session, args.clients, workload)?,
                session: Arc::new(session),
            },
            field,
            guest: None,
            random: fastrand::Rng::with_seed(!seed),
            hurt,
            hurt_at: None,
            outages: Vec::new(),
            report: Report {
                kind: plan,
                round: number,
                seed,
                victims,
                ..Report::default()
            },
        })
    }

    /// Runs the round. What is wrong is in the report; the promise is what later rounds must not
    /// break.
    pub(super) fn run(&mut self) -> Promise {
        if let Err(why) = self.load_and_hurt().and_then(|()| self.converge()) {
            self.report.violations.push(why);
        }
        self.judge_errors();
        let promise = self.collect();
        if let Err(why) = self.verify(&promise) {
            let violation = format!("cannot be checked: {why}");
            self.report.violations.push(violation);
        }
        if let Some(guest) = self.guest.take() {
            let removed = guest.remove(&self.field.replicas.endpoints);
            self.report.violations.extend(removed.err());
        }
        promise
    }

    /// All replicas there are.
    fn endpoints(&self) -> Vec<String> {
        let guest = self.guest.iter().map(|guest| &guest.endpoint);
        let own = self.field.replicas.endpoints.iter();
        own.chain(guest).cloned().collect()
    }

    /// Lets all clients run while `script` does its part, and returns the longest silence of
    /// those whose replicas are not hurt in this round.
    pub(super) fn stage(
        &mut self,
        script: impl FnOnce(&mut Self, &Stage) -> Result<(), String>,
    ) -> Result<Stretch, String> {
        let running = self.load.begin();
        let result = script(self, &Arc::clone(&running.stage));
        let span = self.load.end(running)?;
        result?;
        Ok(self.measure(span))
    }

    fn measure(&mut self, span: Span) -> Stretch {
        let mut changes = std::mem::take(&mut self.load.session.told().changes);
        changes.retain(|change| change.is_put);
        let puts = changes.len() as u64;
        let counts = |endpoint| self.report.kind == Kind::KillAll || !self.hurt.contains(endpoint);
        let gap = span.gap(changes.iter().filter(|change| counts(&change.endpoint)));
        self.report.puts += puts;
        Stretch {
            puts,
            gap_ms: gap.longest_ns as f64 / 1e6,
            gap_from_ms: gap.began_ns as f64 / 1e6,
            seconds: span.length().as_secs_f64(),
        }
    }

    fn converge(&mut self) -> Result<(), String> {
        let endpoints = self.endpoints();
        let converged = converged(&endpoints, self.field.args.faults.patience);
        let Converged { state, took } = self.field.runtime.block_on(converged)?;
        self.report.catch_up_ms = Some(ms(took));
        self.report.revision = state.revision;
        self.report.hash = state.hash;
        let died = self.field.replicas.died();
        self.report.violations.extend(died);
        Ok(())
    }

    /// Counts the errors that clients got so far, and forgets them.
    pub(super) fn judge_errors(&mut self) {
        let session = &self.load.session;
        let errors = std::mem::take(&mut session.told().errors);
        let is_excused = |endpoint: usize, at: Instant| {
            let since = self.hurt_at.filter(|_| self.hurt.contains(&endpoint));
            let is_out = |outage: &Outage| {
                outage.gateway == endpoint && (outage.from..=outage.to).contains(&at)
            };
            since.is_some_and(|since| at >= since) || self.outages.iter().any(is_out)
        };
        let (excused, found): (Vec<_>, Vec<_>) = errors
            .into_iter()
            .partition(|error| is_excused(error.endpoint, error.at));
        self.report.errors_excused += excused.len() as u64;
        self.report.errors += found.len() as u64;
        let violations = found.iter().take(EXAMPLES).map(|error| {
            let url = &session.endpoints[error.endpoint];
            format!("a client of the healthy {url} got an error: {}", error.text)
        });
        self.report.violations.extend(violations);
    }

    /// What the clients know at the end.
    fn collect(&mut self) -> Promise {
        let session = &self.load.session;
        let mut expectations = Vec::new();
        for client in &mut self.load.clients {
            self.report.asked_again += client.asked_again;
            self.report.violations.append(&mut client.unanswered);
            expectations.extend(client.ledger.expectations(&session.payload));
        }
        let own = expectations
            .iter()
            .filter(|expected| expected.unknown.is_some());
        let told = session.told();
        let shared = told.history.iter().filter(|op| op.returned.is_none());
        self.report.unknown = (own.count() + shared.count()) as u64;
        Promise {
            round: self.report.round,
            payload: Payload::new(session.seed, 0, self.field.args.val_size),
            expectations,
        }
    }

    fn verify(&mut self, promise: &Promise) -> Result<(), String> {
        let endpoints = &self.endpoints();
        if self.report.kind == Kind::KillGateway {
            self.count_executions(promise, endpoints)?;
        }
        let witness = &endpoints[usize::from(self.report.round) % endpoints.len()];
        let session = Arc::clone(&self.load.session);
        let wrong = self.field.runtime.block_on(async {
            let last = session.read_all(endpoints).await?;
            let journal = observe::journal(witness, session.range(""), FIRST, last).await?;
            let mut wrong = promise.kept(endpoints).await?;
            wrong.extend(self.check_history(&journal).err());
            Ok::<_, String>(wrong)
        })?;
        self.report.violations.extend(wrong);
        Ok(())
    }

    /// Every write that was answered must have been executed once.
    fn count_executions(&mut self, promise: &Promise, endpoints: &[String]) -> Result<(), String> {
        let promised = promise.expectations.len() as u64;
        let executed = self.field.runtime.block_on(promise.executed(endpoints))?;
        self.report.executed = executed.iter().map(|(_, times)| *times).sum();
        for (url, times) in executed.iter().filter(|(_, times)| *times != promised) {
            self.report.violations.push(format!(
                "{url}: {promised} writes were answered, and executions of {times} are found"
            ));
        }
        self.report.executed /= executed.len().max(1) as u64;
        Ok(())
    }

    /// Holds the history of shared keys against their changes, as a replica tells them.
    fn check_history(&mut self, journal: &Journal) -> Result<(), String> {
        let session = &self.load.session;
        let history = std::mem::take(&mut session.told().history);
        self.report.checked = history.len() as u64;
        judge::check(&history, journal).map(drop).map_err(|why| {
            format!(
                "the history of {} requests on shared keys is not linearizable (client c asks \
                 replica c mod {} + 1): {why}",
                history.len(),
                session.endpoints.len()
            )
        })
    }
}

const EXAMPLES: usize = 5;
/// The first revision of a store that can have a change.
const FIRST: i64 = 2;
