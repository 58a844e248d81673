//! The figures as a page.

use super::cost::{Cost, DEFAULT_NAME};
use super::points::{BIN_NS, CRASH_NS, Figures, Point, RANGES, RESUMED_PERCENT, WIRING, best};
use quorate_core::{MICROS, MILLIS};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// What the paper says of `S^90` and of the maximum throughput, pulsing over responsive, with 3, 5 and 7
/// replicas.
const PAPER_S90: [f64; 3] = [0.26, 0.11, 0.05];
const PAPER_GAIN: [(usize, f64); 3] = [(3, 3.01 / 2.30), (5, 2.50 / 1.73), (7, 2.44 / 1.59)];

/// The whole page.
pub(super) fn text(figures: &Figures) -> String {
    let mut page = String::new();
    write(&mut page, figures).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, figures: &Figures) -> std::fmt::Result {
    head(page, figures)?;
    lengths(page, figures)?;
    levels(page, figures)?;
    loads(page, figures)?;
    crashes(page, figures)?;
    writeln!(page, "\n## What this does not show\n\n{NOT_SHOWN}")
}

fn head(page: &mut String, figures: &Figures) -> std::fmt::Result {
    let options = &figures.options;
    let Cost {
        message_ns,
        proposal_ns,
        send_ns,
    } = figures.cost;
    let name = options.cost.as_deref().unwrap_or(Path::new(DEFAULT_NAME));
    writeln!(
        page,
        "# Figures of `chora`\n\n\
         What Chora's paper shows of rounds, measured here: `{command}` prints this page, \
         the same for the same seed. Machines run bare in virtual time, in memory, each on a thread of its own; all \
         that costs time is what the protocol thread does. [{name}]({file}) says how much, as measured by `cargo bench \
         -p quorate-protocols`: {message_ns} ns for a message, {proposal_ns} ns more for a proposal in it, {send_ns} ns to \
         say one. A message is on its way for {least} us, and up to {range} us more. Every command is an entry of its \
         own. What replicas deliver is compared; histories of clients are not checked here, as they are in other runs \
         of the simulator.\n",
        command = options.command_line(),
        name = name.display(),
        file = name.file_name().map_or(name, Path::new).display(),
        least = WIRING.least_ns / MICROS,
        range = WIRING.range_ns / MICROS,
    )?;
    if let Some(picture) = &options.plot {
        let name = picture.file_name().map_or(picture.as_path(), Path::new);
        writeln!(page, "![Figures 7 to 10]({})\n", name.display())?;
    }
    Ok(())
}

fn lengths(page: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## Figure 8: the length of rounds\n\n\
         Full load. *T*: the length that is set. *Round*: how long one is. *Dropped*: messages that found {} others \
         waiting, per commit. A round of all pulses costs a replica {}.\n\n\
         | n | T, us | round, us | early | multicasts/commit | commands/s | dropped |\n\
         |--:|--:|--:|--:|--:|--:|--:|",
        super::worker::RING,
        figures
            .options
            .replicas
            .iter()
            .map(|n| format!(
                "{:.2} us with n = {n}",
                figures.cost.round_ns(*n) as f64 / 1e3
            ))
            .collect::<Vec<_>>()
            .join(", "),
    )?;
    for n in &figures.options.replicas {
        let own = |point: &&Point| point.replicas == *n;
        let best = best(&figures.lengths, *n).and_then(|point| point.round_us);
        for point in figures.lengths.iter().filter(own) {
            let mark = if point.round_us == best { "**" } else { "" };
            writeln!(
                page,
                "| {n} | {mark}{}{mark} | {:.2} | {:.0} % | {:.2} | {mark}{:.0}{mark} | {:.2} |",
                point.round_us.unwrap_or(0),
                point.round_mean_us(),
                point.seen.early * 100.0 / point.seen.rounds.max(1.0),
                point.multicasts_per_commit(),
                point.per_second(),
                point.seen.dropped as f64 / point.seen.committed_ns.len().max(1) as f64,
            )?;
        }
        for point in figures.responsive.iter().filter(own) {
            writeln!(
                page,
                "| {n} | responsive | | | {:.2} | {:.0} | {:.2} |",
                point.multicasts_per_commit(),
                point.per_second(),
                point.seen.dropped as f64 / point.seen.committed_ns.len().max(1) as f64,
            )?;
        }
    }
    writeln!(page)?;
    for point in &figures.responsive {
        let Some(full) = best(&figures.lengths, point.replicas) else {
            continue;
        };
        let paper = PAPER_GAIN.iter().find(|(n, _)| *n == point.replicas);
        let paper = paper.map_or(String::new(), |(_, gain)| format!(" (paper: {gain:.2})"));
        writeln!(
            page,
            "With {} replicas pulses commit {:.2} times what is committed without{paper}.",
            point.replicas,
            full.per_second() / point.per_second().max(1.0),
        )?;
    }
    writeln!(page)
}

/// By level of synchrony: how much delays vary, `S^90` in the longest rounds, and kappa.
pub(super) fn kappas(figures: &Figures) -> Vec<(f64, f64, f64)> {
    let level = |range: f64| {
        let own = || {
            figures
                .levels
                .iter()
                .filter(move |point| point.range == range)
        };
        let synchrony = own().next_back().map_or(0.0, |point| point.synchrony(0.9));
        let kappa = own().map(|point| point.efficiency() * point.effectiveness());
        (range, synchrony, kappa.fold(0.0, f64::max))
    };
    RANGES.into_iter().map(level).collect()
}

