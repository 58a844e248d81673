//! Clusters of processes on this machine, each in its turn.

use serde::Serialize;

use super::ProtocolsArgs;
use crate::cluster::Cluster;
use quorate_load::load::{Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_protocols::yardsticks;
use quorate_sim::per_write::{Crowd, Way};
use quorate_tooling::tables::median;

/// Bytes of a value.
const VALUE_BYTES: usize = 256;

/// What so many clients saw: medians of all turns.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OnMachine {
    #[serde(flatten)]
    pub(super) crowd: Crowd,
    /// CPU time of all replicas for a write, us.
    pub(super) cpu_us: f64,
}

/// By way, what was measured; who comes first changes with the turn.
pub(super) fn measure(args: &ProtocolsArgs, ways: &[Way]) -> Result<Vec<Vec<OnMachine>>, String> {
    let mut reports: Vec<Vec<Vec<Report>>> = vec![vec![Vec::new(); args.clients.len()]; ways.len()];
    for turn in 0..args.turns {
        let mut order: Vec<usize> = (0..ways.len()).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for at in order {
            eprintln!("turn {} of {}: {}", turn + 1, args.turns, ways[at].name);
            let cluster = start(args, &ways[at])?;
            for (of_crowd, clients) in reports[at].iter_mut().zip(&args.clients) {
                let report = args.generator.run(&job(args, &cluster, *clients))?;
                if !report.errors.is_empty() {
                    return Err(format!(
                        "{}: puts failed: {:?}",
                        ways[at].name, report.errors
                    ));
                }
                of_crowd.push(report);
            }
        }
    }
    let of_way = |by_crowd: &Vec<Vec<Report>>| {
        let crowds = by_crowd.iter().zip(&args.clients);
        crowds
            .map(|(reports, clients)| of_turns(*clients, reports))
            .collect()
    };
    Ok(reports.iter().map(of_way).collect())
}

fn of_turns(clients: u32, reports: &[Report]) -> OnMachine {
    let middle = |figure: &dyn Fn(&Report) -> f64| {
        median(reports.iter().map(figure).collect()).unwrap_or(f64::NAN)
    };
    let cpu_us = |report: &Report| {
        let servers = report.servers.as_ref();
        servers.map_or(f64::NAN, |servers| servers.cpu_us_per_op)
    };
    OnMachine {
        crowd: Crowd {
            clients,
            writes_per_second: middle(&|report| report.per_second),
            p50_us: middle(&|report| report.latency.p50_ns as f64 / 1e3),
        },
        cpu_us: middle(&cpu_us),
    }
}

fn start(args: &ProtocolsArgs, way: &Way) -> Result<Cluster, String> {
    let mut options = vec![format!("--protocol={}", way.protocol)];
    if yardsticks().contains(&way.protocol) {
        options.push("--allow-measurement-protocol".to_owned());
    }
    let params = way.params.iter();
    options.extend(params.map(|(name, value)| format!("--param={name}={value}")));
    let binary = &args.place.binary()?;
    Cluster::quorate(binary, args.replicas, args.place.parent(), &options)
}

fn job(args: &ProtocolsArgs, cluster: &Cluster, clients: u32) -> Job {
    let most = args.generator.client.connections_default_max();
    Job {
        name: "put",
        read_share: 0.0,
        load: LoadArgs {
            clients,
            conns: Some(most.min(clients)),
            duration: Some(args.duration),
            warmup: args.warmup,
            val_size: VALUE_BYTES,
            server_pids: cluster.pids(),
            ..LoadArgs::at(cluster.endpoints.clone())
        },
        read: ReadArgs::default(),
        verify: VerifyArgs::default(),
    }
}
