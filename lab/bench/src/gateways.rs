//! Gateways in front of the replicas, each a process of its own: killed and started again at will.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_tooling::launch::{Launch, Running, StandardOutput};
use quorate_tooling::ports::free_ports;
use quorate_tooling::scrape;

/// How gateways are started.
#[derive(Debug)]
pub(crate) struct GatewayPlan<'a> {
    /// The `quorate` executable.
    pub(crate) binary: &'a Path,
    /// The number of gateways.
    pub(crate) count: u8,
    /// The URLs at which the replicas serve clients.
    pub(crate) replicas: &'a [String],
    /// More options of `quorate gateway`.
    pub(crate) options: &'a [&'a str],
    /// The folder of the gateways' logs.
    pub(crate) directory: &'a Path,
    /// How long a gateway may take until it serves.
    pub(crate) patience: Duration,
}

/// All gateways of a run.
#[derive(Debug)]
pub(crate) struct Gateways {
    /// The URLs at which they serve clients, in their order.
    pub(crate) endpoints: Vec<String>,
    binary: PathBuf,
    options: Vec<String>,
    directory: PathBuf,
    running: Vec<Option<Running>>,
    patience: Duration,
}

impl Gateways {
    /// Starts gateways, and waits until each serves.
    pub(crate) fn start(plan: &GatewayPlan<'_>) -> Result<Gateways, String> {
        let base = free_ports(u16::from(plan.count))?;
        let ports = (0..u16::from(plan.count)).map(|at| format!("http://127.0.0.1:{}", base + at));
        let peers = plan.replicas.iter().map(|url| peer_of(url));
        let peers: Vec<String> = peers.collect::<Result<_, String>>()?;
        let mut options = vec![format!("--peers={}", peers.join(","))];
        options.extend(plan.options.iter().map(|option| (*option).to_owned()));
        let mut gateways = Gateways {
            endpoints: ports.collect(),
            binary: plan.binary.to_owned(),
            options,
            directory: plan.directory.to_owned(),
            running: (0..plan.count).map(|_| None).collect(),
            patience: plan.patience,
        };
        (0..usize::from(plan.count)).try_for_each(|index| gateways.start_one(index))?;
        Ok(gateways)
    }

    /// Starts a gateway that does not run, and waits until it serves.
    pub(crate) fn start_one(&mut self, index: usize) -> Result<(), String> {
        let mut arguments = vec![
            "gateway".to_owned(),
            format!("--listen-client-urls={}", self.endpoints[index]),
        ];
        arguments.extend_from_slice(&self.options);
        let log = self.directory.join(format!("gateway-{}.log", index + 1));
        let mut running = Launch {
            output: StandardOutput::Read,
            ..Launch::new(&self.binary, arguments, log)
        }
        .start()?;
        running
            .wait_for(Instant::now() + self.patience, |line| {
                (line == READY).then_some(())
            })
            .map_err(|why| format!("gateway {} {why}", index + 1))?;
        self.running[index] = Some(running);
        Ok(())
    }

    /// Kills a gateway (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(&mut self, index: usize) -> Result<(), String> {
        // Dropped is killed and waited for.
        let running = self.running[index].take();
        running
            .map(drop)
            .ok_or_else(|| format!("gateway {} is not running", index + 1))
    }
}

/// Where a replica of `quorate up` has its peers, from where it serves clients: the port after that.
fn peer_of(url: &str) -> Result<String, String> {
    let authority = scrape::authority(url)?;
    let parts = authority.rsplit_once(':');
    let port = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let (host, port) = port.ok_or_else(|| format!("{url} names no port"))?;
    Ok(format!("http://{host}:{}", port + 1))
}

/// What a gateway prints once it serves.
const READY: &str = "ready to serve client requests";
