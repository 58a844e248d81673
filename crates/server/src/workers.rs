//! What the core has done by other threads, because it takes long: fragments of long payloads are made
//! and read, and steps in writing them are written and synced.

use crate::core::Core;
use crate::disk::{DiskError, LongRead, Step};
use crate::error::ServerError;
use bytes::Bytes;
use quorate_core::Now;
use quorate_host::{Coding, Completed, Fragments, LogRead, Write};
use quorate_protocols::ProtocolSet;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use std::{io, thread};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Below the core: what is long may take longer when cores are few.
const NICENESS: i32 = 5;

/// The core's end of these threads. Their queues have no bound of their own: the host has one step under
/// way, keeps few messages that wait for fragments, and every reader waits for what it asked for.
#[derive(Debug)]
pub(crate) struct Workers {
    coder: Worker<Coding, Fragments>,
    writer: Worker<Step, Result<(), DiskError>>,
    reader: Worker<LongRead, (LogRead, Result<Bytes, DiskError>)>,
    /// A step whose file could not be opened for the moment.
    step_held: Option<Write>,
    /// Reads for which the system had no means, for the next turn.
    reads_held: Vec<LogRead>,
    /// When the step under way began.
    step_began: Instant,
}

/// Work that a worker has finished.
#[derive(Debug)]
pub(crate) enum WorkerDone {
    /// The fragments of a long payload are made.
    Coded(Fragments),
    /// A step is on stable storage, or nobody knows.
    Stored(Result<(), DiskError>),
    /// A read of the log is done.
    Read(LogRead, Result<Bytes, DiskError>),
}

impl Workers {
    /// Starts the threads; they end with this.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Workers {
            coder: Worker::start("coder", Coding::perform)?,
            writer: Worker::start("bulk", Step::perform)?,
            reader: Worker::start("reader", LongRead::perform)?,
            step_held: None,
            reads_held: Vec::new(),
            step_began: Instant::now(),
        })
    }

    /// Whether something is to be tried again soon.
    pub(crate) fn holds(&self) -> bool {
        self.step_held.is_some() || !self.reads_held.is_empty()
    }

    /// What was done next.
    pub(crate) async fn done(&mut self) -> WorkerDone {
        tokio::select! {
            Some(fragments) = self.coder.done.recv() => WorkerDone::Coded(fragments),
            Some(result) = self.writer.done.recv() => WorkerDone::Stored(result),
            Some((read, bytes)) = self.reader.done.recv() => WorkerDone::Read(read, bytes),
            else => std::future::pending().await,
        }
    }
}

/// A thread that does jobs of one kind, in order.
#[derive(Debug)]
struct Worker<J, D> {
    jobs: Sender<J>,
    done: UnboundedReceiver<D>,
}

impl<J: Send + 'static, D: Send + 'static> Worker<J, D> {
    fn start(name: &str, perform: fn(J) -> D) -> io::Result<Self> {
        let (jobs, taken) = channel();
        let (report, done) = unbounded_channel();
        let work = move || {
            // Only a courtesy to other threads: refused, it changes nothing.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            while let Ok(job) = taken.recv() {
                // The core may have ended.
                let _ = report.send(perform(job));
            }
        };
        thread::Builder::new().name(name.into()).spawn(work)?;
        Ok(Worker { jobs, done })
    }

    fn give(&self, job: J) {
        // The thread ends after this.
        let _ = self.jobs.send(job);
    }
}

impl<P: ProtocolSet> Core<P> {
    /// Gives others to do what takes long.
    pub(crate) fn give_to_workers(
        &mut self,
        coding: Vec<Coding>,
        step: Option<Write>,
    ) -> Result<(), ServerError> {
        for coding in coding {
            self.workers.coder.give(coding);
        }
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        if let Some(write) = self.workers.step_held.take().or(step) {
            self.workers.step_began = Instant::now();
            match disk.step(&write) {
                Ok(step) => self.workers.writer.give(step),
                Err(error) if error.may_succeed_later() => self.workers.step_held = Some(write),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what the host wants, at once or aside.
    pub(crate) fn read(&mut self, now: Now, read: &LogRead) {
        let Some(disk) = &mut self.disk else {
            let why = "this replica keeps no log".to_owned();
            return self.host.completed(
                now,
                Completed::Read {
                    token: read.token,
                    bytes: Err(why),
                },
            );
        };
        match disk.long_read(read) {
            Some(long) => self.workers.reader.give(long),
            None => {
                let bytes = disk.read(read);
                self.has_read(now, *read, bytes);
            }
        }
    }

    /// Tells the host what was read. What only the moment forbade is held: it says nothing of the disk.
    fn has_read(&mut self, now: Now, read: LogRead, bytes: Result<Bytes, DiskError>) {
        match bytes {
            Err(error) if error.may_succeed_later() => self.workers.reads_held.push(read),
            bytes => {
                let bytes = bytes.map_err(|error| error.what());
                self.host.completed(
                    now,
                    Completed::Read {
                        token: read.token,
                        bytes,
                    },
                );
            }
        }
    }

    /// Tries again what was held.
    pub(crate) fn read_held(&mut self, now: Now) {
        for read in std::mem::take(&mut self.workers.reads_held) {
            self.read(now, &read);
        }
    }

    /// Tells the host what was done.
    pub(crate) fn worker_done(&mut self, done: WorkerDone) -> Result<(), ServerError> {
        match done {
            WorkerDone::Coded(fragments) => {
                let now = self.clock.now();
                self.host.completed(now, Completed::Coding(fragments));
            }
            WorkerDone::Read(read, bytes) => self.has_read(self.clock.now(), read, bytes),
            WorkerDone::Stored(result) => {
                result?;
                let took = self.workers.step_began.elapsed();
                self.metrics.long_writes.record(took);
                self.host
                    .completed(self.clock.now(), Completed::FragmentStep);
            }
        }
        Ok(())
    }
}
