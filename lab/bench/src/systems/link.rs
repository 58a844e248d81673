//! Clusters of which each replica is behind a link of limited rate: in a network namespace of its
//! own, with a token bucket at both ends of its cable, and packets lost if that is asked for. The load
//! generator is on the bridge, behind no such link.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use super::SystemArgs;
use crate::cluster::EtcdMember;
use crate::namespaces::{self, address, cable, ip, name, run};
use crate::serving::{Serve, begin_folders};
use quorate_tooling::children::{self, Tether};
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::launch::{Launch, Running};
use quorate_tooling::scrape;

/// Runs everything once more in namespaces of its own.
pub(super) fn outside(args: &SystemArgs) -> Result<ExitCode, String> {
    let directory = TempDir::new(args.place.parent()).map_err(|error| error.to_string())?;
    let inside = ["--inside".into(), directory.path().into()];
    let as_user = !rustix::process::geteuid().is_root();
    let failed = |error| format!("{NEEDS}: {error}");
    let mut child = namespaces::again(inside, as_user).map_err(failed)?;
    let status = child.child().wait().map_err(failed)?;
    cleanup::stop_if_interrupted();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}

/// What the link of each replica carries, and loses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Links {
    /// The rate in each direction.
    pub bits_per_second: u64,
    /// The share of the packets a replica sends that never arrive; packets are sent one by one then.
    pub loss: Option<f64>,
}

impl Links {
    /// Makes the namespaces, in those this process was started in by another one of it.
    pub(super) fn lay_out(self, outside: u32, replicas: u8) -> Result<(), String> {
        children::tie_to_parent(outside, Signal::TERM).map_err(|error| error.to_string())?;
        namespaces::lay_out(replicas.into()).map_err(|error| format!("{NEEDS}: {error}"))?;
        for replica in 0..replicas.into() {
            let (name, cable) = (name(replica), cable(replica));
            self.limit(&["-n", &name], "eth0")?;
            self.limit(&[], &cable)?;
            if let Some(loss) = self.loss {
                lose(loss, &name, &cable)?;
            }
        }
        Ok(())
    }

    fn limit(self, within: &[&str], device: &str) -> Result<(), String> {
        let rate = format!("{}bit", self.bits_per_second);
        let bucket = [
            "root", "tbf", "rate", &rate, "burst", "128kb", "latency", "100ms",
        ];
        let add = ["qdisc", "add", "dev", device];
        run("tc", &[within, &add, &bucket].concat())
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} Mbit/s", self.bits_per_second as f64 / 1e6)?;
        match self.loss {
            Some(loss) => write!(f, " that lose {} % of packets", loss * 100.0),
            None => Ok(()),
        }
    }
}

/// Drops packets as they leave a replica, by a program for the kernel's packet filter: the kernel may
/// lack `netem`. What is lost are packets, not what was sent at once, so these are told apart early.
fn lose(loss: f64, name: &str, cable: &str) -> Result<(), String> {
    ip(&format!("-n {name} link set eth0 gso_max_segs 1"))?;
    ip(&format!("link set {cable} gso_max_segs 1"))?;
    let queue = ["-n", name, "qdisc", "add", "dev", "eth0", "clsact"];
    run("tc", &queue)?;
    let filter = ["-n", name, "filter", "add", "dev", "eth0", "egress"];
    let program = lottery(loss);
    let program = ["bpf", "da", "bytecode", program.as_str()];
    run("tc", &[&filter[..], &program].concat())
}

/// A classic packet filter that draws a 32-bit number and drops the packet if it is among the lowest.
fn lottery(loss: f64) -> String {
    const LOAD_RANDOM: &str = "32 0 0 4294963256";
    const PASS: &str = "6 0 0 0";
    const DROP: &str = "6 0 0 2";
    let lowest = (loss * f64::from(u32::MAX)) as u32;
    let compare = format!("53 0 1 {lowest}");
    format!("4,{LOAD_RANDOM},{compare},{PASS},{DROP}")
}

