//! What goes wrong, and what came of it.

use super::ModesOptions;
use crate::figures::chora::cost::Cost;
use crate::figures::chora::lab::{self, Look, Run, Seen, Wiring};
use crate::figures::chora::trouble::Trouble;
use quorate_core::{MICROS, MILLIS, SECONDS};
use std::ops::Range;

/// A network of a data centre, through the kernel.
pub(super) const WIRING: Wiring = Wiring {
    least_ns: 100 * MICROS,
    range_ns: 20 * MICROS,
};
/// Modes have been chosen by then.
const FROM_NS: u64 = 200 * MILLIS;
/// When something goes wrong, and when the run ends: a proposer that was left out is back by then.
pub(super) const TROUBLE_NS: u64 = 500 * MILLIS;
const UNTIL_NS: u64 = 2_800 * MILLIS;
/// How finely time is seen.
pub(super) const BIN_NS: u64 = 10 * MILLIS;
const LOOK_NS: u64 = MILLIS / 2;
/// What comes back is what there is so long before the end.
const END_NS: u64 = 200 * MILLIS;
/// As long as no commit may take: a view is given up after twice `stall_ms`, its initiator asks others, and
/// may have to ask again.
const STILL_NS_MAX: u64 = 500 * MILLIS;

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) name: String,
    /// When it lasts.
    pub(super) trouble: Range<u64>,
    run: Run,
}

/// What was seen of one.
pub(super) struct Course {
    pub(super) scene: Scene,
    seen: Seen,
}

/// All of them.
pub(super) fn all(options: &ModesOptions, cost: Cost) -> Vec<Scene> {
    let node = usize::from(options.replicas) - 1;
    let given = options.param.iter();
    let run = Run {
        replicas: options.replicas.into(),
        params: given.cloned().collect(),
        wiring: WIRING,
        cost,
        every_ns: Some(SECONDS / options.rate),
        from_ns: FROM_NS,
        until_ns: UNTIL_NS,
        troubles: Vec::new(),
        look_ns: Some(LOOK_NS),
        seed: options.seed,
    };
    let times = options.slow;
    let scene = |name: &str, ms: u64, trouble: &dyn Fn(Range<u64>) -> Trouble| {
        let time = TROUBLE_NS..TROUBLE_NS + ms * MILLIS;
        let troubles = vec![trouble(time.clone())];
        Scene {
            name: name.to_owned(),
            trouble: time,
            run: Run {
                troubles,
                ..run.clone()
            },
        }
    };
    let pause = |time| Trouble::Pause { node, time };
    vec![
        scene("a replica stands still for 20 ms", 20, &pause),
        scene("a replica stands still for 400 ms", 400, &pause),
        scene("delays vary tenfold for 400 ms", 400, &|time| {
            Trouble::Delays { time, times: 10 }
        }),
        scene("a replica is slow for 400 ms", 400, &|time| Trouble::Slow {
            node,
            time,
            times,
        }),
    ]
}

impl Scene {
    /// # Errors
    /// Says what two replicas disagree about.
    pub(super) fn play(&self) -> Result<Course, String> {
        let seen = lab::run(&self.run).map_err(|why| format!("{}: {why}", self.name))?;
        Ok(Course {
            scene: self.clone(),
            seen,
        })
    }
}

/// A stretch of a course.
pub(super) struct Stretch {
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Of the time of all replicas, how much they pulsed.
    pub(super) pulsing: f64,
}

impl Course {
    /// Before something goes wrong, meanwhile, and in the end.
    pub(super) fn stretches(&self) -> [Stretch; 3] {
        let end = UNTIL_NS - END_NS..UNTIL_NS;
        [
            FROM_NS..self.scene.trouble.start,
            self.scene.trouble.clone(),
            end,
        ]
        .map(|time| self.stretch(&time))
    }

    fn stretch(&self, time: &Range<u64>) -> Stretch {
        let answers = self.seen.answers_ns.iter();
        let within = answers.filter(|(at, _)| time.contains(at));
        let mut latencies: Vec<u64> = within.map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        let at = |percent: usize| {
            let index = latencies.len() * percent / 100;
            latencies.get(index).map_or(f64::NAN, |ns| *ns as f64 / 1e3)
        };
        Stretch {
            per_second: self.commits(time) as f64 * SECONDS as f64 / length(time),
            p50_us: at(50),
            p99_us: at(99),
            pulsing: self.pulsing(time),
        }
    }

