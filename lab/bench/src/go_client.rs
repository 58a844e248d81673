//! Load by etcd's official client library, in a process of its own (`scripts/load-go`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde::Deserialize;

use quorate_load::latency::LatencySummary;
use quorate_load::load::Job;
use quorate_load::report::{Report, ServerCosts};
use quorate_tooling::children::{Tether, Tethered, lines};
use quorate_tooling::process::Usage;
use quorate_tooling::scrape::Counters;

/// Says what to do where the program is not there.
pub(crate) fn need(program: &Path) -> Result<(), String> {
    match program.is_file() {
        true => Ok(()),
        false => Err(format!(
            "there is no Go client at {}: run scripts/build-load-go.sh, name another with --go-client, or leave \
             --client go out",
            program.display()
        )),
    }
}

/// Runs a load of puts alone or of gets alone and returns what was measured.
///
/// # Errors
/// The program could not be started or ended too early, or the job is one that it cannot do.
pub(crate) fn run(program: &Path, job: &Job) -> Result<Report, String> {
    let load = &job.load;
    job.check()?;
    if load.rate.is_some() || load.total.is_some() || !matches!(job.read_share, 0.0 | 1.0) {
        return Err("the Go client has neither rates, totals nor mixed loads".to_owned());
    }
    if load.user.is_some() || load.endpoints.iter().any(|url| url.starts_with("https:")) {
        return Err("the Go client neither speaks TLS nor logs in".to_owned());
    }
    let mut client = Client::start(program, job)?;
    if job.read.fill {
        client.phase("fill", PATIENCE)?;
    }
    if !load.warmup.is_zero() {
        client.run(load.warmup)?;
    }
    let counters = || Counters::scrape(&load.metrics);
    let before = (Usage::of(&load.server_pids), counters());
    let found = client.run(load.duration.unwrap_or(DURATION))?;
    let usage = Usage::of(&load.server_pids).since(before.0);
    let mut report = Report::new(job.name);
    report.clients = load.clients;
    report.connections = job.connections();
    report.value_bytes = load.val_size;
    report.seconds = found.seconds;
    report.operations = found.latency.count;
    report.per_second = found.latency.count as f64 / found.seconds.max(f64::MIN_POSITIVE);
    report.generator_cpu_us_per_op = found.cpu_us as f64 / found.latency.count.max(1) as f64;
    report.latency = found.latency;
    report.misses = found.misses;
    report.errors = found.errors;
    let mut costs = ServerCosts::from_usage(usage, report.operations);
    if let Some((before, after)) = before.1.zip(counters()) {
        costs.set_counters(after.since(before));
    }
    report.servers = Some(costs);
    Ok(report)
}

/// What the program prints of a phase.
#[derive(Debug, Deserialize)]
struct Found {
    seconds: f64,
    latency: LatencySummary,
    misses: u64,
    errors: BTreeMap<String, u64>,
    cpu_us: u64,
}

/// The program while it runs.
struct Client {
    input: ChildStdin,
    output: Receiver<String>,
    _process: Tethered,
}

impl Client {
    /// Starts the program, and waits until all its connections have had an answer.
    fn start(program: &Path, job: &Job) -> Result<Client, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot start the Go client {}: {error}", program.display())
        };
        let load = &job.load;
        let arguments = [
            format!("-endpoints={}", load.endpoints.join(",")),
            format!(
                "-operation={}",
                if job.read_share > 0.0 { "get" } else { "put" }
            ),
            format!("-clients={}", load.clients),
            format!("-conns={}", job.connections()),
            format!("-key-bytes={}", load.key_size),
            format!("-value-bytes={}", load.val_size),
            format!("-keys={}", job.key_space()),
            format!("-timeout={}ms", load.timeout.as_millis()),
        ];
        let mut process = Tethered::program(
            OsStr::new(program),
            arguments,
            &Tether::killing(),
            |command| {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
            },
        )
        .map_err(|error| failed(&error))?;
        let (input, output) = (process.child().stdin.take(), process.child().stdout.take());
        let client = Client {
            input: input.ok_or_else(|| failed(&"no standard input"))?,
            output: lines(output.ok_or_else(|| failed(&"no standard output"))?),
            _process: process,
        };
        match client.line(PATIENCE)?.as_str() {
            "ready" => Ok(client),
            other => Err(format!(
                "the Go client printed {other:?}, and not that it is ready"
            )),
        }
    }

    /// Has every client ask, again and again, for so long.
    fn run(&mut self, time: Duration) -> Result<Found, String> {
        self.phase(&format!("run {}", time.as_millis()), time + PATIENCE)
    }

    fn phase(&mut self, phase: &str, patience: Duration) -> Result<Found, String> {
        writeln!(self.input, "{phase}")
            .map_err(|error| format!("the Go client has ended: {error}"))?;
        let line = self.line(patience)?;
        serde_json::from_str(&line)
            .map_err(|error| format!("the Go client printed {line:?}, and no result: {error}"))
    }

    fn line(&self, patience: Duration) -> Result<String, String> {
        let line = self.output.recv_timeout(patience);
        line.map_err(|_| "the Go client has ended, or printed no result in time".to_owned())
    }
}

const DURATION: Duration = Duration::from_secs(10);
/// Longer than it takes to connect, and to fill the keys of a slow cluster.
const PATIENCE: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_load::load::{LoadArgs, ReadArgs, VerifyArgs};

    fn job(warmup: Duration) -> Job {
        Job {
            name: "get",
            read_share: 1.0,
            load: LoadArgs {
                warmup,
                duration: Some(Duration::from_secs(2)),
                ..LoadArgs::at(vec!["http://127.0.0.1:1".to_owned()])
            },
            read: ReadArgs {
                fill: true,
                serializable: false,
            },
            verify: VerifyArgs::default(),
        }
    }

    #[test]
    fn what_the_program_cannot_do_is_refused_before_it_is_started() {
        let mut job = job(Duration::ZERO);
        job.load.rate = Some(10.0);
        let why = run(Path::new("/nowhere"), &job).unwrap_err();
        assert!(why.contains("rates"), "{why}");
        assert!(
            need(Path::new("/nowhere"))
                .unwrap_err()
                .contains("build-load-go")
        );
    }

    /// Scenario: a program's line about a phase, as the one in Go prints it.
    #[test]
    fn a_line_of_the_program_is_a_result() {
        let line = r#"{"seconds":2.0,"latency":{"count":3,"mean_ns":5,"p50_ns":4,"p90_ns":6,"p99_ns":7,
            "p999_ns":8,"max_ns":9},"misses":1,"errors":{"lost":2},"cpu_us":30}"#;
        let found: Found = serde_json::from_str(line).unwrap();
        assert_eq!((found.latency.count, found.latency.p99_ns), (3, 7));
        assert_eq!(
            (found.misses, found.cpu_us, found.errors["lost"]),
            (1, 30, 2)
        );
    }
}
