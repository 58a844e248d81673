//! `quorate up`: a whole cluster on this machine, one process per replica.

mod children;
mod plan;

use crate::Failure;
use crate::face::FaceName;
use crate::genesis;
use crate::modes::{DurabilityMode, LayoutMode, LogFormat, PeerTransport};
use crate::polling::PollingOptions;
use crate::recode::RecodeOptions;
use crate::rounds::RoundOptions;
use crate::snapshots::SnapshotOptions;
use children::{Child, Children, News};
use clap::Args;
use plan::Plan;
use quorate_core::ReplicaId;
use quorate_protocols::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// The options of `quorate up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpOptions {
    /// What clients speak: etcd's API, or keys and values over plain HTTP [default for a new cluster: etcd]
    #[arg(long, env = "QUORATE_FACE", value_name = "NAME")]
    face: Option<FaceName>,

    /// How the replicas agree: rabia, multi-paxos, rs-paxos, racos, chora or nezha [default for a new cluster: rabia]
    #[arg(long, env = "QUORATE_PROTOCOL", value_name = "NAME")]
    protocol: Option<String>,

    /// Number of replicas [default for a new cluster: 3]
    #[arg(long, env = "QUORATE_REPLICAS", value_name = "N")]
    replicas: Option<u16>,

    /// Fragments of each value, one for each replica, and how many of them rebuild it, as in 5,3
    /// [for rs-paxos and racos]
    #[arg(long, env = "QUORATE_CODE", value_name = "N,K")]
    code: Option<Code>,

    /// Folder of the cluster: begun if it is empty or missing, continued otherwise
    #[arg(
        long,
        env = "QUORATE_DATA_DIR",
        value_name = "DIR",
        default_value = "./quorate-data"
    )]
    data_dir: PathBuf,

    /// First port: replica i serves clients on PORT + 2(i-1) and its peers on the port after that
    /// [default for a new cluster: 2379]
    #[arg(long, env = "QUORATE_PORT", value_name = "PORT")]
    port: Option<u16>,

    /// What survives a crash of all replicas [default for a new cluster: disk]
    #[arg(long, env = "QUORATE_DURABILITY", value_name = "MODE")]
    durability: Option<DurabilityMode>,

    /// A parameter of the protocol; may be repeated
    #[arg(
        long,
        env = "QUORATE_PARAM",
        value_name = "NAME=VALUE",
        value_delimiter = ','
    )]
    param: Vec<String>,

    /// Another option for every replica's `quorate serve`; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    server_arg: Vec<String>,

    #[command(flatten)]
    rounds: RoundOptions,

    #[command(flatten)]
    snapshots: SnapshotOptions,

    #[command(flatten)]
    recode: RecodeOptions,

    /// Start a replica again when it dies
    #[arg(long)]
    restart: bool,

    /// Start only replica I of an existing cluster
    #[arg(long, value_name = "I")]
    only: Option<u16>,

    /// Begin the cluster's folders and end; start each replica with --only
    #[arg(long, conflicts_with = "only")]
    begin_only: bool,

    /// How frames travel between the replicas: all by TCP, or short ones by UDP
    #[arg(
        long,
        env = "QUORATE_PEER_TRANSPORT",
        value_name = "TRANSPORT",
        default_value = "tcp"
    )]
    peer_transport: PeerTransport,

    /// What of a replica runs on which thread
    #[arg(
        long,
        env = "QUORATE_LAYOUT",
        value_name = "LAYOUT",
        default_value = "auto"
    )]
    layout: LayoutMode,

    #[command(flatten)]
    polling: PollingOptions,

    /// Level or filter of the replicas' logs
    #[arg(
        long,
        env = "QUORATE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,

    /// How the replicas' logs are written
    #[arg(
        long,
        env = "QUORATE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
}

/// Runs the cluster until it is told to stop.
pub(crate) fn run(options: &UpOptions) -> Result<(), Failure> {
    let plan = Plan::of(options)?;
    options.snapshots.resolve().map_err(Failure::Usage)?;
    options.recode.resolve().map_err(Failure::Usage)?;
    let (layout, replicas) = (plan.layout(options), plan.replicas.into());
    let polling = options.polling.resolve(layout, replicas, Vec::new());
    polling.map_err(Failure::Usage)?;
    let which = plan.which(options.only).map_err(Failure::Usage)?;
    let survived = genesis::failures_survived(&plan.epoch()?, ReplicaId(1))
        .map_err(|why| Failure::Failed(format!("the cluster in {}: {why}", plan.dir.display())))?;
    say(format_args!(
        "cluster {}: {} replicas, protocol {}, durability {}, data in {}",
        plan.cluster,
        plan.replicas,
        plan.protocol,
        plan.durability.name(),
        plan.dir.display()
    ));
    say(format_args!(
        "failures survived: {survived} of {} replicas",
        plan.replicas
    ));
    if options.begin_only {
        say(plan.endpoints(&which));
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| system(&error))?;
    runtime.block_on(supervise(&plan, options, &which))
}

