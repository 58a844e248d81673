//! The replicas' processes: each started, killed, paused and started again by itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::relay::Local;
use quorate_tooling::children;
use quorate_tooling::cleanup::{self, TempDir};
use quorate_tooling::launch::{Launch, Running, StandardOutput, last_lines};
use quorate_tooling::ports::free_ports;
use quorate_tooling::{process, scrape};

/// In an option, it stands for the number of the replica that is started.
pub const REPLICA: &str = "{replica}";

/// A cluster begun by `quorate up`, each of whose replicas runs under its own
/// `quorate up --only I`: as an operator starts one again that died.
#[derive(Debug)]
pub struct Replicas {
    /// The URLs at which they serve clients, in their order.
    pub endpoints: Vec<String>,
    binary: PathBuf,
    options: Vec<String>,
    running: Vec<Option<Replica>>,
    directory: TempDir,
    patience: Duration,
    /// The network between the replicas, if there is one.
    network: Option<Local>,
}

/// A running replica.
#[derive(Debug)]
struct Replica {
    supervisor: Running,
    /// The process id of the replica itself, once its supervisor has printed it.
    pid: Option<u32>,
}

impl Replicas {
    /// Begins a cluster and starts every replica. With a delay, all they say to each other takes that long.
    pub fn begin(
        binary: PathBuf,
        count: u8,
        parent: Option<&Path>,
        options: &[String],
        patience: Duration,
        delay: Option<Duration>,
    ) -> Result<Replicas, String> {
        let directory = TempDir::new(parent).map_err(|error| error.to_string())?;
        if directory.is_in_memory() {
            return Err(format!(
                "{} is in memory, where no crash is survived: choose a disk with --data-dir",
                directory.path().display()
            ));
        }
        let mut replicas = Replicas {
            endpoints: Vec::new(),
            binary,
            options: options.to_vec(),
            running: (0..count).map(|_| None).collect(),
            directory,
            patience,
            network: None,
        };
        replicas.bootstrap(count)?;
        if let Some(delay) = delay {
            replicas.put_network_between(delay)?;
        }
        let all: Vec<usize> = (0..count.into()).collect();
        replicas.start(&all)?;
        Ok(replicas)
    }

    /// The `quorate` executable.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Starts replicas under another executable from now on.
    pub fn set_binary(&mut self, binary: PathBuf) {
        self.binary = binary;
    }

    /// Starts a replica that was killed, and waits until its process ends by itself: the last words of its log.
    ///
    /// # Errors
    ///
    /// A message when it goes on.
    pub fn start_in_vain(&mut self, index: usize) -> Result<String, String> {
        let mut replica = self.spawn(&[format!("--only={}", index + 1)], index + 1)?;
        let ended = replica.wait_gone(self.patience);
        if ended.is_err() {
            replica.supervisor.stop(STOP_PATIENCE);
        }
        ended.map(|()| last_lines(&self.log(index + 1), LOG_LINES))
    }

    /// The folder of everything the replicas wrote.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves the folder where it is, as evidence.
    pub fn keep(&mut self) {
        self.directory.keep();
    }

    /// Starts these replicas, all at once, and waits until each serves.
    pub fn start(&mut self, which: &[usize]) -> Result<(), String> {
        for &index in which {
            let replica = self.spawn(&[format!("--only={}", index + 1)], index + 1)?;
            self.running[index] = Some(replica);
        }
        let deadline = Instant::now() + self.patience;
        for &index in which {
            let log = self.log(index + 1);
            if let Some(replica) = &mut self.running[index] {
                replica
                    .wait_ready(deadline)
                    .map_err(|why| format!("replica {} {why}; see {}", index + 1, log.display()))?;
            }
        }
        Ok(())
    }

    /// Kills these replicas (SIGKILL), all at once, and waits until they are gone.
    pub fn kill(&mut self, which: &[usize]) -> Result<(), String> {
        for &index in which {
            self.signal(index, Signal::KILL)?;
        }
        for &index in which {
            if let Some(mut replica) = self.running[index].take() {
                replica.wait_gone(self.patience)?;
            }
        }
        Ok(())
    }

    /// Deletes the data folder of a replica that was killed.
    pub fn wipe(&mut self, index: usize) -> Result<(), String> {
        let dir = self.folder(index);
        std::fs::remove_dir_all(&dir)
            .map_err(|error| format!("cannot delete {}: {error}", dir.display()))
    }

    /// Waits until a replica says that it votes: one that lost its promises serves before it does.
    pub fn wait_voting(&self, index: usize) -> Result<(), String> {
        let name = format!("replica {}", index + 1);
        wait_voting(&self.endpoints[index], &name, self.patience, || None)
    }

    fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The data folder of a replica.
    pub fn folder(&self, index: usize) -> PathBuf {
        self.data_dir().join((index + 1).to_string())
    }

