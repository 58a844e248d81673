//! Gateways in front of the replicas, each a process of its own: killed and started again at will.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use quorate_tooling::children::lines;
use quorate_tooling::children::{self, Tethered};
use quorate_tooling::ports::free_ports;
use quorate_tooling::scrape;

/// All gateways of a run.
#[derive(Debug)]
pub(crate) struct Gateways {
    /// Where they serve, in their order.
    pub(crate) endpoints: Vec<String>,
    binary: PathBuf,
    options: Vec<String>,
    directory: PathBuf,
    running: Vec<Option<Running>>,
    patience: Duration,
}

#[derive(Debug)]
struct Running {
    process: Tethered,
    lines: Receiver<String>,
}

impl Gateways {
    /// Starts so many, in front of replicas that serve there, with these options of `quorate gateway`, and
    /// waits until each serves.
    pub(crate) fn start(
        binary: PathBuf,
        count: u8,
        replicas: &[String],
        options: &[&str],
        (directory, patience): (&Path, Duration),
    ) -> Result<Gateways, String> {
        let base = free_ports(u16::from(count))?;
        let ports = (0..u16::from(count)).map(|at| format!("http://127.0.0.1:{}", base + at));
        let peers = replicas.iter().map(|url| peer_of(url));
        let peers: Vec<String> = peers.collect::<Result<_, String>>()?;
        let mut all = vec![format!("--peers={}", peers.join(","))];
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let mut gateways = Gateways {
            endpoints: ports.collect(),
            binary,
            options: all,
            directory: directory.to_owned(),
            running: (0..count).map(|_| None).collect(),
            patience,
        };
        (0..usize::from(count)).try_for_each(|index| gateways.start_one(index))?;
        Ok(gateways)
    }

    /// Starts one that does not run, and waits until it serves.
    pub(crate) fn start_one(&mut self, index: usize) -> Result<(), String> {
        let failed = |error| format!("cannot start {}: {error}", self.binary.display());
        let log = self.log(index).map_err(failed)?;
        let mut arguments = vec![
            "gateway".to_owned(),
            format!("--listen-client-urls={}", self.endpoints[index]),
        ];
        arguments.extend_from_slice(&self.options);
        let mut process = Tethered::program(self.binary.as_os_str(), &arguments, |command| {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(log);
        })
        .map_err(failed)?;
        let output = process.child().stdout.take().ok_or("no output to read")?;
        let running = Running {
            lines: lines(output),
            process,
        };
        running
            .wait_ready(Instant::now() + self.patience)
            .map_err(|why| format!("gateway {} {why}", index + 1))?;
        self.running[index] = Some(running);
        Ok(())
    }

    /// Kills one (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(&mut self, index: usize) -> Result<(), String> {
        let Some(mut running) = self.running[index].take() else {
            return Err(format!("gateway {} is not running", index + 1));
        };
        let child = running.process.child();
        children::signal(child.id(), Signal::KILL);
        child.wait().map(drop).map_err(|error| error.to_string())
    }

    fn log(&self, index: usize) -> std::io::Result<File> {
        let path = self.directory.join(format!("gateway-{}.log", index + 1));
        OpenOptions::new().create(true).append(true).open(path)
    }
}

impl Running {
    fn wait_ready(&self, deadline: Instant) -> Result<(), String> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line == READY => return Ok(()),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err("did not serve in time".to_owned()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("ended without serving".to_owned());
                }
            }
        }
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