/// Starts the replicas and tells what becomes of them.
async fn supervise(plan: &Plan, options: &UpOptions, which: &[u16]) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| system(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| system(&error))?;
    let start = |id: &u16| Child {
        id: *id,
        command: plan.command(*id, options),
        log: plan.log(*id),
        restart: options.restart,
    };
    let mut children = Children::start(which.iter().map(start).collect());
    let mut watch = Watch::new(plan, which);
    let verdict = loop {
        tokio::select! {
            news = children.news() => {
                if let Some(verdict) = watch.note(news) {
                    break verdict;
                }
            }
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
        }
    };
    if verdict.is_ok() {
        say("stopping");
    }
    let killed = children.stop().await;
    match (verdict, killed.as_slice()) {
        (Err(failure), _) => Err(failure),
        (Ok(()), []) => Ok(()),
        (Ok(()), killed) => Err(Failure::Failed(format!(
            "did not stop in time and had to be killed: replica {}",
            killed
                .iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// What is known of the replicas.
struct Watch<'a> {
    plan: &'a Plan,
    pids: BTreeMap<u16, u32>,
    starting: BTreeSet<u16>,
    running: BTreeSet<u16>,
    which: Vec<u16>,
    announced: bool,
}

impl<'a> Watch<'a> {
    fn new(plan: &'a Plan, which: &[u16]) -> Self {
        Watch {
            plan,
            pids: BTreeMap::new(),
            starting: which.iter().copied().collect(),
            running: BTreeSet::new(),
            which: which.to_vec(),
            announced: false,
        }
    }

    /// Takes note of something, and tells people. `Some` ends the cluster.
    fn note(&mut self, news: News) -> Option<Result<(), Failure>> {
        match news {
            News::Started { id, pid } => self.started(id, pid),
            News::Ready { id } => self.ready(id),
            News::Removed { id } => return self.removed(id),
            News::NotStarted { id, why } => {
                let log = self.plan.log(id);
                return Some(Err(Failure::Failed(format!(
                    "replica {id} did not start: {why} (its log is {})",
                    log.display()
                ))));
            }
            News::Died { id, how, restarts } => return self.died(id, &how, restarts),
        }
        None
    }

    fn started(&mut self, id: u16, pid: u32) {
        self.pids.insert(id, pid);
        say(format_args!(
            "replica {id}: process {pid}, clients {}, peers {}, log {}",
            self.plan.client_url(id),
            self.plan.peer_url(id),
            self.plan.log(id).display()
        ));
    }

    fn ready(&mut self, id: u16) {
        self.starting.remove(&id);
        self.running.insert(id);
        if self.announced {
            say(format_args!("replica {id} serves again"));
        } else if self.starting.is_empty() {
            self.announced = true;
            say(self.plan.endpoints(&self.which));
        }
    }

    /// One that was removed from the cluster is no trouble: the others go on.
    fn removed(&mut self, id: u16) -> Option<Result<(), Failure>> {
        say(format_args!(
            "replica {id} is no member of the cluster any more, and is not started: its data in {} is not \
             needed",
            self.plan.log(id).with_file_name("").display()
        ));
        self.pids.remove(&id);
        self.running.remove(&id);
        self.which.retain(|other| *other != id);
        if self.starting.remove(&id) && self.starting.is_empty() && !self.announced {
            self.announced = true;
            say(self.plan.endpoints(&self.which));
        }
        self.which
            .is_empty()
            .then(|| Err(Failure::Failed("no replica is left".to_owned())))
    }

    fn died(&mut self, id: u16, how: &str, restarts: bool) -> Option<Result<(), Failure>> {
        self.running.remove(&id);
        let pid = self.pids.remove(&id).unwrap_or_default();
        if restarts {
            say(format_args!(
                "replica {id} (process {pid}) died: {how}; starting it again"
            ));
            return None;
        }
        say(format_args!(
            "replica {id} (process {pid}) died: {how}; start it again with: quorate up --data-dir \
             {} --only {id}",
            self.plan.dir.display()
        ));
        let none_left = self.running.is_empty() && self.starting.is_empty();
        none_left.then(|| Err(Failure::Failed("no replica is left".to_owned())))
    }
}

/// Tells people what happens, a line at a time.
fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn system(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("the operating system refused: {error}"))
}