fn levels(page: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## Figure 9: synchrony\n\n\
         Three replicas under full load. Delays are drawn evenly, for every message anew, from {} us to so much more as \
         is said in times of `d_proc`, the {} ns that a pulse takes its receiver; messages may overtake each other. \
         *S^90* is as in the paper's equation 5, with the sign of the tail as in its equation 4. The paper gives its \
         ranges as 10, 3,000 and 6,000 us. With its `d_proc` of 0.2 us no such range gives its S^90; the same numbers in ns \
         do (about 0.26, 0.10 and 0.06 if the 90th percentile of `d_proc` is 0.77 us), and those are the ranges here. The first is less than the us by which all delays vary: there it is that us.\n\n\
         | delays vary by | S^90, paper | S^90, here | kappa |\n|--:|--:|--:|--:|",
        WIRING.least_ns / MICROS,
        figures.cost.pulse_ns(),
    )?;
    for ((range, synchrony, kappa), paper) in kappas(figures).into_iter().zip(PAPER_S90) {
        writeln!(
            page,
            "| {range} `d_proc` | {paper} | {synchrony:.2} | {kappa:.2} |"
        )?;
    }
    writeln!(
        page,
        "\n| delays vary by | T, us | alpha | beta | alpha beta |\n|--:|--:|--:|--:|--:|"
    )?;
    for point in &figures.levels {
        let (alpha, beta) = (point.efficiency(), point.effectiveness());
        writeln!(
            page,
            "| {} `d_proc` | {} | {alpha:.3} | {beta:.3} | {:.3} |",
            point.range,
            point.round_us.unwrap_or(0),
            alpha * beta,
        )?;
    }
    writeln!(page)
}

fn loads(page: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## Figure 7: latency against throughput\n\n\
         Commands come at random, as many to each replica; a command's latency is from its arrival at a replica until it \
         is committed there. Rounds are as long as is best at full load. The load is in percent of that.\n\n\
         | n | mode | load | commands/s | mean | p90 |\n|--:|---|--:|--:|--:|--:|"
    )?;
    for point in &figures.loads {
        let mode = match point.round_us {
            Some(us) => format!("pulsing, {us} us"),
            None => "responsive".to_owned(),
        };
        writeln!(
            page,
            "| {} | {mode} | {} % | {:.0} | {:.1} us | {:.1} us |",
            point.replicas,
            point.load.unwrap_or(100),
            point.per_second(),
            point.latency_mean_us(),
            point.latency_us(0.9),
        )?;
    }
    writeln!(page)
}

fn crashes(page: &mut String, figures: &Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## Figure 10: a crash\n\n\
         {} replicas under full load, in rounds of the best length; one stops {} ms after the start and does not come back. \
         Nobody is told: its silence is noticed after `stall_ms` = 1 to twice that. *Resumed*: {RESUMED_PERCENT} % of what is \
         committed in the end are, in {} us.\n\n\
         | seed | commands/s before | in the end | resumed after |\n|--:|--:|--:|--:|",
        figures.options.replicas.first().unwrap_or(&0),
        CRASH_NS / MILLIS,
        BIN_NS / MICROS,
    )?;
    for (point, seed) in figures.crashes.iter().zip(figures.options.seed..) {
        let (before, after) = point.before_and_after();
        let resumed = point.resumed_after_ms();
        let resumed = resumed.map_or("never".into(), |ms| format!("{ms:.2} ms"));
        writeln!(page, "| {seed} | {before:.0} | {after:.0} | {resumed} |")?;
    }
    Ok(())
}

const NOT_SHOWN: &str = "\
- *Figure 9's tail*, `beta = C / alpha` where everything goes the slow way: only the shortest rounds have an alpha beyond 1.
- *Several proposals acknowledged at once, without rounds*: every message is a step here, and every step that verifies \
something acknowledges it; the bench's replicas, and the paper's, say less. With 5 and 7 replicas the gain of pulses is too large.
- *Figure 10's shorter rounds* after the crash: a length that is set stays, and `round_us=auto` begins with 20 us more than \
the tail of delays, which is longer than all that is best here.
- *Early exits with delays longer than two rounds*: a round ends early when everybody's pulse of the round before is here, \
which then never happens. The paper's ends early with a message from all peers, of whichever round.
- *Multi-Paxos and Mencius*: `cargo bench -p quorate-protocols` compares Chora with both by instructions.
- *Millions of commands on real wires*: encoding, system calls and the network stack cost nothing here.";

/// The same for machines.
pub(super) fn as_json(figures: &Figures) -> Value {
    let points = |points: &[Point]| points.iter().map(Point::as_json).collect::<Vec<_>>();
    let Cost {
        message_ns,
        proposal_ns,
        send_ns,
    } = figures.cost;
    json!({
        "protocol": super::NAME,
        "seed": figures.options.seed,
        "cost": {"message_ns": message_ns, "proposal_ns": proposal_ns, "send_ns": send_ns},
        "lengths": points(&figures.lengths),
        "responsive": points(&figures.responsive),
        "levels": points(&figures.levels),
        "loads": points(&figures.loads),
        "crashes": points(&figures.crashes),
    })
}

impl Point {
    fn as_json(&self) -> Value {
        json!({
            "replicas": self.replicas,
            "round_us": self.round_us,
            "delays_vary_by": self.range,
            "load_percent": self.load,
            "commands_per_second": self.per_second(),
            "multicasts_per_commit": self.multicasts_per_commit(),
            "round_mean_us": self.round_us.map(|_| self.round_mean_us()),
            "efficiency": self.round_us.map(|_| self.efficiency()),
            "effectiveness": self.round_us.map(|_| self.effectiveness()),
            "synchrony_90": self.synchrony(0.9),
            "synchrony_99": self.synchrony(0.99),
            "latency_mean_us": self.latency_mean_us(),
            "latency_p90_us": self.latency_us(0.9),
            "dropped": self.seen.dropped,
        })
    }
}
