//! The processes of an exchange: started from this program, and started again when they die.

use super::place::{ExchangeOptions, Places};
use quorate::Durability;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// The pause before a process that died is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(300);

/// A process that runs for as long as this is kept.
#[derive(Debug)]
pub(super) struct Supervised {
    /// The process's id, or 0 while it does not run.
    pid: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

/// What a process is started with.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    path: PathBuf,
    args: Vec<String>,
    log: PathBuf,
}

/// All processes of an exchange.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) replicas: Vec<Supervised>,
    pub(super) gateways: Vec<Supervised>,
}

impl Program {
    fn spawn(&self) -> io::Result<Child> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        Command::new(&self.path)
            .args(&self.args)
            // Its end of this pipe tells it when this process is gone, however that dies.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
    }

    async fn supervise(self, pid: Arc<AtomicU32>, first: Child, tells: bool) {
        let mut child = first;
        loop {
            let id = child.id().unwrap_or_default();
            pid.store(id, Ordering::Relaxed);
            // Waiting would close it, and the process takes that for the end of this one.
            let pipe = child.stdin.take();
            let ended = child.wait().await;
            pid.store(0, Ordering::Relaxed);
            drop(pipe);
            if tells && let Ok(status) = ended {
                eprintln!(
                    "{} (process {id}) ended: {status}; it is started again",
                    self.name
                );
            }
            child = loop {
                tokio::time::sleep(RESTART_PAUSE).await;
                match self.spawn() {
                    Ok(child) => break child,
                    Err(error) => eprintln!("{} does not start: {error}", self.name),
                }
            };
        }
    }
}

impl Supervised {
    fn start(program: Program, tells: bool) -> io::Result<Supervised> {
        let first = program.spawn()?;
        let pid = Arc::new(AtomicU32::new(first.id().unwrap_or_default()));
        let task = tokio::spawn(program.supervise(Arc::clone(&pid), first, tells));
        Ok(Supervised { pid, task })
    }

    /// The process's id, unless it has died and is not started again yet.
    pub(super) fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// Kills the process, as a crash does; says whether there was one.
    pub(super) fn kill(&self) -> bool {
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Processes {
    /// Starts an exchange. `links` says where gateway and replica are to be reached by each other.
    pub(super) fn start(
        program: &Path,
        options: &ExchangeOptions,
        places: &Places,
        links: impl Fn(usize, usize) -> String,
        tells: bool,
    ) -> io::Result<Processes> {
        fs::create_dir_all(&options.folder)?;
        let one = |name: String, args| {
            let log = options.folder.join(format!("{name}.log"));
            let path = program.to_owned();
            Supervised::start(
                Program {
                    name,
                    path,
                    args,
                    log,
                },
                tells,
            )
        };
        let replicas = (0..places.replicas.len()).map(|at| {
            let args = replica_args(options, places, at);
            one(format!("replica-{}", at + 1), args)
        });
        let replicas = replicas.collect::<io::Result<_>>()?;
        let gateways = (0..places.orders.len()).map(|at| {
            let links: Vec<String> = (0..places.replicas.len()).map(|to| links(at, to)).collect();
            one(
                format!("gateway-{}", at + 1),
                gateway_args(options, places, at, &links),
            )
        });
        Ok(Processes {
            replicas,
            gateways: gateways.collect::<io::Result<_>>()?,
        })
    }
}

fn args(pairs: &[(&str, String)]) -> impl Iterator<Item = String> {
    let words = pairs
        .iter()
        .flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
    words.collect::<Vec<_>>().into_iter()
}

/// A command, with the options that have no value.
fn command(name: &str, options: &ExchangeOptions) -> impl Iterator<Item = String> {
    let cancels = options.cancels_on_disconnect;
    let words = [name, "--with-parent"].into_iter();
    let words = words.chain(cancels.then_some("--cancel-on-disconnect"));
    words.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn replica_args(options: &ExchangeOptions, places: &Places, at: usize) -> Vec<String> {
    let folder = options.folder.join(format!("replica-{}", at + 1));
    let durability = match options.durability {
        Durability::Disk => "disk",
        Durability::Memory => "memory",
    };
    let pairs = [
        ("id", (at + 1).to_string()),
        ("members", places.peers.join(",")),
        ("gateways", places.replicas[at].clone()),
        ("folder", folder.display().to_string()),
        ("protocol", options.protocol.name().to_owned()),
        ("durability", durability.to_owned()),
        ("delay", (options.order_delay_ns / 1000).to_string()),
        ("engine-rate", options.engine_rate.to_string()),
        ("hold", (options.hold_ns / 1000).to_string()),
        ("symbols", options.symbols.to_string()),
        ("participants", options.participants.to_string()),
    ];
    let late = options
        .late_per_million
        .map(|late| ("late-per-million", late.to_string()));
    let words = command("replica", options).chain(args(&pairs));
    words.chain(args(late.as_slice())).collect()
}

fn gateway_args(
    options: &ExchangeOptions,
    places: &Places,
    at: usize,
    links: &[String],
) -> Vec<String> {
    let folder = options.folder.join(format!("gateway-{}", at + 1));
    let pairs = [
        ("id", (at + 1).to_string()),
        ("replicas", links.join(",")),
        ("orders", places.orders[at].clone()),
        ("feed", places.feeds[at].clone()),
        ("web", places.webs[at].clone()),
        ("listen-fix", places.fixes[at].clone()),
        ("folder", folder.display().to_string()),
    ];
    let tokens = options.tokens.iter();
    let tokens = tokens.map(|path| ("tokens", path.display().to_string()));
    let tokens: Vec<_> = tokens.collect();
    let words = command("gateway", options).chain(args(&pairs));
    words.chain(args(&tokens)).collect()
}
