//! `quorate up`: a whole cluster on this machine, one process per replica.

mod begin;
mod children;
mod cluster_options;
mod import;
mod own_certificates;
mod plan;
mod urls;

pub(crate) use begin::Beginning;
pub(crate) use cluster_options::ClusterOptions;
pub(crate) use own_certificates::OwnCertificates;

use crate::Failure;
use crate::face::FaceName;
use crate::modes::{LayoutMode, LogFormat, PeerTransport};
use crate::new_cluster;
use crate::notify::{ProcessState, notify};
use crate::polling::PollingOptions;
use crate::recode::RecodeOptions;
use crate::redis_options::RedisServerOptions;
use crate::serve::create_files_for_owner_only;
use crate::snapshots::SnapshotOptions;
use children::{Child, ChildEvent, Children};
use clap::Args;
use plan::{Plan, Who};
use quorate_core::ReplicaId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// The options of `quorate up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpOptions {
    /// What clients speak: etcd's API, keys and values over plain HTTP, or Redis's protocol [default for a new cluster:
    /// etcd]
    #[arg(long, env = "QUORATE_FACE", value_name = "NAME")]
    face: Option<FaceName>,

    #[command(flatten)]
    cluster: ClusterOptions,

    /// Gateways beside the replicas: processes without data that clients may write through. With nezha they
    /// stamp requests and count replies; with other protocols they pass everything on
    #[arg(
        long,
        env = "QUORATE_GATEWAYS",
        value_name = "N",
        default_value_t = 0,
        conflicts_with = "only"
    )]
    gateways: u16,

    /// Folder of the cluster: begun if it is empty or missing, continued otherwise
    #[arg(
        long,
        env = "QUORATE_DATA_DIR",
        value_name = "DIR",
        default_value = "./quorate-data"
    )]
    data_dir: PathBuf,

    /// Clients speak TLS: each replica makes itself a certificate, which etcdctl takes with
    /// --insecure-skip-tls-verify, or as --cacert from DIR/I/certificates/client/cert.pem
    #[arg(long, env = "QUORATE_AUTO_TLS", conflicts_with = "gateways")]
    auto_tls: bool,

    /// The replicas speak TLS with each other, by certificates that they make themselves: encrypted, and
    /// open to whoever reaches their ports
    #[arg(long, env = "QUORATE_PEER_AUTO_TLS", conflicts_with = "gateways")]
    peer_auto_tls: bool,

    /// Another option for every replica's `quorate serve`; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    server_arg: Vec<String>,

    #[command(flatten)]
    redis_server: RedisServerOptions,

    /// Begin a cluster with the Redis face with what this RDB file holds, which Redis or Valkey has saved
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    import: Option<PathBuf>,

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
    create_files_for_owner_only();
    let plan = Plan::of(options)?;
    options.snapshots.resolve().map_err(Failure::Usage)?;
    options.recode.resolve().map_err(Failure::Usage)?;
    let (layout, replicas) = (plan.layout(options), plan.replicas.into());
    let polling = options.polling.resolve(layout, replicas, Vec::new());
    polling.map_err(Failure::Usage)?;
    let which = plan.which(options.only).map_err(Failure::Usage)?;
    let survived = new_cluster::failures_survived(&plan.epoch()?, ReplicaId(1))
        .map_err(|why| Failure::Failed(format!("the cluster in {}: {why}", plan.dir.display())))?;
    let face = plan.face().map_err(Failure::Failed)?;
    let store = face.store(&plan.params).map_err(Failure::Failed)?;
    let server = match store {
        Some(store) if store.has_servers() && !options.begin_only => {
            let binary = options.redis_server.binary().map_err(Failure::Failed)?;
            format!(", server {binary}")
        }
        _ => String::new(),
    };
    let store =
        store.map(|store| format!("face {}, store {}{server}, ", face.name(), store.name()));
    say(format_args!(
        "cluster {}: {} replicas, begun with {}, {}durability {}, data in {}",
        plan.cluster,
        plan.replicas,
        plan.protocol,
        store.unwrap_or_default(),
        plan.durability.name(),
        plan.dir.display()
    ));
    say(format_args!(
        "failures survived: {survived} of {} replicas",
        plan.replicas
    ));
    if survived == 0 && plan.replicas > 1 {
        say(format_args!(
            "warning: with {} replicas every one of them is needed, so that more can break than with 1 alone, and \
             none may fail; --replicas 3 survives one failure (with another --data-dir)",
            plan.replicas
        ));
    }
    if options.begin_only {
        let which: Vec<Who> = which.into_iter().map(Who::Replica).collect();
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
    let start = |who: Who| Child {
        who,
        command: plan.command(who, options),
        log: plan.log(who),
        restart: options.restart,
    };
    let replicas = which.iter().map(|id| Who::Replica(*id));
    let gateways = (1..=options.gateways).map(Who::Gateway);
    let all: Vec<Who> = replicas.chain(gateways).collect();
    let mut children = Children::start(all.iter().copied().map(start).collect());
    let mut watch = Watch::new(plan, options, &all);
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
    notify(ProcessState::Stopping);
    let killed = children.stop().await;
    match (verdict, killed.as_slice()) {
        (Err(failure), _) => Err(failure),
        (Ok(()), []) => Ok(()),
        (Ok(()), killed) => Err(Failure::Failed(format!(
            "some processes did not stop in time and were killed: {}",
            killed
                .iter()
                .map(Who::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// What is known of the processes.
struct Watch<'a> {
    plan: &'a Plan,
    /// The flags and words that start a replica as it was started, of that which the folder does not remember.
    again: String,
    pids: BTreeMap<Who, u32>,
    starting: BTreeSet<Who>,
    running: BTreeSet<Who>,
    which: Vec<Who>,
    announced: bool,
}

impl<'a> Watch<'a> {
    fn new(plan: &'a Plan, options: &UpOptions, which: &[Who]) -> Self {
        let server = options.redis_server.flags();
        let mut again: String = server
            .iter()
            .map(|flag| format!(" {}", quoted(flag)))
            .collect();
        // There may be passwords in them.
        if !options.server_arg.is_empty() {
            again += ", and the same --server-arg";
        }
        Watch {
            plan,
            again,
            pids: BTreeMap::new(),
            starting: which.iter().copied().collect(),
            running: BTreeSet::new(),
            which: which.to_vec(),
            announced: false,
        }
    }

    /// Takes note of something, and tells people. `Some` ends the cluster.
    fn note(&mut self, news: ChildEvent) -> Option<Result<(), Failure>> {
        match news {
            ChildEvent::Started { who, pid } => self.started(who, pid),
            ChildEvent::Ready { who } => self.ready(who),
            ChildEvent::Removed { who } => return self.removed(who),
            ChildEvent::NotStarted { who, why } => {
                let log = self.plan.log(who);
                return Some(Err(Failure::Failed(format!(
                    "{who} did not start: {why} (its log is {})",
                    log.display()
                ))));
            }
            ChildEvent::Died { who, how, restarts } => return self.died(who, &how, restarts),
        }
        None
    }

    fn started(&mut self, who: Who, pid: u32) {
        self.pids.insert(who, pid);
        let peers = match who {
            Who::Replica(id) => format!(", peers {}", self.plan.peer_url(id)),
            Who::Gateway(_) => String::new(),
        };
        say(format_args!(
            "{who}: process {pid}, clients {}{peers}, log {}",
            self.plan.client_url(who),
            self.plan.log(who).display()
        ));
    }

    fn ready(&mut self, who: Who) {
        self.starting.remove(&who);
        self.running.insert(who);
        if self.announced {
            say(format_args!("{who} serves again"));
        } else {
            self.maybe_announce();
        }
    }

    /// Prints where clients are served, once all replicas serve.
    fn maybe_announce(&mut self) {
        if self.announced || !self.starting.is_empty() {
            return;
        }
        self.announced = true;
        let (replicas, gateways): (Vec<Who>, Vec<Who>) =
            (self.which.iter()).partition(|who| matches!(who, Who::Replica(_)));
        if !gateways.is_empty() {
            say(format_args!("gateway {}", self.plan.endpoints(&gateways)));
        }
        if let Some(line) = self.plan.admin_endpoints(&replicas) {
            say(line);
        }
        say(self.plan.endpoints(&replicas));
        notify(ProcessState::Ready);
    }

    /// Notes a replica that was removed from the cluster: no trouble, the others go on.
    fn removed(&mut self, who: Who) -> Option<Result<(), Failure>> {
        say(format_args!(
            "{who} is no member of the cluster any more, and is not started: its data in {} is not \
             needed",
            self.plan.log(who).with_file_name("").display()
        ));
        self.pids.remove(&who);
        self.running.remove(&who);
        self.which.retain(|other| *other != who);
        self.starting.remove(&who);
        if !self.has_replicas(self.which.iter()) {
            return Some(Err(Failure::Failed("no replica is left".to_owned())));
        }
        self.maybe_announce();
        None
    }

    fn died(&mut self, who: Who, how: &str, restarts: bool) -> Option<Result<(), Failure>> {
        self.running.remove(&who);
        let pid = self.pids.remove(&who).unwrap_or_default();
        if restarts {
            say(format_args!(
                "{who} (process {pid}) died: {how}; starting it again"
            ));
            return None;
        }
        match who {
            Who::Replica(id) => say(format_args!(
                "{who} (process {pid}) died: {how}; start it again with: quorate up --data-dir \
                 {} --only {id}{}",
                self.plan.dir.display(),
                self.again
            )),
            Who::Gateway(_) => say(format_args!("{who} (process {pid}) died: {how}")),
        }
        let is_left = self.has_replicas(self.running.iter().chain(&self.starting));
        (!is_left).then(|| Err(Failure::Failed("no replica is left".to_owned())))
    }

    fn has_replicas<'b>(&self, mut of: impl Iterator<Item = &'b Who>) -> bool {
        of.any(|who| matches!(who, Who::Replica(_)))
    }
}

/// A word as shells take it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=./:,@%+".contains(letter);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
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
