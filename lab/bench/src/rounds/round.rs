//! One round: load, a fault in the middle of it, recovery, and every check.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::args::{Kind, RoundsArgs};
use super::checks::{self, Promise};
use super::clients::{Client, Session, Stage};
use super::guest::Guest;
use super::record::Record;
use super::report::{RoundReport, Stretch};
use crate::gateways::Gateways;
use crate::observe;
use quorate_load::load::gaps;
use quorate_load::load::payload::Payload;
use quorate_load::replicas::Replicas;

/// A round in progress.
pub(super) struct Round<'a> {
    args: &'a RoundsArgs,
    runtime: &'a Runtime,
    replicas: &'a mut Replicas,
    /// Where clients go, if not to the replicas.
    gateways: Option<&'a mut Gateways>,
    /// A replica that was added in this round.
    guest: Option<Guest>,
    session: Arc<Session>,
    clients: Vec<Client>,
    random: fastrand::Rng,
    /// Replicas that are hurt in this round: what their clients see is not counted from then on.
    hurt: Vec<usize>,
    hurt_at: Option<Instant>,
    /// Which gateway was out of service, from when to when.
    outages: Vec<(usize, Instant, Instant)>,
    pub(super) report: RoundReport,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        args: &'a RoundsArgs,
        runtime: &'a Runtime,
        (replicas, gateways): (&'a mut Replicas, Option<&'a mut Gateways>),
        kind: Kind,
        number: u16,
        seed: u64,
    ) -> Result<Round<'a>, String> {
        let count = replicas.endpoints.len();
        let endpoints = match &gateways {
            Some(gateways) => &gateways.endpoints,
            None => &replicas.endpoints,
        };
        let mut session = Session::new(seed, args.val_size, endpoints, args.clients, args.timeout)?;
        session.asks_again = gateways.is_some();
        Ok(Round {
            clients: session.clients(),
            session: Arc::new(session),
            random: fastrand::Rng::with_seed(!seed),
            hurt: match kind {
                Kind::KillAll => (0..count).collect(),
                Kind::KillOne | Kind::Wipe => {
                    let victims = (0..args.victims).map(usize::from);
                    victims
                        .map(|victim| (usize::from(number) + victim) % count)
                        .collect()
                }
                Kind::Pause => vec![usize::from(number) % count],
                // One after the other.
                Kind::Rolling | Kind::KillGateway => Vec::new(),
                // No client's own.
                Kind::ReturnAdded => Vec::new(),
            },
            guest: None,
            hurt_at: None,
            outages: Vec::new(),
            gateways,
            report: RoundReport::new(kind, number, seed),
            args,
            runtime,
            replicas,
        })
    }

    /// Runs the round. What is wrong is in the report; the promise is what later rounds must not
    /// break.
    pub(super) fn run(&mut self) -> Promise {
        match self.load_and_hurt().and_then(|()| self.converge()) {
            Ok(()) => {}
            Err(why) => self.report.violations.push(why),
        }
        self.judge_errors();
        let (promise, record) = self.collect();
        if let Err(why) = self.verify(&promise, record) {
            self.report
                .violations
                .push(format!("cannot be checked: {why}"));
        }
        if let Some(Err(why)) = self
            .guest
            .take()
            .map(|guest| guest.remove(&self.replicas.endpoints))
        {
            self.report.violations.push(why);
        }
        promise
    }

    /// All replicas there are.
    fn endpoints(&self) -> Vec<String> {
        let guest = self.guest.iter().map(|guest| &guest.endpoint);
        self.replicas
            .endpoints
            .iter()
            .chain(guest)
            .cloned()
            .collect()
    }

    fn load_and_hurt(&mut self) -> Result<(), String> {
        self.report.victims = match self.report.kind {
            Kind::KillAll | Kind::Rolling | Kind::KillGateway | Kind::ReturnAdded => Vec::new(),
            Kind::KillOne | Kind::Wipe | Kind::Pause => {
                self.hurt.iter().map(|index| index + 1).collect()
            }
        };
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
        let length = self.args.load_seconds;
        self.report.calm = Some(self.calm(length)?);
        let before = self.moment(length, 0.2, 0.5);
        let hurt = self.stage(|round, stage| {
            wait(before);
            round.fault(stage, |replicas| replicas.kill(&victims))?;
            wait_until(stage.started() + length);
            Ok(())
        })?;
        self.report.hurt = Some(hurt);
        let rejoin = self.stage(|round, stage| {
            if wipe {
                victims
                    .iter()
                    .try_for_each(|&victim| round.replicas.wipe(victim))?;
            }
            round.restart(&victims)?;
            wait_until(stage.started() + length);
            Ok(())
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    /// Adds two replicas and removes one of them; the other loses its data and comes back by the command that was
    /// printed, whose list has the one that was removed. All that under load, which no client may notice but by a pause.
    fn return_added(&mut self) -> Result<(), String> {
        let length = self.args.load_seconds;
        self.report.calm = Some(self.calm(length)?);
        let hurt = self.stage(|round, stage| {
            let former = round.add_guest()?;
            round.guest = Some(round.add_guest()?);
            former.remove(&round.replicas.endpoints)?;
            wait_until(stage.started() + length);
            Ok(())
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
            round.report.restart_ms = Some(ms(began.elapsed()));
            wait_until(stage.started() + length);
            Ok(())
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    fn add_guest(&self) -> Result<Guest, String> {
        let endpoints = &self.replicas.endpoints;
        let (binary, directory) = (self.replicas.binary(), self.replicas.directory());
        Guest::add(binary, endpoints, directory, self.args.patience)
    }

    /// Kills and restarts all replicas in turn, under load all the while.
    fn rolling(&mut self) -> Result<(), String> {
        let length = self.args.load_seconds;
        self.report.calm = Some(self.calm(length)?);
        let mut whole: Option<Stretch> = None;
        for victim in 0..self.replicas.endpoints.len() {
            self.hurt = vec![victim];
            let before = self.moment(length, 0.1, 0.4);
            let stretch = self.stage(|round, stage| {
                wait(before);
                round.fault(stage, |replicas| replicas.kill(&[victim]))?;
                round.restart(&[victim])?;
                wait_until(stage.started() + length);
                Ok(())
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
        let length = self.args.load_seconds;
        let before = self.moment(length, 0.5, 1.0);
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
        let rejoin = self.calm(length / 4)?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        let victim = self.hurt[0];
        let length = self.args.load_seconds;
        let pause = self.args.pause;
        self.report.calm = Some(self.calm(length)?);
        let before = self.moment(length, 0.1, 0.3);
        let hurt = self.stage(|round, stage| {
            wait(before);
            let until = Instant::now() + HOT_BEFORE + pause;
            round.fault(stage, |replicas| replicas.pause(victim))?;
            wait_until(until);
            // Before the clients are waited for: those of this replica wait for it.
            round.replicas.resume(victim)
        })?;
        self.report.hurt = Some(hurt);
        let rejoin = self.stage(|_, stage| {
            stage.set_hot(true);
            wait(length);
            Ok(())
        })?;
        self.report.rejoin = Some(rejoin);
        Ok(())
    }

    /// Kills gateways and starts them again, one at a time, whichever and whenever chance will have it.
    fn kill_gateways(&mut self) -> Result<(), String> {
        let length = self.args.load_seconds;
        self.report.calm = Some(self.calm(length)?);
        let hurt = self.stage(|round, stage| {
            while stage.started().elapsed() < length {
                let pause = round.moment(GATEWAY_PAUSE, 0.2, 1.0);
                wait(pause);
                stage.set_hot(true);
                wait(HOT_BEFORE);
                let down = round.moment(GATEWAY_PAUSE, 0.0, 0.5);
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
        let Some(gateways) = self.gateways.as_mut() else {
            return Err("there are no gateways".to_owned());
        };
        let victim = self.random.usize(..gateways.endpoints.len());
        let from = Instant::now();
        gateways.kill(victim)?;
        wait(down);
        let began = Instant::now();
        gateways.start_one(victim)?;
        let longest = self.report.restart_ms.unwrap_or(0.0);
        self.report.restart_ms = Some(longest.max(ms(began.elapsed())));
        self.report.kills += 1;
        // An attempt to connect may have failed just before.
        self.outages
            .push((victim, from, Instant::now() + HOT_AFTER));
        Ok(())
    }

    /// Load without a fault.
    fn calm(&mut self, length: Duration) -> Result<Stretch, String> {
        self.stage(|_, _| {
            wait(length);
            Ok(())
        })
    }

    /// A moment within a stretch of load, between two shares of it.
    fn moment(&mut self, length: Duration, from: f64, to: f64) -> Duration {
        length.mul_f64(from + (to - from) * self.random.f64())
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
        let result = harm(self.replicas);
        wait(HOT_AFTER);
        stage.set_hot(false);
        result
    }

    fn restart(&mut self, which: &[usize]) -> Result<(), String> {
        let began = Instant::now();
        self.replicas.start(which)?;
        for &index in which {
            self.replicas.wait_voting(index)?;
        }
        let longest = self.report.restart_ms.unwrap_or(0.0);
        self.report.restart_ms = Some(longest.max(ms(began.elapsed())));
        Ok(())
    }

    /// Lets all clients run while `script` does its part, and returns the longest silence of
    /// those whose replicas are not hurt in this round.
    fn stage(
        &mut self,
        script: impl FnOnce(&mut Self, &Stage) -> Result<(), String>,
    ) -> Result<Stretch, String> {
        let stage = Arc::new(Stage::new());
        let tasks: Vec<_> = self
            .clients
            .drain(..)
            .map(|client| {
                self.runtime
                    .spawn(client.run(self.session.clone(), stage.clone()))
            })
            .collect();
        let result = script(self, &stage);
        stage.end();
        let ended = Instant::now();
        for task in tasks {
            // Bounded by the timeouts of operation and connection.
            let client = self.runtime.block_on(task);
            self.clients
                .push(client.map_err(|error| format!("a client failed: {error}"))?);
        }
        result?;
        Ok(self.measure(stage.started(), ended))
    }

    fn measure(&mut self, started: Instant, ended: Instant) -> Stretch {
        let mut times = Vec::new();
        let mut puts = 0;
        for client in &mut self.clients {
            let mine = std::mem::take(&mut client.completions);
            puts += mine.len() as u64;
            if self.hurt.contains(&client.endpoint) && self.report.kind != Kind::KillAll {
                continue;
            }
            let in_time = mine.into_iter().filter(|time| *time <= ended);
            times.extend(in_time.map(|time| (time - started).as_nanos() as u64));
        }
        let gap = gaps::longest(times, (ended - started).as_nanos() as u64);
        self.report.puts += puts;
        Stretch {
            puts,
            gap_ms: gap.longest_ns as f64 / 1e6,
            gap_from_ms: gap.began_ns as f64 / 1e6,
            seconds: (ended - started).as_secs_f64(),
        }
    }

    fn converge(&mut self) -> Result<(), String> {
        let endpoints = self.endpoints();
        let converged = checks::converged(&endpoints, self.args.patience);
        let (state, caught_up) = self.runtime.block_on(converged)?;
        self.report.catch_up_ms = Some(ms(caught_up));
        self.report.revision = state.revision;
        self.report.hash = state.hash;
        let died = self.replicas.died();
        self.report.violations.extend(died);
        Ok(())
    }

    /// Counts the errors that clients got so far, and forgets them.
    fn judge_errors(&mut self) {
        let mut found = Vec::new();
        for client in &mut self.clients {
            let hurt = self.hurt.contains(&client.endpoint);
            let since = self.hurt_at.filter(|_| hurt);
            let endpoint = client.endpoint;
            let is_out = |at: Instant| {
                let mut of_it = self.outages.iter().filter(|outage| outage.0 == endpoint);
                of_it.any(|(_, from, to)| (*from..=*to).contains(&at))
            };
            for (at, text) in client.errors.drain(..) {
                if since.is_some_and(|since| at >= since) || is_out(at) {
                    self.report.errors_excused += 1;
                } else {
                    self.report.errors += 1;
                    let url = &self.session.endpoints[client.endpoint];
                    found.push(format!(
                        "a client of the healthy {url} got an error: {text}"
                    ));
                }
            }
        }
        found.truncate(EXAMPLES);
        self.report.violations.extend(found);
    }

    /// What the clients know at the end.
    fn collect(&mut self) -> (Promise, Record) {
        let mut record = Record::default();
        let mut expectations = Vec::new();
        for client in &mut self.clients {
            self.report.asked_again += client.asked_again;
            self.report.violations.append(&mut client.unanswered);
            record.merge(std::mem::take(&mut client.record));
            expectations.extend(client.ledger.expectations(&self.session.payload));
        }
        let own = expectations
            .iter()
            .filter(|expected| expected.unknown.is_some());
        self.report.unknown = (own.count() + record.unknown()) as u64;
        let payload = Payload::new(self.session.seed, 0, self.args.val_size);
        let promise = Promise {
            round: self.report.round,
            payload,
            expectations,
        };
        (promise, record)
    }

    fn verify(&mut self, promise: &Promise, mut record: Record) -> Result<(), String> {
        let endpoints = &self.endpoints();
        let witness = &endpoints[usize::from(self.report.round) % endpoints.len()];
        let session = &self.session;
        if self.session.asks_again {
            let promised = promise.expectations.len() as u64;
            let executed = self.runtime.block_on(promise.executed(endpoints))?;
            self.report.executed = executed.iter().map(|(_, times)| *times).sum();
            for (url, times) in executed.iter().filter(|(_, times)| *times != promised) {
                self.report.violations.push(format!(
                    "{url}: {promised} writes were answered, and executions of {times} are found"
                ));
            }
            self.report.executed /= executed.len().max(1) as u64;
        }
        let wrong = self.runtime.block_on(async {
            let last = checks::read_shared(session, endpoints, &mut record).await?;
            let journal = observe::journal(witness, session.shared_range(), FIRST, last).await?;
            self.report.checked = record.len() as u64;
            let mut wrong = promise.kept(endpoints).await?;
            wrong.extend(record.check(session, &journal).err());
            Ok::<_, String>(wrong)
        })?;
        self.report.violations.extend(wrong);
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Lets load run for a while.
fn wait(time: Duration) {
    wait_until(Instant::now() + time);
}

fn wait_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

const HOT_BEFORE: Duration = Duration::from_millis(15);
const HOT_AFTER: Duration = Duration::from_millis(60);
/// About how long a gateway is left alone, and how long it is gone at most.
const GATEWAY_PAUSE: Duration = Duration::from_millis(300);
const EXAMPLES: usize = 5;
/// The first revision of a store that can have a change.
const FIRST: i64 = 2;