/// A cluster in these namespaces.
#[derive(Debug)]
pub(super) struct LinkedCluster {
    /// The cluster's processes, one per replica.
    pub(super) processes: Vec<Running>,
    replicas: u8,
    directory: TempDir,
}

impl LinkedCluster {
    fn empty(replicas: u8, parent: &Path) -> Result<LinkedCluster, String> {
        Ok(LinkedCluster {
            processes: Vec::new(),
            replicas,
            directory: TempDir::new(Some(parent)).map_err(|error| error.to_string())?,
        })
    }

    /// Starts a cluster of etcd.
    pub(super) fn etcd(
        binary: &Path,
        replicas: u8,
        parent: &Path,
        flags: &[&str],
    ) -> Result<LinkedCluster, String> {
        let mut cluster = LinkedCluster::empty(replicas, parent)?;
        let member = |replica| EtcdMember {
            client: url(replica, CLIENTS),
            peer: url(replica, PEERS),
        };
        let members: Vec<EtcdMember> = (0..replicas.into()).map(member).collect();
        for replica in 0..members.len() {
            let data = cluster.data().join(replica.to_string());
            let mut arguments = EtcdMember::arguments(&members, replica, &data);
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            cluster.launch(binary, replica, arguments)?;
        }
        cluster.wait_for("/health", "\"true\"")?;
        Ok(cluster)
    }

    /// Begins a cluster with these options of `quorate up`, and starts its replicas.
    pub(super) fn quorate(
        binary: &Path,
        replicas: u8,
        parent: &Path,
        options: &[String],
    ) -> Result<LinkedCluster, String> {
        let mut cluster = LinkedCluster::empty(replicas, parent)?;
        begin_folders(binary, &cluster.data(), replicas, options)?;
        for replica in 0..replicas.into() {
            cluster.serve(binary, replica, options)?;
        }
        cluster.wait_for("/status", "\"role\":\"voting\"")?;
        Ok(cluster)
    }

    /// Where the replicas serve clients.
    pub(super) fn endpoints(&self) -> Vec<String> {
        let replicas = 0..self.replicas.into();
        replicas.map(|replica| url(replica, CLIENTS)).collect()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn serve(&mut self, binary: &Path, replica: usize, options: &[String]) -> Result<(), String> {
        let replicas = 0..usize::from(self.replicas);
        let mut arguments = Serve {
            id: replica + 1,
            folder: &self.data().join((replica + 1).to_string()),
            client_url: &url(replica, CLIENTS),
            peer_url: &url(replica, PEERS),
            members: replicas
                .map(|other| (other + 1, url(other, PEERS)))
                .collect(),
        }
        .arguments();
        let own = options
            .iter()
            .filter_map(|option| option.strip_prefix("--server-arg="));
        arguments.extend(own.map(str::to_owned));
        self.launch(binary, replica, arguments)
    }

    /// Starts a replica in its namespace.
    fn launch(
        &mut self,
        program: &Path,
        replica: usize,
        arguments: Vec<String>,
    ) -> Result<(), String> {
        let log = self.directory.path().join(format!("{}.log", replica + 1));
        let launch = Launch {
            tether: Tether {
                namespace: Some(namespaces::file(replica)),
                ..Tether::killing()
            },
            ..Launch::new(program, arguments, log)
        };
        self.processes.push(launch.start()?);
        Ok(())
    }

    /// Waits until this page of each replica says so.
    fn wait_for(&mut self, page: &str, word: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let says = |url: &String| scrape::get(url, page).is_ok_and(|page| page.contains(word));
        while !self.endpoints().iter().all(says) {
            if let Some(how) = self.processes.iter_mut().find_map(Running::ended) {
                return Err(format!("a replica ended with {how}"));
            }
            if Instant::now() > deadline {
                return Err("a replica does not serve".to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

fn url(replica: usize, port: u16) -> String {
    format!("http://{}:{port}", address(replica))
}

const NEEDS: &str =
    "--link needs root, or a machine that lets users have namespaces, with iproute2";
const CLIENTS: u16 = 2379;
/// Behind that of the clients, as `quorate up` has it.
const PEERS: u16 = 2380;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
