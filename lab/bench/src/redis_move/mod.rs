//! `bench redis-move`: a Redis with many keys is moved into a cluster while clients write to it, and out of it again.
//!
//! What is compared at the end is the server that was moved and one that loads what the cluster exports: the digest of
//! all values (`DEBUG DIGEST`), the type and the time to live of every key, and the functions.

mod contents;
mod server;
mod writers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::launch::{Launch, Running, StandardOutput};
use quorate_tooling::program::Place;
use quorate_tooling::terminal::say;
use quorate_tooling::units;

use crate::cluster::Cluster;
use contents::{Contents, KINDS, OWN_KINDS, fill};
use server::Server;
use writers::{Pace, Writers};

/// The options of `bench redis-move`.
#[derive(Debug, Clone, Args)]
pub struct RedisMoveArgs {
    /// Keys that the server has when it is moved
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Clients that write meanwhile
    #[arg(long, default_value_t = 4)]
    writers: usize,
    /// Writes that they all together begin in a second, at most; 0 for no bound, which few machines catch up with
    #[arg(long, default_value_t = 5000, value_name = "OPS")]
    rate: u64,
    /// How long they write while the server is followed, before the cutover
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    following: Duration,
    /// The Redis or Valkey executable
    #[arg(long, env = "REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,
    /// Move it into Quorate's own store, and fill the server with what that has
    #[arg(long)]
    embedded: bool,
    /// The protocol of the cluster
    #[arg(long, default_value = "rabia")]
    protocol: String,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    /// The longest time that any step may take
    #[arg(long, default_value = "15m", value_parser = units::duration)]
    patience: Duration,
    #[command(flatten)]
    place: Place,
}

/// Moves a server in and out, and prints how long each step took.
pub fn run(args: &RedisMoveArgs) -> Result<(), String> {
    cleanup::on_interrupt();
    let binary = args.place.binary()?;
    let directory = TempDir::new(args.place.parent()).map_err(|error| error.to_string())?;
    let folder = |name: &str| directory.path().join(name);
    let source = Server::start(&args.redis_server, &folder("source"), args.patience)?;
    let began = Instant::now();
    let kinds = if args.embedded { OWN_KINDS } else { KINDS };
    fill(&source, args.keys, kinds)?;
    step("filled", &format!("{} keys", args.keys), began);

    let options = [
        "--face=redis".to_owned(),
        format!("--protocol={}", args.protocol),
    ];
    let server = format!("--redis-server={}", args.redis_server.display());
    let server = if args.embedded { vec![] } else { vec![server] };
    let options = [&options[..], &server, &args.quorate_option].concat();
    let cluster = Cluster::quorate(&binary, REPLICAS, args.place.parent(), &options)?;
    let endpoints = cluster.endpoints.join(",");
    let pace = Pace::new(args.rate, args.writers);
    let writers = Writers::start(&source, args.writers, (args.keys, kinds), pace)?;
    let began = Instant::now();
    let import = Import {
        binary: &binary,
        directory: directory.path(),
        endpoints: &endpoints,
        server: &server,
    };
    let _import = import.start(&source, args)?;
    let during = format!("{} writes meanwhile", writers.done());
    step("imported", &during, began);
    let (before, began) = (writers.done(), Instant::now());
    std::thread::sleep(args.following);
    let during = format!("{} writes meanwhile", writers.done() - before);
    step("followed", &during, began);

    let began = Instant::now();
    let from = format!("--from={}", source.place());
    let said = operate(&binary, &["redis", "cutover", &from], &endpoints)?;
    let line = said.lines().next().unwrap_or_default();
    step("cut over", line, began);
    drop(writers);

    let began = Instant::now();
    let file = folder("exported.rdb");
    let path = file.display().to_string();
    operate(&binary, &["redis", "export", &path], &endpoints)?;
    let bytes = std::fs::metadata(&file).map_or(0, |found| found.len());
    step("exported", &units::show_bytes(bytes), began);
    let began = Instant::now();
    let copy = Server::load(&args.redis_server, &folder("copy"), &file, args.patience)?;
    step("loaded", "into a server of the same version", began);

    let began = Instant::now();
    let (there, here) = (Contents::of(&source)?, Contents::of(&copy)?);
    let counted = format!("{} keys, {} with an end", here.keys, here.ending);
    step("compared", &counted, began);
    match there == here {
        true => {
            println!("equal: values, types, times to live and functions");
            Ok(())
        }
        false => Err(format!(
            "they differ: {there:?} was moved, {here:?} came out"
        )),
    }
}

/// `quorate redis import`, as it is started.
struct Import<'a> {
    binary: &'a Path,
    directory: &'a Path,
    endpoints: &'a str,
    /// The option that names the real server of the cluster, if it has one.
    server: &'a [String],
}

impl Import<'_> {
    /// Follows a server, until this is dropped; everything is there.
    fn start(&self, source: &Server, args: &RedisMoveArgs) -> Result<Running, String> {
        let arguments = [
            "redis".to_owned(),
            "import".to_owned(),
            format!("--from={}", source.place()),
            format!("--scratch-dir={}", self.directory.display()),
            format!("--endpoints={}", self.endpoints),
        ];
        let arguments = [&arguments[..], self.server].concat();
        let log = self.directory.join("import.log");
        let launch = Launch {
            output: StandardOutput::Read,
            ..Launch::new(self.binary, arguments, log)
        };
        let mut import = launch.start()?;
        let deadline = Instant::now() + args.patience;
        let follows = |line: &str| line.starts_with("following ").then_some(());
        import.wait_for(deadline, follows)?;
        Ok(import)
    }
}

/// Replicas of the cluster.
const REPLICAS: u8 = 3;

fn step(what: &str, more: &str, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    say(format_args!("{what:<9} {seconds:>8.2} s  {more}"));
}

/// What a command of `quorate` prints that asks these endpoints.
fn operate(binary: &Path, words: &[&str], endpoints: &str) -> Result<String, String> {
    let output = Command::new(binary)
        .args(words)
        .args(["--endpoints", endpoints])
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("quorate {}: {}", words.join(" "), why.trim()))
        }
    }
}
