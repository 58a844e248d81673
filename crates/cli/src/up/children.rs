//! The replicas' processes: started, listened to, stopped by their own ids and waited for.

use super::plan::{self, Who};
use crate::notify;
use crate::serve::{READY, REMOVED};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child as Process;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How long a replica may take to stop before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The pause before a replica that died is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// A replica to run.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) who: Who,
    pub(super) command: plan::Child,
    /// The file that the process's standard error goes to.
    pub(super) log: PathBuf,
    pub(super) restart: bool,
}

/// What became of a replica.
#[derive(Debug)]
pub(super) enum ChildEvent {
    Started {
        who: Who,
        pid: u32,
    },
    Ready {
        who: Who,
    },
    /// The cluster goes on without it: it is not started again.
    Removed {
        who: Who,
    },
    /// The process ended before it ever served.
    NotStarted {
        who: Who,
        why: String,
    },
    Died {
        who: Who,
        how: String,
        restarts: bool,
    },
}

/// All replicas of this process.
pub(super) struct Children {
    tasks: JoinSet<Option<Who>>,
    news: mpsc::UnboundedReceiver<ChildEvent>,
    stop: watch::Sender<bool>,
}

impl Children {
    /// Starts them all.
    pub(super) fn start(children: Vec<Child>) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for child in children {
            let keeper = ChildKeeper {
                child,
                tell: tell.clone(),
                stopping: stopping.clone(),
            };
            tasks.spawn(keeper.keep());
        }
        Children { tasks, news, stop }
    }

    /// The next thing that happens.
    pub(super) async fn news(&mut self) -> ChildEvent {
        match self.news.recv().await {
            Some(news) => news,
            // All are gone, and that was told.
            None => std::future::pending().await,
        }
    }

    /// Stops all and waits for them. Returns those that had to be killed.
    pub(super) async fn stop(mut self) -> Vec<Who> {
        self.stop.send_replace(true);
        let mut killed = Vec::new();
        while let Some(result) = self.tasks.join_next().await {
            killed.extend(result.ok().flatten());
        }
        killed
    }
}

/// Looks after one replica.
struct ChildKeeper {
    child: Child,
    tell: mpsc::UnboundedSender<ChildEvent>,
    stopping: watch::Receiver<bool>,
}

/// How a process of a replica ended.
enum End {
    /// The process was told to stop; `killed` if it had to be killed.
    Stopped { killed: bool },
    /// The process ended by itself.
    Exited { status: ExitStatus, ready: bool },
    /// The replica is no member of the cluster any more.
    Removed,
}

impl ChildKeeper {
    /// Returns who it was if it had to be killed.
    async fn keep(mut self) -> Option<Who> {
        let who = self.child.who;
        let mut served = false;
        loop {
            let end = match self.run_once().await {
                Ok(end) => end,
                Err(error) => {
                    self.tell(ChildEvent::NotStarted {
                        who,
                        why: error.to_string(),
                    });
                    return None;
                }
            };
            match end {
                End::Stopped { killed } => return killed.then_some(who),
                End::Removed => {
                    self.tell(ChildEvent::Removed { who });
                    return None;
                }
                End::Exited { status, ready } if !ready && !served => {
                    let why = log_tail(&self.child.log).unwrap_or_else(|| describe(status));
                    self.tell(ChildEvent::NotStarted { who, why });
                    return None;
                }
                End::Exited { status, .. } => {
                    let restarts = self.child.restart;
                    self.tell(ChildEvent::Died {
                        who,
                        how: self.describe_exit(status),
                        restarts,
                    });
                    if !restarts {
                        return None;
                    }
                }
            }
            served = true;
            tokio::select! {
                () = tokio::time::sleep(RESTART_AFTER) => {}
                () = told(&mut self.stopping) => return None,
            }
        }
    }

    /// Runs the replica's process from start to end.
    async fn run_once(&self) -> io::Result<End> {
        let who = self.child.who;
        let mut process = self.spawn()?;
        self.tell(ChildEvent::Started {
            who,
            pid: process.id().unwrap_or_default(),
        });
        let (mut ready, mut removed) = (false, false);
        let mut stopping = self.stopping.clone();
        let mut lines = process.stdout.take().map(|out| BufReader::new(out).lines());
        loop {
            // What it says last is heard before its end is noted.
            let is_silent = lines.is_none();
            let line = async {
                match &mut lines {
                    Some(lines) => lines.next_line().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                line = line => match line {
                    Ok(Some(line)) if line == READY => {
                        ready = true;
                        self.tell(ChildEvent::Ready { who });
                    }
                    Ok(Some(line)) => removed |= line == REMOVED,
                    Ok(None) | Err(_) => lines = None,
                },
                status = process.wait(), if is_silent => {
                    let status = status?;
                    return Ok(if removed { End::Removed } else { End::Exited { status, ready } });
                }
                () = told(&mut stopping) => {
                    return stop(&mut process).await.map(|killed| End::Stopped { killed });
                }
            }
        }
    }

    fn spawn(&self) -> io::Result<Process> {
        // The replica's folder may have been deleted: then it comes back from its peers.
        if let Some(dir) = self.child.log.parent() {
            fs::create_dir_all(dir)?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.child.log)?;
        self.child
            .command
            .command()?
            // This process speaks for all of them.
            .env_remove(notify::SOCKET)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C in a terminal reaches this process alone, which stops its replicas itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Describes how the process died, with the end of its log if it ended by itself.
    fn describe_exit(&self, status: ExitStatus) -> String {
        match status.signal() {
            Some(_) => describe(status),
            None => log_tail(&self.child.log).unwrap_or_else(|| describe(status)),
        }
    }

    fn tell(&self, news: ChildEvent) {
        // Nobody listens any more once all is being stopped.
        let _ = self.tell.send(news);
    }
}

/// Completes once all is to be stopped.
async fn told(stopping: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say so: then it is time as well.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Asks a process to stop, and kills it if it takes too long. Says whether it was killed.
async fn stop(process: &mut Process) -> io::Result<bool> {
    // Not waited for yet, so the id still names this very process.
    let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        kill_process(pid, Signal::TERM)?;
    }
    match tokio::time::timeout(STOP_WITHIN, process.wait()).await {
        Ok(status) => status.map(|_| false),
        Err(_) => process.kill().await.map(|()| true),
    }
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}

/// The error a replica ended with, from the end of its log.
fn log_tail(log: &Path) -> Option<String> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(8192)..]).into_owned();
    let last = text.lines().rfind(|line| !line.is_empty())?;
    last.strip_prefix("error: ").map(str::to_owned)
}
