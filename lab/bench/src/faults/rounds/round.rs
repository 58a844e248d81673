//! One round: load, a fault in the middle of it, recovery, and every check.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_load::load::payload::Payload;
use quorate_load::replicas::Replicas;
use quorate_sim::judge::{self, Journal};
use tokio::runtime::Runtime;

use super::COMMAND;
use super::args::{Kind, RoundsArgs};
use super::guest::Guest;
use super::promise::Promise;
use super::report::{Report, Stretch};
use crate::faults::client::{Client, Workload};
use crate::faults::series::Turn;
use crate::faults::session::Session;
use crate::faults::stage::{Load, Span, Stage, ms, wait_until};
use crate::faults::state::converged;
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
    field: &'b mut Field<'a>,
    load: Load<'a>,
    /// A replica that was added in this round.
    guest: Option<Guest>,
    random: fastrand::Rng,
    /// Replicas that are hurt in this round: what their clients see is not counted from then on.
    hurt: Vec<usize>,
    hurt_at: Option<Instant>,
    outages: Vec<Outage>,
    pub(super) report: Report,
}

/// The time in which a gateway was out of service.
#[derive(Debug)]
struct Outage {
    gateway: usize,
    from: Instant,
    to: Instant,
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
            Kind::Rolling | Kind::KillGateway | Kind::ReturnAdded => Vec::new(),
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

    fn load_and_hurt(&mut self) -> Result<(), String> {
        let length = self.length();
        if self.report.kind != Kind::KillAll {
            self.report.calm = Some(self.calm(length)?);
        }
        match self.report.kind {
            Kind::KillOne => self.kill_some(false),
            Kind::Wipe => self.kill_some(true),
            Kind::ReturnAdded => self.return_added(),
            Kind::Rolling => self.rolling(),
            Kind::KillAll => self.kill_all(),
            Kind::Pause => self.pause(),
            Kind::KillGateway => self.kill_gateways(),
        }
    }

