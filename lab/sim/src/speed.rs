//! `quorate-lab sim speed`: how fast seeds run on one core, every check on.

use crate::options::SimOptions;
use crate::report::Totals;
use crate::simulator::Simulator;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

/// Clients of a cluster under full load, and operations they finish.
const BUSY: (u16, u64) = (64, 5_000);

/// Which seeds are timed.
#[derive(Args, Clone, Debug)]
pub struct SpeedOptions {
    /// As for seeds that are not timed.
    #[command(flatten)]
    pub options: SimOptions,
}

/// What some seeds took.
struct Timed {
    load: &'static str,
    totals: Totals,
    wall_s: f64,
}

/// Times the seeds as they are, and under full load: exit code 0, 1 if a seed broke a promise, 2
/// if the options make no sense.
pub(crate) fn run(speed: &SpeedOptions) -> ExitCode {
    let usual = &speed.options;
    let busy = SimOptions {
        clients: Some(BUSY.0),
        ops: BUSY.1,
        hurt_ms: 0,
        restless: true,
        ..usual.clone()
    };
    let mut all = Vec::new();
    for (load, options) in [("as drawn", usual), ("full", &busy)] {
        match time(load, options) {
            Ok(timed) => all.push(timed),
            Err((why, code)) => {
                eprintln!("error: {why}");
                return ExitCode::from(code);
            }
        }
    }
    if usual.json {
        let all: Vec<Value> = all.iter().map(Timed::as_json).collect();
        println!("{:#}", json!(all));
    } else {
        all.iter().for_each(|timed| println!("{}", timed.line()));
    }
    ExitCode::SUCCESS
}

#[expect(
    clippy::disallowed_methods,
    reason = "wall time is measured outside of every seed"
)]
fn time(load: &'static str, options: &SimOptions) -> Result<Timed, (String, u8)> {
    let simulator = Simulator::new(options).map_err(|why| (why, 2))?;
    let mut totals = Totals::default();
    let began = Instant::now();
    for seed in options.seeds.clone() {
        let report = simulator.seed(seed);
        if let Some(violation) = report.violation {
            return Err((format!("{load}, seed {seed}: {violation}"), 1));
        }
        totals.add(&report.totals);
    }
    let wall_s = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    Ok(Timed {
        load,
        totals,
        wall_s,
    })
}

impl Timed {
    fn simulated_s(&self) -> f64 {
        self.totals.simulated_ns as f64 / 1e9
    }

    fn line(&self) -> String {
        let (ops, simulated_s) = (self.totals.ops as f64, self.simulated_s());
        format!(
            "load {}: {:.0} times real time at {:.0} operations a simulated second; {:.0} operations a second \
             of wall time ({ops} operations, {simulated_s:.1} s simulated in {:.2} s)",
            self.load,
            simulated_s / self.wall_s,
            ops / simulated_s,
            ops / self.wall_s,
            self.wall_s,
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "load": self.load,
            "operations": self.totals.ops,
            "simulated_s": self.simulated_s(),
            "wall_s": self.wall_s,
            "times_real_time": self.simulated_s() / self.wall_s,
            "operations_per_wall_s": self.totals.ops as f64 / self.wall_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_load_is_fuller() {
        let speed: SpeedOptions = crate::parse("--seeds 1 --profile loss").unwrap();
        let usual = speed.options;
        let busy = SimOptions {
            restless: true,
            clients: Some(16),
            ops: 2_000,
            hurt_ms: 0,
            ..usual.clone()
        };
        let rate = |options| {
            let timed = time("", options).ok().unwrap();
            timed.totals.ops as f64 / timed.simulated_s()
        };
        let (drawn, full) = (rate(&usual), rate(&busy));
        assert!(full > 3.0 * drawn, "{full} and {drawn} a second");
    }
}
