//! The replicas' processes: `quorate serve`, each started, hurt and started again by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::process::Signal;

use super::args::ChaosArgs;
use super::disk;
use super::ground::Ground;
use crate::serving::{Serve, begin_folders};
use crate::test_source;
use quorate_load::replicas::wait_voting;
use quorate_tooling::children::{self, Tether};
use quorate_tooling::launch::{Launch, Running, last_lines, without_options};
use quorate_tooling::scrape;

/// All replicas of the cluster.
#[derive(Debug)]
pub(super) struct Replicas {
    pub(super) ground: Ground,
    /// Where they serve clients, in their order.
    pub(super) endpoints: Vec<String>,
    binary: PathBuf,
    options: Vec<String>,
    cluster: String,
    directory: PathBuf,
    nodes: Vec<Node>,
    patience: Duration,
}

/// The process of one replica.
#[derive(Debug, Default)]
struct Node {
    process: Option<Running>,
    is_paused: bool,
    /// Grows with every start and end: requests whose answers came in different lives of the
    /// replica are told apart by it.
    life: Arc<AtomicU64>,
}

impl Replicas {
    /// Begins a cluster below `directory` and starts every replica.
    pub(super) fn begin(
        args: &ChaosArgs,
        directory: &Path,
        ground: Ground,
    ) -> Result<Replicas, String> {
        let binary = args.faults.place.binary()?;
        let count = usize::from(args.replicas);
        let endpoints = (0..count).map(|replica| format!("http://{}", ground.client(replica)));
        let mut replicas = Replicas {
            endpoints: endpoints.collect(),
            ground,
            binary,
            options: args.faults.server_arg.clone(),
            cluster: String::new(),
            directory: directory.to_owned(),
            nodes: (0..count).map(|_| Node::default()).collect(),
            patience: args.faults.patience,
        };
        replicas.bootstrap(args)?;
        for replica in 0..count {
            replicas.start(replica)?;
        }
        for replica in 0..count {
            replicas.wait_voting(replica)?;
        }
        Ok(replicas)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The life a replica is in: another number after each start and each end.
    pub(super) fn life(&self, replica: usize) -> Arc<AtomicU64> {
        Arc::clone(&self.nodes[replica].life)
    }

    /// Where a replica's disk is, in a directory for everything.
    pub(super) fn disk_at(directory: &Path, replica: usize) -> PathBuf {
        directory.join(format!("disk-{}", replica + 1))
    }

    /// A replica's disk.
    pub(super) fn disk(&self, replica: usize) -> PathBuf {
        Replicas::disk_at(&self.directory, replica)
    }

    /// A replica's data folder.
    pub(super) fn folder(&self, replica: usize) -> PathBuf {
        self.disk(replica).join("data")
    }

    /// Starts a replica. It may take a while to serve, or end at once.
    pub(super) fn start(&mut self, replica: usize) -> Result<(), String> {
        let arguments = self.arguments(replica);
        let launch = Launch {
            tether: Tether {
                namespace: self.ground.namespace(replica),
                ..Tether::killing()
            },
            ..Launch::new(&self.binary, arguments, self.log(replica))
        };
        let process = launch.start_with(without_options)?;
        let node = &mut self.nodes[replica];
        node.life.fetch_add(1, SeqCst);
        node.process = Some(process);
        node.is_paused = false;
        Ok(())
    }

    /// Kills a replica (SIGKILL) and waits until it is gone; nothing if it is.
    pub(super) fn kill(&mut self, replica: usize) {
        let node = &mut self.nodes[replica];
        node.life.fetch_add(1, SeqCst);
        // Dropped is killed and waited for.
        node.process = None;
    }

    /// Stops a replica's process where it is (SIGSTOP), or lets it go on (SIGCONT).
    pub(super) fn pause(&mut self, replica: usize, is_paused: bool) {
        let node = &mut self.nodes[replica];
        let signal = if is_paused {
            Signal::STOP
        } else {
            Signal::CONT
        };
        if let Some(process) = &node.process {
            children::signal(process.pid(), signal);
        }
        node.is_paused = is_paused;
    }

    /// How a replica ended by itself, if it did, and its last words.
    pub(super) fn ended(&mut self, replica: usize) -> Option<String> {
        let how = self.nodes[replica].process.as_mut()?.ended()?;
        let words = last_lines(&self.log(replica), LAST_WORDS);
        Some(format!("{how}: {words}"))
    }

    /// Deletes everything in a replica's data folder.
    pub(super) fn wipe(&self, replica: usize) -> Result<(), String> {
        let folder = self.folder(replica);
        fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot delete {}: {error}", folder.display()))
    }

    /// Sets what a replica is told of its clock, in ns beside the real one, and how long its syncs
    /// take beyond what they take.
    pub(super) fn mislead(
        &self,
        replica: usize,
        clock_ns: i64,
        sync: Duration,
    ) -> Result<(), String> {
        test_source::write(&self.test_source(replica), clock_ns, sync)
    }

    /// What a replica has counted since it was started.
    pub(super) fn metric(&self, replica: usize, name: &str) -> Result<f64, String> {
        let page = scrape::get(&self.endpoints[replica], "/metrics")?;
        Ok(scrape::value(&page, name))
    }

    /// Waits until a replica votes; an error if it has ended or takes too long.
    pub(super) fn wait_voting(&mut self, replica: usize) -> Result<(), String> {
        let url = self.endpoints[replica].clone();
        let name = format!("replica {}", replica + 1);
        wait_voting(&url, &name, self.patience, || self.ended(replica))
    }

    /// Copies a replica's folder, which it does not write to now, and exports the copy's log.
    pub(super) fn export(&self, replica: usize) -> Result<String, String> {
        let copy = self.directory.join(format!("copy-{}", replica + 1));
        let exported = disk::copy(&self.folder(replica), &copy)
            .map_err(|error| format!("cannot copy a folder: {error}"))
            .and_then(|()| {
                let mut command = Command::new(&self.binary);
                without_options(&mut command);
                command.args(["log", "export", "--values", "digest", "--data-dir"]);
                let output = command.arg(&copy).output();
                output.map_err(|error| format!("cannot run an export: {error}"))
            });
        // Whatever is left goes with the directory.
        let _ = fs::remove_dir_all(&copy);
        let output = exported?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the log of replica {}: {said}", replica + 1));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Copies all folders to where they outlive this run, as evidence.
    pub(super) fn keep(&self) -> PathBuf {
        let kept = self.directory.join(KEPT);
        for replica in 0..self.count() {
            // What cannot be copied cannot be looked at.
            let _ = disk::copy(&self.folder(replica), &kept.join((replica + 1).to_string()));
        }
        kept
    }

    /// The log file of a replica's process.
    pub(super) fn log(&self, replica: usize) -> PathBuf {
        self.directory.join(format!("replica-{}.log", replica + 1))
    }

    fn test_source(&self, replica: usize) -> PathBuf {
        self.directory.join(format!("test-source-{}", replica + 1))
    }

    /// Begins all folders, and moves each to its replica's disk.
    fn bootstrap(&mut self, args: &ChaosArgs) -> Result<(), String> {
        let begun = self.directory.join("begun");
        let mut options = vec![format!("--protocol={}", args.faults.protocol)];
        options.extend_from_slice(&args.faults.quorate_option);
        begin_folders(&self.binary, &begun, args.replicas, &options)?;
        let failed = |error| format!("cannot move a folder: {error}");
        let plan = fs::read_to_string(begun.join("cluster.toml")).map_err(failed)?;
        let line = plan
            .lines()
            .find_map(|line| line.strip_prefix("cluster = "));
        let cluster = line.ok_or("the cluster has no id")?;
        self.cluster = cluster.trim_matches('"').to_owned();
        for replica in 0..self.count() {
            let from = begun.join((replica + 1).to_string());
            disk::copy(&from, &self.folder(replica)).map_err(failed)?;
            self.mislead(replica, 0, Duration::ZERO)?;
        }
        fs::remove_dir_all(begun).map_err(failed)
    }

    fn arguments(&self, replica: usize) -> Vec<String> {
        let ground = &self.ground;
        let address = |other: usize| match other == replica {
            true => ground.peer(replica),
            false => ground.proxy(replica, other),
        };
        let mut arguments = Serve {
            id: replica + 1,
            folder: &self.folder(replica),
            client_url: &self.endpoints[replica],
            peer_url: &format!("http://{}", ground.peer(replica)),
            members: (0..self.count())
                .map(|other| (other + 1, format!("http://{}", address(other))))
                .collect(),
        }
        .arguments();
        arguments.extend([
            format!("--cluster-id={}", self.cluster),
            format!("--snapshot-count={SNAPSHOT_SLOTS}"),
            format!("--test-source={}", self.test_source(replica).display()),
        ]);
        arguments.extend_from_slice(&self.options);
        arguments
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for replica in 0..self.count() {
            // One that is still paused could not end.
            self.pause(replica, false);
        }
        for node in &mut self.nodes {
            if let Some(process) = &mut node.process {
                process.stop(STOP_PATIENCE);
            }
        }
    }
}

/// Creates the place of each replica's disk below a directory for everything.
pub(super) fn lay_out(directory: &Path, replicas: usize) -> Result<(), String> {
    (0..replicas).try_for_each(|replica| {
        let disk = Replicas::disk_at(directory, replica);
        fs::create_dir_all(&disk)
            .map_err(|error| format!("cannot create {}: {error}", disk.display()))
    })
}

/// What is kept as evidence, below the directory for everything.
pub(super) const KEPT: &str = "kept";
/// Some rounds to a snapshot; logs go back for two, and so behind the beginning of every round.
const SNAPSHOT_SLOTS: u32 = 20_000;
const LAST_WORDS: usize = 3;
const STOP_PATIENCE: Duration = Duration::from_secs(15);
