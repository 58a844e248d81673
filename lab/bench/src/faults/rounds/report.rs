//! What a round found: a line for people, an object for programs, a table for all of them.

use std::fmt;

use clap::ValueEnum;
use quorate_tooling::tables::{Table, median};
use serde::Serialize;

use super::args::Kind;
use crate::faults::series::{RoundReport, verdict};

/// Everything one round measured and found.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Report {
    pub(super) kind: Kind,
    /// The number of the round, from 0, counted through all kinds.
    pub(super) round: u16,
    /// What keys, values and moments were derived from.
    pub(super) seed: u64,
    /// The replicas that were hurt, from 1; all of them if none.
    pub(super) victims: Vec<usize>,
    /// Puts that were acknowledged.
    pub(super) puts: u64,
    /// Puts whose fate their clients never learned.
    pub(super) unknown: u64,
    /// Operations on shared keys that were checked for linearizability.
    pub(super) checked: u64,
    /// The number of gateways that were killed.
    pub(super) kills: u64,
    /// Writes whose gateway died before it answered, asked for again elsewhere.
    pub(super) asked_again: u64,
    /// Executions of writes under keys of their own.
    pub(super) executed: u64,
    /// Load that ends with the death of all.
    pub(super) load: Option<Stretch>,
    /// Load before anything is hurt.
    pub(super) calm: Option<Stretch>,
    /// Load with the fault in it.
    pub(super) hurt: Option<Stretch>,
    /// Load while the hurt replica comes back.
    pub(super) rejoin: Option<Stretch>,
    /// Errors that clients of healthy replicas got.
    pub(super) errors: u64,
    /// Errors that clients of hurt replicas got.
    pub(super) errors_excused: u64,
    /// From the start of a process until it serves and votes; the longest.
    pub(super) restart_ms: Option<f64>,
    /// From the end of the load until all replicas have applied the same.
    pub(super) catch_up_ms: Option<f64>,
    pub(super) revision: i64,
    pub(super) hash: u32,
    pub(super) violations: Vec<String>,
}

/// A stretch of load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Stretch {
    pub(super) seconds: f64,
    pub(super) puts: u64,
    /// Longest time in which no client of a healthy replica completed a put.
    pub(super) gap_ms: f64,
    pub(super) gap_from_ms: f64,
}

impl Stretch {
    fn per_second(&self) -> f64 {
        self.puts as f64 / self.seconds
    }

    /// Two stretches as one, with the longer of the two gaps.
    pub(super) fn and(self, other: Stretch) -> Stretch {
        let longer = if other.gap_ms > self.gap_ms {
            other
        } else {
            self
        };
        Stretch {
            seconds: self.seconds + other.seconds,
            puts: self.puts + other.puts,
            ..longer
        }
    }
}

impl Report {
    /// By how much the longest gap, of the stretches with the fault and with the return, exceeds
    /// that of the stretch without, in ms.
    fn excess_ms(&self) -> Option<f64> {
        let back = self.rejoin.map_or(0.0, |back| back.gap_ms);
        Some(self.excess_of_fault_ms()?.max(back - self.calm?.gap_ms))
    }

    /// By how much the longest gap of the stretch with the fault alone exceeds that of the stretch without, in ms.
    fn excess_of_fault_ms(&self) -> Option<f64> {
        Some(self.hurt?.gap_ms - self.calm?.gap_ms)
    }
}

impl RoundReport for Report {
    fn title(&self) -> String {
        format!("{} round {}", self.kind, self.round + 1)
    }

    fn violations(&self) -> &[String] {
        &self.violations
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:<8} round {:>3}", self.kind, self.round + 1)?;
        match &self.victims[..] {
            [] if self.kind == Kind::KillGateway => write!(
                out,
                "  {} gateways killed, {} writes asked for again, {} executed",
                self.kills, self.asked_again, self.executed
            )?,
            [] if self.kind == Kind::ReturnAdded => write!(out, "  an added one")?,
            [] => write!(out, "  all      ")?,
            [victim] => write!(out, "  replica {victim}")?,
            victims => write!(out, "  replicas {victims:?}")?,
        }
        if let Some(load) = self.load {
            write!(out, "  load {:.0}/s", load.per_second())?;
        }
        let stretches = [
            ("calm", self.calm),
            ("hurt", self.hurt),
            ("back", self.rejoin),
        ];
        for (name, stretch) in stretches {
            if let Some(stretch) = stretch {
                let (gap, rate) = (stretch.gap_ms, stretch.per_second());
                write!(out, "  {name} gap {gap:.1} ms, {rate:.0}/s")?;
            }
        }
        if let Some(restart) = self.restart_ms {
            write!(out, "  serves after {restart:.0} ms")?;
        }
        if let Some(catch_up) = self.catch_up_ms {
            write!(out, "  equal after {catch_up:.0} ms")?;
        }
        write!(
            out,
            "  puts {} (unknown {})  errors {} (excused {})  checked {}  revision {}  hash {:08x}  {}",
            self.puts,
            self.unknown,
            self.errors,
            self.errors_excused,
            self.checked,
            self.revision,
            self.hash,
            verdict(&self.violations)
        )
    }
}

