//! Processes a benchmark starts: tied to its life, and ended by their own ids.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, kill_process, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cleanup;

/// A process that does not outlive this one.
#[derive(Debug)]
pub struct Tethered {
    child: Child,
}

/// What happens to a program before it begins, and when this process ends.
#[derive(Debug, Clone, Default)]
pub struct Tether {
    /// Whether the program is killed when this process ends. It is asked to end otherwise, so that a
    /// program with children of its own can end them.
    pub kills: bool,
    /// The file of the network namespace that the program runs in, if not that of this process.
    pub namespace: Option<PathBuf>,
    /// The limit of open files, soft and hard, if the program gets one.
    pub descriptors: Option<u64>,
}

impl Tether {
    /// The program is killed when this process ends, which suits one without children.
    pub fn killing() -> Tether {
        Tether {
            kills: true,
            ..Tether::default()
        }
    }

    /// The flags of the `tether` subcommand.
    fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        if self.kills {
            flags.push("--kill".into());
        }
        if let Some(namespace) = &self.namespace {
            flags.extend(["--namespace".into(), namespace.into()]);
        }
        flags.extend(
            self.descriptors
                .map(|limit| format!("--descriptors={limit}").into()),
        );
        flags
    }
}

impl Tethered {
    /// Starts this executable again with a hidden subcommand of `bench`.
    pub fn of_self<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
    ) -> io::Result<Tethered> {
        let mut command = bench_command()?;
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Tethered::spawn(command)
    }

    /// Starts another program through the hidden `tether` subcommand, which ties the process to
    /// this one as `tether` says and then becomes the program. `prepare` sets the streams.
    pub fn program<S: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = S>,
        tether: &Tether,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Tethered> {
        let mut command = bench_command()?;
        command
            .arg("tether")
            .arg(std::process::id().to_string())
            .args(tether.flags())
            .arg("--")
            .arg(program)
            .args(arguments);
        prepare(&mut command);
        Tethered::spawn(command)
    }

    fn spawn(mut command: Command) -> io::Result<Tethered> {
        let child = command.spawn()?;
        cleanup::watch_process(child.id());
        Ok(Tethered { child })
    }

    /// The process id; the tether keeps it when it becomes the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process' standard streams and state.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether the process has ended, and how.
    pub fn ended(&mut self) -> Option<String> {
        self.child
            .try_wait()
            .ok()
            .flatten()
            .map(|status| status.to_string())
    }

    /// Asks the process to end, waits up to `patience`, then kills it.
    pub fn stop(&mut self, patience: Duration) {
        signal(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + patience;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // Neither can fail for a child that is ours and not yet waited for.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        cleanup::forget_process(self.child.id());
    }
}

/// Sends a signal to a process we started; one that is gone needs none.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Makes the kernel end this process with its parent, whose id it must be.
pub fn tie_to_parent(parent: u32, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    // The parent may have ended before the line above; then no signal will come.
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::other(
            "the process that started this one has ended",
        ));
    }
    Ok(())
}

/// The hidden `tether` subcommand.
#[derive(Debug, Clone, Args)]
pub struct TetherArgs {
    /// The process that starts this one.
    parent: u32,
    /// Be killed when that ends, rather than asked to end.
    #[arg(long)]
    kill: bool,
    /// Move to this network namespace first.
    #[arg(long)]
    namespace: Option<PathBuf>,
    /// The limit of open files, soft and hard.
    #[arg(long)]
    descriptors: Option<u64>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Ties this process to its parent and becomes the program; returns only if it cannot.
pub fn tether(args: &TetherArgs) -> io::Error {
    match prepare(args) {
        Err(error) => error,
        Ok(()) => match args.command.split_first() {
            Some((program, arguments)) => Command::new(program).args(arguments).exec(),
            None => io::Error::other("no program to run"),
        },
    }
}

fn prepare(args: &TetherArgs) -> io::Result<()> {
    if let Some(path) = &args.namespace {
        let namespace = File::open(path)?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    if args.descriptors.is_some() {
        let limit = Rlimit {
            current: args.descriptors,
            maximum: args.descriptors,
        };
        setrlimit(Resource::Nofile, limit)?;
    }
    let signal = if args.kill {
        Signal::KILL
    } else {
        Signal::TERM
    };
    tie_to_parent(args.parent, signal)
}

/// Every executable that holds this crate mounts it as its `bench` subcommand.
fn bench_command() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bench");
    Ok(command)
}

/// Lines of a child's output, read to the end by a thread so that the child never blocks on it.
pub fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody may be listening any more; the output must be drained all the same.
            let _ = sender.send(line);
        }
    });
    receiver
}
