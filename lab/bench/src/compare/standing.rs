//! What a cluster costs by being there: CPU while nothing happens, memory and restart with many keys.

use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use serde::Serialize;

use super::{CompareArgs, Crowd, System, Workload, job, start};
use crate::cluster::Cluster;
use quorate_load::load;
use quorate_load::load::rpc::{Call, Channel};
use quorate_tooling::process::{self, Usage};
use quorate_tooling::scrape;
use quorate_tooling::units;

/// One system, standing.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// The system that was measured.
    pub system: System,
    /// While nothing happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// With many keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub many: Option<Many>,
}

/// A cluster without clients.
#[derive(Debug, Clone, Serialize)]
pub struct Idle {
    /// How long it was looked at.
    pub seconds: f64,
    /// CPU time of all replicas, in percent of one core.
    pub cpu_percent: f64,
    /// How often a thread of theirs was woken, per second.
    pub wakeups_per_second: f64,
}

/// A cluster with many keys.
#[derive(Debug, Clone, Serialize)]
pub struct Many {
    /// The number of keys that were loaded.
    pub keys: u64,
    /// Bytes per key.
    pub key_bytes: usize,
    /// Bytes per value.
    pub value_bytes: usize,
    /// To write them all.
    pub load_seconds: f64,
    /// Memory in RAM of the largest replica once they are written, in bytes.
    pub rss_bytes: u64,
    /// From the start of the stopped cluster until every replica answers linearizable reads.
    pub restart_seconds: f64,
    /// Memory in RAM of the largest replica after that, in bytes.
    pub rss_restarted_bytes: u64,
}

/// Measures what was asked for; nothing of the floor, which is no store.
pub(super) fn run(args: &CompareArgs, system: System) -> Result<Option<Standing>, String> {
    if args.idle.is_none() && args.million.is_none() {
        return Ok(None);
    }
    let Some(mut cluster) = start(args, system)? else {
        return Ok(None);
    };
    let idle = args.idle.map(|time| idle(&cluster, time));
    let many = match args.million {
        Some(keys) => Some(many(args, &mut cluster, keys)?),
        None => None,
    };
    eprintln!("{}: idle {idle:?}, keys {many:?}", system.name());
    Ok(Some(Standing { system, idle, many }))
}

fn idle(cluster: &Cluster, time: Duration) -> Idle {
    std::thread::sleep(SETTLE);
    let pids = cluster.pids();
    let (before, began) = (Usage::of(&pids), Instant::now());
    std::thread::sleep(time);
    let (used, seconds) = (
        Usage::of(&pids).since(before),
        began.elapsed().as_secs_f64(),
    );
    Idle {
        seconds,
        cpu_percent: used.cpu_us as f64 / 1e4 / seconds,
        wakeups_per_second: used.wakeups as f64 / seconds,
    }
}

fn many(args: &CompareArgs, cluster: &mut Cluster, keys: u64) -> Result<Many, String> {
    let crowd = Crowd {
        clients: CLIENTS,
        connections: load::CONNECTIONS_DEFAULT_MAX,
    };
    let mut job = job(args, cluster, Workload::Get, crowd);
    (job.load.key_size, job.load.val_size) = (KEY_BYTES, VALUE_BYTES);
    job.load.key_space = Some(keys);
    job.load.warmup = Duration::ZERO;
    // The keys are written before anything is measured: one read is enough.
    (job.load.duration, job.load.total) = (None, Some(1));
    let began = Instant::now();
    let report = load::run(&job)?;
    let load_seconds = began.elapsed().as_secs_f64();
    let found = count(&cluster.endpoints[0])?;
    if found != keys || !report.errors.is_empty() {
        return Err(format!(
            "of {} keys written, {} are there; errors: {:?}",
            units::show_count(keys as f64),
            units::show_count(found as f64),
            report.errors
        ));
    }
    std::thread::sleep(SETTLE);
    let rss_bytes = process::rss_bytes_max(&cluster.pids());
    let restart_seconds = cluster.restart()?.as_secs_f64();
    Ok(Many {
        keys,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        load_seconds,
        rss_bytes,
        restart_seconds,
        rss_restarted_bytes: process::rss_bytes_max(&cluster.pids()),
    })
}

/// Keys in the store, by a linearizable read.
fn count(url: &str) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        let mut channel = Channel::connect(scrape::authority(url)?, ANSWER_TIMEOUT).await?;
        let request = RangeRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            count_only: true,
            ..RangeRequest::default()
        };
        let answer: Result<RangeResponse, _> = channel.call(Call::Range, &request).await;
        let answer = answer.map_err(|failure| format!("{url}: {}", failure.text))?;
        Ok(answer.count.cast_unsigned())
    })
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Before a look at a cluster that was busy.
const SETTLE: Duration = Duration::from_secs(2);
const CLIENTS: u32 = 256;
const KEY_BYTES: usize = 100;
const VALUE_BYTES: usize = 16;