    /// The process of a replica that runs.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.running[index].as_ref().and_then(|one| one.pid)
    }

    /// Stops a replica's process where it is (SIGSTOP).
    pub fn pause(&mut self, index: usize) -> Result<(), String> {
        self.signal(index, Signal::STOP)
    }

    /// Lets a paused replica go on (SIGCONT).
    pub fn resume(&mut self, index: usize) -> Result<(), String> {
        self.signal(index, Signal::CONT)
    }

    /// The replicas that ended by themselves.
    pub fn died(&mut self) -> Vec<String> {
        let mut died = Vec::new();
        for (index, replica) in self.running.iter_mut().enumerate() {
            if let Some(how) = replica.as_mut().and_then(|one| one.supervisor.ended()) {
                died.push(format!("replica {} ended by itself: {how}", index + 1));
            }
        }
        died
    }

    /// Begins the cluster's folders. No replica runs yet: in memory, it would be lost with the next
    /// start of all.
    fn bootstrap(&mut self, count: u8) -> Result<(), String> {
        let base = free_ports(2 * u16::from(count))?;
        let flags = [
            format!("--replicas={count}"),
            format!("--port={base}"),
            "--begin-only".to_owned(),
        ];
        let mut first = self.spawn(&flags, 0)?;
        self.endpoints = first
            .wait_ready(Instant::now() + self.patience)
            .map_err(|why| format!("the cluster {why}; see {}", self.log(0).display()))?;
        first.wait_gone(self.patience)
    }

    /// Puts a network between the replicas, before any of them runs.
    fn put_network_between(&mut self, delay: Duration) -> Result<(), String> {
        // `quorate up` has each replica's port for peers behind the one for clients.
        let port = |url: &String| url.rsplit(':').next()?.parse::<u16>().ok()?.checked_add(1);
        let ports: Option<Vec<u16>> = self.endpoints.iter().map(port).collect();
        let ports = ports.ok_or("endpoints without ports")?;
        let network = Local::start(ports)?;
        network.set(delay, Duration::ZERO);
        self.network = Some(network);
        Ok(())
    }

    /// The network between them, if one was asked for.
    pub fn network(&self) -> Option<&Local> {
        self.network.as_ref()
    }

    fn spawn(&self, flags: &[String], number: usize) -> Result<Replica, String> {
        let data = self.data_dir();
        let mut arguments = vec!["up".to_owned(), format!("--data-dir={}", data.display())];
        arguments.extend_from_slice(flags);
        let options = self.options.iter();
        arguments.extend(options.map(|option| option.replace(REPLICA, &number.to_string())));
        if let (Some(network), Some(index)) = (&self.network, number.checked_sub(1)) {
            let own = network.options(index);
            arguments.extend(own.map(|option| format!("--server-arg={option}")));
        }
        let supervisor = Launch {
            output: StandardOutput::Read,
            ..Launch::new(&self.binary, arguments, self.log(number))
        }
        .start()?;
        Ok(Replica {
            supervisor,
            pid: None,
        })
    }

    /// The log file of a supervisor; 0 is that of all replicas.
    fn log(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("up-{number}.log"))
    }

    /// Signals a replica, after a look at whether the id still names it.
    fn signal(&mut self, index: usize, signal: Signal) -> Result<(), String> {
        match self
            .pid(index)
            .filter(|&pid| process::mentions(pid, self.directory.path()))
        {
            Some(pid) => {
                children::signal(pid, signal);
                Ok(())
            }
            None => Err(format!("replica {} is not running", index + 1)),
        }
    }
}

/// Waits until the replica of this name says at `url` that it votes. `ended` says how its process ended by
/// itself, if it has.
pub fn wait_voting(
    url: &str,
    name: &str,
    patience: Duration,
    mut ended: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        let page = scrape::get(url, "/status");
        if page.as_ref().is_ok_and(|page| page.contains(VOTING)) {
            return Ok(());
        }
        if let Some(how) = ended() {
            return Err(format!("{name} ended by itself: {how}"));
        }
        if Instant::now() > deadline {
            let last = page.unwrap_or_else(|why| why);
            return Err(format!("{name} did not vote in time: {last}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for index in 0..self.running.len() {
            // One that is still paused could not end; one that is gone needs nothing.
            let _ = self.resume(index);
        }
        for replica in self.running.iter_mut().flatten() {
            replica.supervisor.stop(STOP_PATIENCE);
        }
    }
}

impl Replica {
    /// Waits until the supervisor prints its endpoints, and returns them.
    fn wait_ready(&mut self, deadline: Instant) -> Result<Vec<String>, String> {
        let Replica { supervisor, pid } = self;
        supervisor.wait_for(deadline, |line| {
            if let Some(urls) = line.strip_prefix("endpoints: ") {
                return Some(urls.split(',').map(str::to_owned).collect());
            }
            if let Some(found) = printed_pid(line) {
                // An interrupt must end a paused replica too, which its supervisor cannot.
                cleanup::watch_process(found);
                *pid = Some(found);
            }
            None
        })
    }

    /// Waits until the supervisor, whose only replica died or that had none, has ended.
    fn wait_gone(&mut self, patience: Duration) -> Result<(), String> {
        let ended = self.supervisor.wait_ended(patience);
        ended.map_err(|why| format!("`quorate up` {why}"))
    }
}

/// The process id in a line `replica I: process PID, ...`.
fn printed_pid(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once(": process ")?;
    rest.split(',').next()?.parse().ok()
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            cleanup::forget_process(pid);
        }
    }
}

/// What the status page of a replica that votes says.
const VOTING: &str = "\"role\":\"voting\"";
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// The lines of a log that say why a process ended.
const LOG_LINES: usize = 5;
