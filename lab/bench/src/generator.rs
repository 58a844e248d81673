//! Who asks: the load generator of this project, or a program over etcd's official client library.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::go_client;
use crate::system_calls::Counting;
use quorate_load::load::{self, Job};
use quorate_load::report::Report;

/// The options that say which clients ask.
#[derive(Debug, Clone, Args)]
pub struct Generator {
    /// Who asks: the generator of `bench put`, or a program over etcd's official client library for Go
    #[arg(long, value_enum, default_value = "own")]
    pub client: ClientKind,
    /// The Go client, as built by scripts/build-load-go.sh
    #[arg(long, default_value = "target/load-go/load-go")]
    pub go_client: PathBuf,
}

/// A kind of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// The generator of `bench put`, `get` and `mixed`.
    Own,
    /// The program in `scripts/load-go`.
    Go,
}

impl ClientKind {
    /// The clients, in the words of a title.
    pub(crate) fn title(self) -> &'static str {
        match self {
            ClientKind::Own => "own clients",
            ClientKind::Go => "etcd's Go client",
        }
    }

    /// Connections of so many clients where nothing else is said. Users of the official library have one each.
    pub(crate) fn connections_default_max(self) -> u32 {
        match self {
            ClientKind::Own => load::CONNECTIONS_DEFAULT_MAX,
            ClientKind::Go => 64,
        }
    }
}

impl Generator {
    /// Says what to do where what is needed is not there.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.client {
            ClientKind::Own => Ok(()),
            ClientKind::Go => go_client::need(&self.go_client),
        }
    }

    /// Runs a load and returns what was measured.
    pub(crate) fn run(&self, job: &Job) -> Result<Report, String> {
        match self.client {
            ClientKind::Own => load::run(job),
            ClientKind::Go => go_client::run(&self.go_client, job),
        }
    }

    /// System calls of the servers per operation. To count them takes time, so that the load runs once more for it.
    ///
    /// # Errors
    /// Nothing can be counted here, or the load failed.
    pub(crate) fn count_system_calls(&self, job: &Job, time: Duration) -> Result<f64, String> {
        let mut job = job.clone();
        (job.load.duration, job.load.warmup) = (Some(time), Duration::ZERO);
        job.read.fill = false;
        let counting = Counting::start(&job.load.server_pids)?;
        let report = self.run(&job)?;
        let calls = counting.finish()?;
        Ok(calls as f64 / report.operations.max(1) as f64)
    }
}
