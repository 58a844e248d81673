//! Latency at the same offered load: an open loop at a rate that every system can take.
//!
//! In a closed loop a slow system is asked less, so that its latencies look better than they are.

use super::{CompareArgs, Comparison, Crowd, Run, System, Workload, job, start};
use quorate_load::load;
use quorate_tooling::tables;
use quorate_tooling::units;

/// Runs every system, in turns, at a share of what the reference takes at most.
pub(super) fn run(args: &CompareArgs, comparison: &mut Comparison) -> Result<(), String> {
    let Some(rate) = rate(args, comparison) else {
        return Ok(());
    };
    let clients = args.clients.iter().copied().max().unwrap_or(1);
    let crowd = Crowd {
        clients,
        connections: clients.min(load::CONNECTIONS_DEFAULT_MAX),
    };
    for pair in 0..args.pairs {
        // The floor has no open loop.
        for &system in args.systems.iter().filter(|one| **one != System::Floor) {
            let Some(cluster) = start(args, system)? else {
                continue;
            };
            let mut job = job(args, &cluster, Workload::Put, crowd);
            job.load.rate = Some(rate);
            let report = load::run(&job)?;
            eprintln!(
                "turn {} of {}: {}, {}/s offered: p99 {}",
                pair + 1,
                args.pairs,
                system.name(),
                units::show_count(rate),
                units::show_ns(report.latency.p99_ns),
            );
            comparison.equal_load.push(Run {
                pair,
                system,
                workload: Workload::Put,
                clients,
                report,
            });
        }
    }
    Ok(())
}

/// Puts per second that all are offered.
fn rate(args: &CompareArgs, comparison: &Comparison) -> Option<f64> {
    let most = |system| {
        let each = args.clients.iter();
        let medians = each.filter_map(|clients| {
            let runs = comparison.runs.iter().filter(|run| {
                (run.system, run.workload, run.clients) == (system, Workload::Put, *clients)
            });
            tables::median(runs.map(|run| run.report.per_second).collect())
        });
        medians.reduce(f64::max)
    };
    let most = most(System::Etcd).or_else(|| most(System::Quorate))?;
    let rate = (most * args.equal_load).floor();
    (rate >= 1.0).then_some(rate)
}