/// Median and maximum per kind.
pub(super) fn table(rounds: &[Report]) -> String {
    let mut table = Table::new(&[
        "kind",
        "rounds",
        "puts",
        "unknown",
        "errors",
        "checked",
        "gap calm ms",
        "gap hurt ms",
        "gap back ms",
        "serves ms",
        "equal ms",
        "violations",
    ]);
    for &kind in Kind::value_variants() {
        let of_kind: Vec<&Report> = rounds.iter().filter(|one| one.kind == kind).collect();
        if !of_kind.is_empty() {
            table.add(cells(kind, &of_kind));
        }
    }
    format!("\n{table}(figures in ms: median / maximum over the rounds)\n")
}

/// Per kind: in how many rounds a fault cost at most as much service as allowed.
pub(super) fn verdicts(rounds: &[Report]) -> String {
    let of = |kind: Kind| {
        let of_kind = || rounds.iter().filter(|one| one.kind == kind);
        let excesses: Vec<f64> = of_kind().filter_map(Report::excess_ms).collect();
        let of_fault = of_kind().filter_map(Report::excess_of_fault_ms);
        let good_at_once = of_fault.filter(|ms| *ms <= EXCESS_MS_MAX).count();
        let all = excesses.len();
        let most = excesses.iter().copied().reduce(f64::max)?;
        let good = excesses.iter().filter(|ms| **ms <= EXCESS_MS_MAX).count();
        let met = if good as f64 >= GOOD_SHARE * all as f64 {
            "met"
        } else {
            "MISSED"
        };
        Some(format!(
            "{}: the longest gap exceeds that of the calm stretch by at most {EXCESS_MS_MAX} ms in \
             {good} of {all} rounds (at most by {most:.1} ms; by the fault alone, before the return, in \
             {good_at_once}); 19 of 20 wanted: {met}\n",
            kind
        ))
    };
    let kinds = Kind::value_variants().iter();
    kinds.filter_map(|kind| of(*kind)).collect()
}

fn cells(kind: Kind, rounds: &[&Report]) -> Vec<String> {
    let sum = |of: fn(&Report) -> u64| rounds.iter().map(|one| of(one)).sum::<u64>().to_string();
    let ms = |of: fn(&Report) -> Option<f64>| spread(rounds.iter().filter_map(|one| of(one)));
    vec![
        kind.to_string(),
        rounds.len().to_string(),
        sum(|one| one.puts),
        sum(|one| one.unknown),
        sum(|one| one.errors),
        sum(|one| one.checked),
        ms(|one| Some(one.calm?.gap_ms)),
        ms(|one| Some(one.hurt?.gap_ms)),
        ms(|one| Some(one.rejoin?.gap_ms)),
        ms(|one| one.restart_ms),
        ms(|one| one.catch_up_ms),
        sum(|one| one.violations.len() as u64),
    ]
}

/// `median / maximum`.
fn spread(figures: impl Iterator<Item = f64>) -> String {
    let figures: Vec<f64> = figures.collect();
    let max = figures.iter().copied().reduce(f64::max);
    match median(figures).zip(max) {
        Some((median, max)) => format!("{median:.1} / {max:.1}"),
        None => "-".to_owned(),
    }
}

const EXCESS_MS_MAX: f64 = 50.0;
const GOOD_SHARE: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Kind, round: u16) -> Report {
        Report {
            kind,
            round,
            ..Report::default()
        }
    }

    #[test]
    fn the_table_shows_median_and_maximum_of_each_kind_that_ran() {
        let mut rounds: Vec<Report> = (0..3).map(|round| report(Kind::KillOne, round)).collect();
        for (gap_ms, round) in [9.0, 2.0, 4.0].into_iter().zip(&mut rounds) {
            round.hurt = Some(Stretch {
                seconds: 1.0,
                puts: 1,
                gap_ms,
                gap_from_ms: 0.0,
            });
        }
        let table = table(&rounds);
        assert!(table.contains("4.0 / 9.0"), "{table}");
        assert!(!table.contains("pause"), "{table}");
    }

    #[test]
    fn a_verdict_compares_the_worst_stretch_of_a_round_with_its_calm_one() {
        let stretch = |gap_ms| {
            Some(Stretch {
                seconds: 1.0,
                puts: 1,
                gap_ms,
                gap_from_ms: 0.0,
            })
        };
        let mut rounds: Vec<Report> = (0..20).map(|round| report(Kind::Wipe, round)).collect();
        for round in &mut rounds {
            (round.calm, round.hurt) = (stretch(10.0), stretch(60.0));
        }
        rounds[3].rejoin = stretch(60.1);
        let text = verdicts(&rounds);
        assert!(text.contains("50 ms in 19 of 20 rounds"), "{text}");
        assert!(text.contains("wanted: met"), "{text}");
        rounds[4].hurt = stretch(200.0);
        let text = verdicts(&rounds);
        assert!(
            text.contains("18 of 20 rounds (at most by 190.0 ms; by the fault alone, before the return, in 19)"),
            "{text}"
        );
        assert!(text.contains("MISSED"), "{text}");
    }
}
