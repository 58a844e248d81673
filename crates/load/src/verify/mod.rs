//! `bench verify`: random values of a large sum written to a cluster of its own, and all of them read
//! back through every replica, byte for byte.
//!
//! Nothing but the seed is remembered of the values. What is reported beside: whether `etcdctl` sees
//! the same values, what each replica takes of the disk, and whether its memory kept its bound.

mod etcdctl;
mod footprint;
mod passes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::replicas::Replicas;
use crate::trial::{ClusterArgs, Values};
use footprint::Footprint;
use passes::{Pass, Plan};
use quorate_tooling::cleanup;
use quorate_tooling::terminal::say;
use quorate_tooling::units::{self, show_bytes, show_count};

/// The options of `bench verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Bytes of all values together
    #[arg(long, default_value = "1GiB", value_parser = units::bytes)]
    total: usize,
    /// Bytes of each value
    #[arg(long, default_value = "1MiB", value_parser = units::bytes)]
    size: usize,
    /// Operations at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Bytes of values that each replica may keep whole in memory
    #[arg(long, default_value = "256MiB", value_parser = units::bytes)]
    value_cache: usize,
    /// Most memory of a replica that is no violation, besides its cache of values: by default what may
    /// wait to be ordered, what may be on its way to clients, and 128 MiB
    #[arg(long, default_value = "512MiB", value_parser = units::bytes)]
    memory_beside: usize,
    /// Values that etcdctl is asked for, too
    #[arg(long, default_value_t = 16)]
    samples: u16,
    /// The etcdctl to ask [default: the one on the PATH, if any]
    #[arg(long)]
    etcdctl: Option<PathBuf>,
}

/// Runs it: 0 when all values were found and memory kept its bound, 1 otherwise, 2 when it could not
/// run.
pub fn run(args: &VerifyArgs) -> ExitCode {
    cleanup::on_interrupt();
    match verify(args) {
        Ok(wrong) if wrong.is_empty() => {
            println!("no violation");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            for violation in wrong.iter().take(SHOWN) {
                println!("violation: {violation}");
            }
            println!("{} violations", wrong.len());
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// What is wrong.
fn verify(args: &VerifyArgs) -> Result<Vec<String>, String> {
    let plan = plan(args)?;
    let needed = footprint::needed(args.total as u64, &args.cluster);
    footprint::check_space(args.cluster.place.parent(), needed)?;
    let server_args = [
        format!("--value-cache-bytes={}", args.value_cache),
        format!("--max-request-bytes={}", args.size + REQUEST_BYTES_EXTRA),
    ];
    let replicas = args.cluster.begin(&server_args)?;
    say(format_args!(
        "{}; {} values of {}, {} in all, seed {}, data in {}",
        args.cluster.title(),
        show_count(plan.count as f64),
        show_bytes(args.size as u64),
        show_bytes(plan.bytes()),
        plan.seed,
        replicas.directory().display()
    ));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let mut wrong = pass(&runtime, Pass::write(&plan, &replicas.endpoints), "written")?;
    for (index, url) in replicas.endpoints.iter().enumerate() {
        let what = format!("read through replica {}", index + 1);
        wrong.extend(pass(&runtime, Pass::read(&plan, url), &what)?);
    }
    wrong.extend(etcdctl::sample(
        args.etcdctl.as_deref(),
        args.samples,
        &plan,
        &replicas.endpoints,
    ));
    wrong.extend(footprints(args, &replicas));
    Ok(wrong)
}

fn plan(args: &VerifyArgs) -> Result<Plan, String> {
    let count = (args.total / args.size.max(1)) as u64;
    if count == 0 {
        return Err(format!(
            "--total {} is less than one value of --size {}",
            args.total, args.size
        ));
    }
    let seed = args.cluster.seed();
    Ok(Plan {
        seed,
        values: Values::new(seed),
        count,
        size: args.size,
        clients: args.clients,
    })
}

/// Runs a pass and says how long it took; what is wrong.
fn pass(runtime: &tokio::runtime::Runtime, pass: Pass, what: &str) -> Result<Vec<String>, String> {
    let (began, bytes) = (Instant::now(), pass.bytes());
    let wrong = runtime.block_on(pass.run())?;
    let took = began.elapsed();
    say(format_args!(
        "{what} in {}: {}",
        seconds(took),
        rate(bytes, took)
    ));
    Ok(wrong)
}

fn footprints(args: &VerifyArgs, replicas: &Replicas) -> Vec<String> {
    let found: Vec<Footprint> = (0..replicas.endpoints.len())
        .map(|index| Footprint::of(replicas, index))
        .collect();
    print!("{}", footprint::table(&found, args.total as u64));
    let bound = (args.value_cache + args.memory_beside) as u64;
    println!(
        "memory: bound {} (values {}, all else {})",
        show_bytes(bound),
        show_bytes(args.value_cache as u64),
        show_bytes(args.memory_beside as u64)
    );
    let over = |(index, found): (usize, &Footprint)| {
        (found.memory_peak > bound).then(|| {
            let peak = show_bytes(found.memory_peak);
            format!("replica {} had {peak} in memory", index + 1)
        })
    };
    found.iter().enumerate().filter_map(over).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn rate(bytes: u64, time: Duration) -> String {
    let per_second = bytes as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
    format!("{}/s", show_bytes(per_second as u64))
}

/// Room in a request for what is around a value.
const REQUEST_BYTES_EXTRA: usize = 64 << 10;
const SHOWN: usize = 12;