    fn commits(&self, time: &Range<u64>) -> usize {
        let times = self.seen.committed_ns.iter();
        times.filter(|at| time.contains(at)).count()
    }

    fn pulsing(&self, time: &Range<u64>) -> f64 {
        let looks = self.seen.looks.iter();
        let looks = looks.filter(|look| time.contains(&look.at_ns));
        let all: Vec<bool> = looks.flat_map(|look| look.pulsing.clone()).collect();
        let pulsing = all.iter().filter(|pulsing| **pulsing).count();
        pulsing as f64 / all.len().max(1) as f64
    }

    /// From the beginning of the trouble, the first time at which some replica does not pulse, ns.
    pub(super) fn left_after_ns(&self) -> Option<u64> {
        let began = self.scene.trouble.start;
        let mut looks = self.seen.looks.iter().filter(|look| look.at_ns >= began);
        let left = looks.find(|look| !look.pulsing.iter().all(|pulsing| *pulsing));
        left.map(|look| look.at_ns - began)
    }

    /// From the end of the trouble, when all replicas pulse from there on until the end, ns.
    pub(super) fn back_after_ns(&self) -> Option<u64> {
        let ended = self.scene.trouble.end;
        let looks = self.seen.looks.iter();
        let looks: Vec<_> = looks.filter(|look| look.at_ns >= ended).collect();
        let is_all = |look: &&&Look| look.pulsing.iter().all(|one| *one);
        let steady = looks.iter().rev().take_while(is_all).last()?;
        Some(steady.at_ns - ended)
    }

    /// The longest time without a commit from the beginning of the trouble on, ns.
    pub(super) fn longest_still_ns(&self) -> u64 {
        let began = self.scene.trouble.start;
        let times = self.seen.committed_ns.iter().copied();
        let times = times.filter(|at| *at >= began).chain([UNTIL_NS]);
        let mut last = began;
        times
            .map(|at| at - std::mem::replace(&mut last, at))
            .max()
            .unwrap_or(0)
    }

    /// Views that began from the beginning of the trouble on.
    pub(super) fn views(&self) -> u64 {
        let view = |look: Option<&Look>| look.map_or(0, |look| look.view);
        let began = self.scene.trouble.start;
        let before = self.seen.looks.iter().rfind(|look| look.at_ns < began);
        view(self.seen.looks.last()) - view(before)
    }

    /// Thousands of commands committed a second, by seconds.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let per_ms = |time: &Range<u64>| self.commits(time) as f64 * MILLIS as f64 / length(time);
        in_bins(&per_ms)
    }

    /// How many of the replicas pulse, by seconds.
    pub(super) fn who_pulses(&self) -> Vec<(f64, f64)> {
        let replicas = self.scene.run.replicas as f64;
        in_bins(&|time| self.pulsing(time) * replicas)
    }

    /// What should not be.
    pub(super) fn wrong(&self) -> Vec<String> {
        let [before, _, after] = self.stretches();
        let still = self.longest_still_ns();
        let cases = [
            (before.pulsing < 1.0, "not all pulse before it".to_owned()),
            (
                still > STILL_NS_MAX,
                format!("nothing was committed for {} ms", still / MILLIS),
            ),
            (
                self.back_after_ns().is_none(),
                "not all pulse in the end".to_owned(),
            ),
            (
                after.per_second < 0.95 * before.per_second,
                format!("{:.0} commands/s in the end", after.per_second),
            ),
        ];
        let wrong = cases.into_iter().filter(|(is_so, _)| *is_so);
        wrong
            .map(|(_, what)| format!("{}: {what}", self.scene.name))
            .collect()
    }
}

fn length(time: &Range<u64>) -> f64 {
    (time.end - time.start) as f64
}

/// What it is in every bin, by seconds.
fn in_bins(of: &dyn Fn(&Range<u64>) -> f64) -> Vec<(f64, f64)> {
    let starts = (FROM_NS..UNTIL_NS).step_by(BIN_NS as usize);
    let bin = |at: u64| (at as f64 / SECONDS as f64, of(&(at..at + BIN_NS)));
    starts.map(bin).collect()
}