    /// Kills replicas and, in a second stretch of load, starts them again, maybe without their data.
    fn kill_some(&mut self, wipe: bool) -> Result<(), String> {
        let victims = self.hurt.clone();
        let before = self.moment(0.2, 0.5);
        let hurt = self.stage(|round, stage| {
            wait(before);
            round.fault(stage, |replicas| replicas.kill(&victims))?;
            round.rest(stage)
        })?;
        self.report.hurt = Some(hurt);
        let rejoin = self.stage(|round, stage| {
            for &victim in victims.iter().filter(|_| wipe) {
                round.field.replicas.wipe(victim)?;
            }
            round.restart(&victims)?;
            round.rest(stage)
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    /// Adds two replicas and removes one of them; the other loses its data and comes back by the command that was
    /// printed, whose list has the one that was removed. All that under load, which no client may notice but by a pause.
    fn return_added(&mut self) -> Result<(), String> {
        let hurt = self.stage(|round, stage| {
            let former = round.add_guest()?;
            round.guest = Some(round.add_guest()?);
            former.remove(&round.field.replicas.endpoints)?;
            round.rest(stage)
        })?;
        self.report.hurt = Some(hurt);
        let rejoin = self.stage(|round, stage| {
            let mut guest = round.guest.take().ok_or("no replica was added")?;
            stage.set_hot(true);
            guest.kill_and_wipe()?;
            wait(HOT_AFTER);
            stage.set_hot(false);
            let began = Instant::now();
            let back = guest.start();
            round.guest = Some(guest);
            back?;
            round.note_restart(began);
            round.rest(stage)
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    fn add_guest(&self) -> Result<Guest, String> {
        let replicas = &self.field.replicas;
        let patience = self.field.args.faults.patience;
        Guest::add(
            replicas.binary(),
            &replicas.endpoints,
            replicas.directory(),
            patience,
        )
    }

    /// Kills and restarts all replicas in turn, under load all the while.
    fn rolling(&mut self) -> Result<(), String> {
        let mut whole: Option<Stretch> = None;
        for victim in 0..self.field.replicas.endpoints.len() {
            self.hurt = vec![victim];
            let before = self.moment(0.1, 0.4);
            let stretch = self.stage(|round, stage| {
                wait(before);
                round.fault(stage, |replicas| replicas.kill(&[victim]))?;
                round.restart(&[victim])?;
                round.rest(stage)
            })?;
            whole = Some(whole.map_or(stretch, |whole| whole.and(stretch)));
            // It votes again: from here on nothing of its clients is excused.
            self.judge_errors();
            self.hurt_at = None;
        }
        self.hurt.clear();
        self.report.hurt = whole;
        Ok(())
    }

    fn kill_all(&mut self) -> Result<(), String> {
        let all = self.hurt.clone();
        let before = self.moment(0.5, 1.0);
        let mut load = self.stage(|round, stage| {
            wait(before);
            round.fault(stage, |replicas| replicas.kill(&all))
        })?;
        // The silence after the death of all says nothing.
        load.gap_ms = 0.0;
        self.report.load = Some(load);
        self.restart(&all)?;
        // Every replica serves again: from here on nothing is excused.
        self.judge_errors();
        self.hurt_at = None;
        self.report.rejoin = Some(self.calm(self.length() / 4)?);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        let victim = self.hurt[0];
        let pause = self.field.args.pause;
        let before = self.moment(0.1, 0.3);
        let hurt = self.stage(|round, stage| {
            wait(before);
            let until = Instant::now() + HOT_BEFORE + pause;
            round.fault(stage, |replicas| replicas.pause(victim))?;
            wait_until(until);
            // Before the clients are waited for: those of this replica wait for it.
            round.field.replicas.resume(victim)
        })?;
        self.report.hurt = Some(hurt);
        let rejoin = self.stage(|round, stage| {
            stage.set_hot(true);
            round.rest(stage)
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    /// Kills gateways and starts them again, one at a time, whichever and whenever chance will have it.
    fn kill_gateways(&mut self) -> Result<(), String> {
        let length = self.length();
        let hurt = self.stage(|round, stage| {
            while stage.started().elapsed() < length {
                wait(round.share_of(GATEWAY_PAUSE, 0.2, 1.0));
                stage.set_hot(true);
                wait(HOT_BEFORE);
                let down = round.share_of(GATEWAY_PAUSE, 0.0, 0.5);
                round.kill_gateway(down)?;
                stage.set_hot(false);
            }
            Ok(())
        })?;
        self.report.hurt = Some(hurt);
        self.report.rejoin = Some(self.calm(length / 4)?);
        Ok(())
    }

    fn kill_gateway(&mut self, down: Duration) -> Result<(), String> {
        let gateways = self.field.gateways.as_mut();
        let gateways = gateways.ok_or("there are no gateways")?;
        let gateway = self.random.usize(..gateways.endpoints.len());
        let from = Instant::now();
        gateways.kill(gateway)?;
        wait(down);
        let began = Instant::now();
        gateways.start_one(gateway)?;
        self.note_restart(began);
        self.report.kills += 1;
        self.outages.push(Outage {
            gateway,
            from,
            // An attempt to connect may have failed just before.
            to: Instant::now() + HOT_AFTER,
        });
        Ok(())
    }

    /// The length of a stretch of load.
    fn length(&self) -> Duration {
        self.field.args.load_seconds
    }

    /// Load without a fault.
    fn calm(&mut self, length: Duration) -> Result<Stretch, String> {
        self.stage(|_, _| {
            wait(length);
            Ok(())
        })
    }

    /// A moment within a stretch of load, between two shares of it.
    fn moment(&mut self, from: f64, to: f64) -> Duration {
        self.share_of(self.length(), from, to)
    }

    fn share_of(&mut self, length: Duration, from: f64, to: f64) -> Duration {
        length.mul_f64(from + (to - from) * self.random.f64())
    }

    /// Lets load run to the end of its stretch.
    fn rest(&self, stage: &Stage) -> Result<(), String> {
        wait_until(stage.started() + self.length());
        Ok(())
    }

    /// Does harm in the middle of operations on shared keys.
    fn fault(
        &mut self,
        stage: &Stage,
        harm: impl FnOnce(&mut Replicas) -> Result<(), String>,
    ) -> Result<(), String> {
        stage.set_hot(true);
        wait(HOT_BEFORE);
        self.hurt_at = Some(Instant::now());
        let result = harm(self.field.replicas);
        wait(HOT_AFTER);
        stage.set_hot(false);
        result
    }

    fn restart(&mut self, which: &[usize]) -> Result<(), String> {
        let began = Instant::now();
        self.field.replicas.start(which)?;
        for &index in which {
            self.field.replicas.wait_voting(index)?;
        }
        self.note_restart(began);
        Ok(())
    }

    /// Notes how long what was started at a moment took until it served: the longest counts.
    fn note_restart(&mut self, began: Instant) {
        let longest = self.report.restart_ms.unwrap_or(0.0);
        self.report.restart_ms = Some(longest.max(ms(began.elapsed())));
    }

    /// Lets all clients run while `script` does its part, and returns the longest silence of
    /// those whose replicas are not hurt in this round.
    fn stage(
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
        let (state, caught_up) = self.field.runtime.block_on(converged)?;
        self.report.catch_up_ms = Some(ms(caught_up));
        self.report.revision = state.revision;
        self.report.hash = state.hash;
        let died = self.field.replicas.died();
        self.report.violations.extend(died);
        Ok(())
    }

    /// Counts the errors that clients got so far, and forgets them.
    fn judge_errors(&mut self) {
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

/// Lets load run for a while.
fn wait(time: Duration) {
    wait_until(Instant::now() + time);
}

const HOT_BEFORE: Duration = Duration::from_millis(15);
const HOT_AFTER: Duration = Duration::from_millis(60);
/// About how long a gateway is left alone, and how long it is gone at most.
const GATEWAY_PAUSE: Duration = Duration::from_millis(300);
const EXAMPLES: usize = 5;
/// The first revision of a store that can have a change.
const FIRST: i64 = 2;
