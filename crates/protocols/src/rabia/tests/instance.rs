//! One instance of Weak-MVC under random schedules: any subset of what was said, in any order,
//! to anybody. As it ships it agrees; with any threshold lowered by one it does not (the numbers
//! are exact, not cautious).

use super::cluster::{Dice, config};
use crate::rabia::weak_mvc::slot::{Instance, Next, View};
use crate::rabia::weak_mvc::voice::SlotValue;
use crate::rabia::{Config, Rabia, SlotMessage, Trail};
use crate::registry::{Protocol, Sabotage};
use quorate_core::{Boot, EntryId, MemberIndex, MemberSet, ReplicaId, Slot};

const SIZES: [(usize, &str); 4] = [(3, "1"), (4, "1"), (5, "1"), (5, "2")];
const MODES: [&str; 2] = ["two_step", "three_step"];

fn request(number: u64) -> EntryId {
    EntryId {
        origin: ReplicaId(1),
        boot: Boot(1),
        seq: number,
    }
}

struct Trial {
    config: Config,
    slot: Slot,
    replicas: Vec<Instance>,
    verdicts: Vec<SlotValue>,
}

impl Trial {
    fn new(config: &Config, slot: Slot, props: &[Option<EntryId>]) -> Trial {
        let replicas = props.iter().enumerate().map(|(me, prop)| {
            let mut config = config.clone();
            config.me = MemberIndex::new(me);
            let mut replica = Instance::new(&config);
            replica.propose(*prop);
            replica.harden(0);
            replica
        });
        Trial {
            config: config.clone(),
            slot,
            replicas: replicas.collect(),
            verdicts: vec![SlotValue::Unheard; props.len()],
        }
    }

    /// One replica hears some of what another has said so far.
    fn hear(&mut self, from: usize, to: usize, len: usize) {
        let speaker = &self.replicas[from];
        let mut trail = Trail::new(self.config.mode);
        speaker
            .own()
            .trail
            .iter()
            .take(len)
            .for_each(|value| trail.push(value));
        let message = SlotMessage {
            slot: self.slot,
            prop: speaker.own().proposal(),
            trail,
            q: speaker.q,
            want: false,
            more: false,
        };
        // A mutant may make two requests known; who hears of the second ignores it.
        let _ = self.replicas[to].merge(MemberIndex::new(from), &message);
    }

    /// Decides or takes one more value. A replica that takes its values one at a time is one
    /// with a slow disk, and can hear more in between.
    fn conclude(&mut self, me: usize) {
        let replica = &mut self.replicas[me];
        replica.learn(&self.config.thresholds);
        if let Some(verdict) = replica.decision(&self.config, View::Durable) {
            self.verdicts[me] = verdict.value.into();
        } else if let Next::Take(value) | Next::Settle(value, _) =
            replica.next_value(&self.config, self.slot, MemberSet::EMPTY)
        {
            replica.append(value);
            replica.harden(replica.own().trail.len());
        }
    }

    fn disagrees(&self) -> bool {
        let mut verdicts = self.verdicts.iter().filter(|value| value.is_heard());
        let first = verdicts.next();
        verdicts.any(|verdict| Some(verdict) != first)
    }
}

/// Runs one schedule. `check` after every step if nothing is sabotaged.
fn disagrees(config: &Config, seed: u64, check: bool) -> bool {
    let dice = &mut Dice::new(seed);
    let kinds = [Some(request(1)), Some(request(2)), None];
    let props = (0..config.members.len()).map(|_| kinds[dice.below(3) as usize]);
    let mut trial = Trial::new(config, Slot(seed), &props.collect::<Vec<_>>());
    let n = trial.replicas.len() as u64;
    let deaf_percent = [0, 30, 50, 70][dice.below(4) as usize];
    let deaf = (0..n * n)
        .map(|_| dice.percent(deaf_percent))
        .collect::<Vec<_>>();
    let opening = dice.below(20 * n);
    for step in 0..opening + 60 * n {
        let (from, to) = (dice.below(n) as usize, dice.below(n) as usize);
        let is_deaf = step < opening && deaf[from * n as usize + to];
        if is_deaf || trial.verdicts[to].is_heard() {
            continue;
        }
        if from != to {
            let said = trial.replicas[from].own().trail.len() as u64;
            let some = dice.below(said + 1);
            let len = if dice.percent(70) { said } else { some };
            trial.hear(from, to, len as usize);
        }
        trial.conclude(to);
        if check {
            trial
                .replicas
                .iter()
                .for_each(|replica| replica.check(config));
        }
        if trial.disagrees() {
            return true;
        }
    }
    false
}

fn configs() -> Vec<Config> {
    let mut all = Vec::new();
    for (n, f) in SIZES {
        for mode in MODES {
            for fast in ["true", "false"] {
                let hold = ("vote_hold_us", "0");
                let params = [("f", f), ("mode", mode), ("fast_rules", fast), hold];
                all.push(config(n, 0, &params));
            }
        }
    }
    all
}

#[test]
fn every_schedule_agrees_in_every_mode_and_size() {
    for config in configs() {
        for seed in 0..10_000 {
            assert!(!disagrees(&config, seed, true), "{seed}: {config:?}");
        }
    }
}

/// The sizes for which some mode and schedule disagrees under a sabotage.
fn sizes_broken(lower: fn(&mut Config), seeds: u64) -> Vec<(usize, usize)> {
    let mut broken = Vec::new();
    for mut config in configs() {
        let size = (config.thresholds.n, config.thresholds.f);
        lower(&mut config);
        let found = |seed| {
            let run = std::panic::catch_unwind(|| disagrees(&config, seed, false));
            run.unwrap_or(false)
        };
        if !broken.contains(&size) && (0..seeds).any(found) {
            broken.push(size);
        }
    }
    broken
}

#[test]
fn every_threshold_lowered_by_one_lets_replicas_disagree() {
    for mutant in Rabia::mutants() {
        let others = ["read-quorum", "early-recovery", "no-null", "grace-forever"];
        if others.contains(&mutant.name) {
            continue; // They are not of an instance.
        }
        if let Sabotage::Config(lower) = mutant.sabotage {
            let broken = sizes_broken(lower, 20_000);
            println!("{}: {broken:?}", mutant.name);
            assert_eq!(
                broken.len(),
                SIZES.len(),
                "{}: only {broken:?}",
                mutant.name
            );
        }
    }
}
