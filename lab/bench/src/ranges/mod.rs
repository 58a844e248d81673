//! `bench ranges`: how long it takes to read many keys page by page, and as a stream, and what memory servers need for
//! it.
//!
//! Both read the same keys of the same revision from the first replica, in turns. The memory is that of the largest
//! replica while it is read, beyond what it had before.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use clap::Args;
use quorate_etcd_api::etcdserverpb::RangeRequest;
use quorate_face_etcd::client::KvClient;
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Cluster, need_etcd};
use quorate_load::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_tooling::process;
use quorate_tooling::program::Place;
use quorate_tooling::tables::{Table, median};
use quorate_tooling::units;

/// What `bench ranges` can be told.
#[derive(Debug, Clone, Args)]
pub struct RangesArgs {
    /// Keys that are read
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    val_size: usize,
    /// Keys in a page
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(1..))]
    page: i64,
    /// How often each way has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Measure this etcd instead
    #[arg(long, value_name = "FILE")]
    etcd: Option<PathBuf>,
    /// An option of `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// A way to read many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A range after the other, each with a limit.
    Pages,
    /// One call, whose answer comes in parts.
    Stream,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Way::Pages => "pages",
            Way::Stream => "stream",
        })
    }
}

/// One reading of all keys.
#[derive(Debug, Clone, Copy)]
struct Reading {
    seconds: f64,
    memory_bytes: f64,
}

/// Reads them and prints a table.
pub fn run(args: &RangesArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    let cluster = match &args.etcd {
        Some(etcd) => {
            need_etcd(etcd, "leave it out")?;
            Cluster::etcd(etcd, REPLICAS, args.place.parent())?
        }
        None => {
            let program = args.place.binary()?;
            Cluster::quorate(
                &program,
                REPLICAS,
                args.place.parent(),
                &args.quorate_option,
            )?
        }
    };
    fill(args, &cluster)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let ways = [Way::Pages, Way::Stream];
    let mut readings = ways.map(|_| Vec::new());
    for turn in 0..args.turns {
        for step in 0..ways.len() {
            // Who comes first changes with the turn.
            let place = (step + usize::from(turn)) % ways.len();
            let reading = watched(&cluster.pids(), || {
                runtime.block_on(read(args, &cluster.endpoints[0], ways[place]))
            })?;
            eprintln!(
                "turn {} of {}: {}: {:.2} s, {:.0} MiB more memory",
                turn + 1,
                args.turns,
                ways[place],
                reading.seconds,
                reading.memory_bytes / MIB
            );
            readings[place].push(reading);
        }
    }
    print(args, &ways, &readings);
    Ok(())
}

/// Writes every key once.
fn fill(args: &RangesArgs, cluster: &Cluster) -> Result<(), String> {
    let report = load::run(&Job {
        name: "get",
        read_share: 1.0,
        load: LoadArgs {
            clients: FILLERS,
            total: Some(1),
            val_size: args.val_size,
            key_space: Some(args.keys),
            ..LoadArgs::at(cluster.endpoints.clone())
        },
        read: ReadArgs {
            fill: true,
            ..ReadArgs::default()
        },
        verify: VerifyArgs::default(),
    })?;
    match report.errors.is_empty() {
        true => Ok(()),
        false => Err(format!("keys were not written: {:?}", report.errors)),
    }
}

/// Reads with an eye on the memory of these processes.
fn watched(pids: &[u32], read: impl FnOnce() -> Result<f64, String>) -> Result<Reading, String> {
    let before = process::rss_bytes_max(pids);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = before;
            while !is_over.load(Relaxed) {
                most = most.max(process::rss_bytes_max(pids));
                thread::sleep(MEMORY_POLL);
            }
            most
        });
        let seconds = read();
        is_over.store(true, Relaxed);
        let most = most
            .join()
            .map_err(|_| "memory was not watched".to_owned())?;
        Ok(Reading {
            seconds: seconds?,
            memory_bytes: (most - before) as f64,
        })
    })
}

/// Reads all keys; says how many seconds it took.
async fn read(args: &RangesArgs, url: &str, way: Way) -> Result<f64, String> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|error| format!("{url}: {error}"))?;
    let kv = KvClient::new(channel).max_decoding_message_size(usize::MAX);
    let began = Instant::now();
    let count = match way {
        Way::Pages => pages(kv, args.page).await,
        Way::Stream => stream(kv).await,
    };
    let seconds = began.elapsed().as_secs_f64();
    match count {
        Ok(count) if count == args.keys => Ok(seconds),
        Ok(count) => Err(format!("{way}: {count} keys of {} came", args.keys)),
        Err(status) => Err(format!("{way}: {status}")),
    }
}

async fn pages(mut kv: KvClient<Channel>, limit: i64) -> Result<u64, tonic::Status> {
    let (mut count, mut revision) = (0, 0);
    let mut from = ALL.to_vec();
    loop {
        let request = RangeRequest {
            key: from.into(),
            range_end: ALL.into(),
            limit,
            revision,
            ..RangeRequest::default()
        };
        let answer = kv.range(request).await?.into_inner();
        revision = answer.header.map_or(0, |header| header.revision);
        count += answer.kvs.len() as u64;
        match answer.kvs.last() {
            Some(last) if answer.more => from = [&last.key[..], b"\0"].concat(),
            _ => return Ok(count),
        }
    }
}

async fn stream(mut kv: KvClient<Channel>) -> Result<u64, tonic::Status> {
    let request = RangeRequest {
        key: ALL.into(),
        range_end: ALL.into(),
        ..RangeRequest::default()
    };
    let mut parts = kv.range_stream(request).await?.into_inner();
    let mut count = 0;
    while let Some(part) = parts.message().await? {
        count += part.range_response.map_or(0, |range| range.kvs.len()) as u64;
    }
    Ok(count)
}

fn print(args: &RangesArgs, ways: &[Way], readings: &[Vec<Reading>]) {
    let middle = |of: &[Reading], what: fn(&Reading) -> f64| {
        median(of.iter().map(what).collect()).unwrap_or_default()
    };
    let first = middle(&readings[0], |reading| reading.seconds);
    let mut table = Table::new(&["way", "seconds", "to the first", "memory, MiB"]);
    for (way, of) in ways.iter().zip(readings) {
        let seconds = middle(of, |reading| reading.seconds);
        let memory = middle(of, |reading| reading.memory_bytes);
        table.add(vec![
            way.to_string(),
            format!("{seconds:.2}"),
            format!("{:.2}", seconds / first),
            format!("{:.0}", memory / MIB),
        ]);
    }
    println!(
        "{} keys with values of {} B read from one replica of {REPLICAS}, pages of {} keys; medians of {} turns\n\
         {table}",
        args.keys, args.val_size, args.page, args.turns
    );
}

const REPLICAS: u8 = 3;
/// Clients that write the keys.
const FILLERS: u32 = 256;
/// The least key there is, and as the end of a range: all keys from the first on.
const ALL: &[u8] = b"\0";
const MEMORY_POLL: Duration = Duration::from_millis(10);
const MIB: f64 = 1024.0 * 1024.0;
