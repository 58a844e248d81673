//! Clusters of which each replica is behind a link of limited rate: in a network namespace of its
//! own, with a token bucket at both ends of its cable. The load generator is on the bridge, behind
//! no such link.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::SystemArgs;
use crate::children::{self, Tethered};
use crate::cleanup::{self, TempDir};
use crate::cluster::EtcdMember;
use crate::namespaces::{self, address, cable, name, run};
use crate::scrape;

/// Runs everything once more in namespaces of its own.
pub(super) fn outside(args: &SystemArgs) -> Result<ExitCode, String> {
    let directory = TempDir::new(args.data_dir.as_deref()).map_err(|error| error.to_string())?;
    let inside = ["--inside".into(), directory.path().into()];
    let as_user = !rustix::process::geteuid().is_root();
    let failed = |error| format!("{NEEDS}: {error}");
    let mut child = namespaces::again(inside, as_user).map_err(failed)?;
    let status = child.child().wait().map_err(failed)?;
    cleanup::stop_if_interrupted();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}

/// Makes the namespaces, in those this process was started in by another one of it.
pub(super) fn lay_out(bits_per_second: u64, outside: u32, replicas: u8) -> Result<(), String> {
    children::tie_to_parent(outside, Signal::TERM).map_err(|error| error.to_string())?;
    namespaces::lay_out(replicas.into()).map_err(|error| format!("{NEEDS}: {error}"))?;
    for replica in 0..replicas.into() {
        let limit = limit(bits_per_second);
        let inner = ["-n", &name(replica), "qdisc", "add", "dev", "eth0"].map(str::to_owned);
        let outer = ["qdisc", "add", "dev", &cable(replica)].map(str::to_owned);
        for end in [inner.to_vec(), outer.to_vec()] {
            let arguments: Vec<&str> = end.iter().chain(&limit).map(String::as_str).collect();
            run("tc", &arguments)?;
        }
    }
    Ok(())
}

fn limit(bits_per_second: u64) -> Vec<String> {
    let rate = format!("{bits_per_second}bit");
    let words = [
        "root", "tbf", "rate", &rate, "burst", "128kb", "latency", "100ms",
    ];
    words.map(str::to_owned).into()
}

/// A cluster in these namespaces.
#[derive(Debug)]
pub(super) struct Apart {
    /// Its processes, one per replica.
    pub(super) processes: Vec<Tethered>,
    replicas: u8,
    directory: TempDir,
}

impl Apart {
    fn empty(replicas: u8, parent: &Path) -> Result<Apart, String> {
        Ok(Apart {
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
    ) -> Result<Apart, String> {
        let mut cluster = Apart::empty(replicas, parent)?;
        let member = |replica| EtcdMember {
            client: url(replica, CLIENTS),
            peer: url(replica, PEERS),
        };
        let members: Vec<EtcdMember> = (0..replicas.into()).map(member).collect();
        for replica in 0..members.len() {
            let data = cluster.data().join(replica.to_string());
            let mut arguments = EtcdMember::arguments(&members, replica, &data);
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            cluster.launch(binary.as_os_str(), replica, &arguments)?;
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
    ) -> Result<Apart, String> {
        let mut cluster = Apart::empty(replicas, parent)?;
        let mut begin = Command::new(binary);
        begin.args(["up", "--begin-only"]).args(options);
        begin.arg(format!("--replicas={replicas}"));
        begin.arg(format!("--data-dir={}", cluster.data().display()));
        let output = begin.output();
        let output = output.map_err(|error| format!("cannot run quorate up: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the cluster was not begun: {said}"));
        }
        for replica in 0..replicas.into() {
            cluster.serve(binary.as_os_str(), replica, options)?;
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

    fn serve(&mut self, program: &OsStr, replica: usize, options: &[String]) -> Result<(), String> {
        let number = replica + 1;
        let peers = (0..self.replicas.into())
            .map(|other| format!("{}={}", other + 1, url(other, PEERS)))
            .collect::<Vec<_>>();
        let mut arguments = vec![
            "serve".to_owned(),
            format!("--id={number}"),
            format!(
                "--data-dir={}",
                self.data().join(number.to_string()).display()
            ),
            format!("--listen-client-urls={}", url(replica, CLIENTS)),
            format!("--listen-peer-urls={}", url(replica, PEERS)),
            format!("--initial-cluster={}", peers.join(",")),
        ];
        let own = options
            .iter()
            .filter_map(|option| option.strip_prefix("--server-arg="));
        arguments.extend(own.map(str::to_owned));
        self.launch(program, replica, &arguments)
    }

    /// Starts a replica in its namespace.
    fn launch(
        &mut self,
        program: &OsStr,
        replica: usize,
        arguments: &[String],
    ) -> Result<(), String> {
        let failed = |error| format!("cannot start {}: {error}", program.display());
        let log = self.directory.path().join(format!("{}.log", replica + 1));
        let log = File::create(log).map_err(failed)?;
        let namespace = Some(namespaces::file(replica));
        let process = Tethered::program_in(namespace, program, arguments, |command| {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log);
        });
        self.processes.push(process.map_err(failed)?);
        Ok(())
    }

    /// Waits until this page of each replica says so.
    fn wait_for(&mut self, page: &str, word: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let says = |url: &String| scrape::get(url, page).is_ok_and(|page| page.contains(word));
        while !self.endpoints().iter().all(says) {
            if let Some(how) = self.processes.iter_mut().find_map(Tethered::ended) {
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
