//! What happens to the cluster in a round of each kind, under load.

use std::time::{Duration, Instant};

use quorate_load::replicas::Replicas;

use super::args::Kind;
use super::report::Stretch;
use super::round::{Outage, Round};
use crate::faults::guest::{Guest, GuestFace};
use crate::faults::stage::{Stage, ms, wait_until};

impl Round<'_, '_> {
    /// Does what the round's kind says, with load before, meanwhile and after.
    pub(super) fn load_and_hurt(&mut self) -> Result<(), String> {
        let length = self.length();
        if self.report.kind != Kind::KillAll {
            self.report.calm = Some(self.calm(length)?);
        }
        match self.report.kind {
            Kind::KillOne => self.kill_some(false),
            Kind::Wipe => self.kill_some(true),
            Kind::ReturnAdded => self.return_added(),
            Kind::Rolling => self.rolling(),
            Kind::Upgrade => self.upgrade(),
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
    /// printed, whose list has the one that was removed. All that is under load: no client may notice more than a
    /// pause.
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
            GuestFace::OnePort,
        )
    }

    /// Kills and restarts all replicas in turn, under load all the while.
    pub(super) fn rolling(&mut self) -> Result<(), String> {
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
    pub(super) fn length(&self) -> Duration {
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
    pub(super) fn rest(&self, stage: &Stage) -> Result<(), String> {
        wait_until(stage.started() + self.length());
        Ok(())
    }

    /// Does harm in the middle of operations on shared keys.
    pub(super) fn fault(
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

    pub(super) fn restart(&mut self, which: &[usize]) -> Result<(), String> {
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
}

/// Lets load run for a while.
fn wait(time: Duration) {
    wait_until(Instant::now() + time);
}

/// From when operations are on shared keys until a fault.
const HOT_BEFORE: Duration = Duration::from_millis(15);
/// From a fault until operations are as usual.
const HOT_AFTER: Duration = Duration::from_millis(60);
/// About how long a gateway is left alone, and how long it is gone at most.
const GATEWAY_PAUSE: Duration = Duration::from_millis(300);
