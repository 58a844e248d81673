//! What the core has done by other threads, because it takes long: fragments of long payloads are made
//! and read, and steps in writing them are written and synced.

use crate::core::Core;
use crate::disk::{DiskError, LongRead, Step};
use crate::error::ServerError;
use bytes::Bytes;
use quorate_core::{Application, Now};
use quorate_host::{Coding, Fragments, LogRead};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use std::{io, thread};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Below the core: what is long may take longer when cores are few.
const NICENESS: i32 = 5;

/// The core's end of these threads. Their queues have no bound of their own: the host has one step under
/// way, keeps few messages that wait for fragments, and every reader waits for what it asked for.
#[derive(Debug)]
pub(crate) struct Aside {
    coder: Worker<Coding, Fragments>,
    writer: Worker<Step, Result<(), DiskError>>,
    reader: Worker<LongRead, (u64, Result<Bytes, String>)>,
    /// When the step under way began.
    step_began: Instant,
}

/// Something that was done.
#[derive(Debug)]
pub(crate) enum DoneAside {
    /// Fragments are made.
    Coded(Fragments),
    /// A step is on stable storage, or nobody knows.
    Stored(Result<(), DiskError>),
    /// A read, by its token.
    Read(u64, Result<Bytes, String>),
}

impl Aside {
    /// Starts the threads; they end with this.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Aside {
            coder: Worker::start("coder", Coding::perform)?,
            writer: Worker::start("bulk", Step::perform)?,
            reader: Worker::start("reader", LongRead::perform)?,
            step_began: Instant::now(),
        })
    }

    /// What was done next.
    pub(crate) async fn done(&mut self) -> DoneAside {
        tokio::select! {
            Some(fragments) = self.coder.done.recv() => DoneAside::Coded(fragments),
            Some(result) = self.writer.done.recv() => DoneAside::Stored(result),
            Some((token, bytes)) = self.reader.done.recv() => DoneAside::Read(token, bytes),
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

impl<A: Application> Core<A> {
    /// Gives others to do what the host wants done aside.
    pub(crate) fn set_aside(&mut self) -> Result<(), ServerError> {
        for coding in self.host.take_coding() {
            self.aside.coder.give(coding);
        }
        if let Some(disk) = &mut self.disk
            && let Some(write) = self.host.take_bulk_step()
        {
            self.aside.step_began = Instant::now();
            self.aside.writer.give(disk.step(write)?);
        }
        Ok(())
    }

    /// Reads what the host wants, at once or aside.
    pub(crate) fn read(&mut self, now: Now, read: &LogRead) {
        let bytes = match &mut self.disk {
            None => Err("this replica keeps no log".to_owned()),
            Some(disk) => match disk.long_read(read) {
                Some(long) => return self.aside.reader.give(long),
                None => disk.read(read),
            },
        };
        self.host.read_done(now, read.token, bytes);
    }

    /// Tells the host what was done.
    pub(crate) fn done_aside(&mut self, done: DoneAside) -> Result<(), ServerError> {
        match done {
            DoneAside::Coded(fragments) => self.host.coding_done(fragments),
            DoneAside::Read(token, bytes) => {
                self.host.read_done(self.clock.now(), token, bytes);
            }
            DoneAside::Stored(result) => {
                result?;
                let took = self.aside.step_began.elapsed();
                self.metrics.bulk.record(took);
                self.host.bulk_stored(self.clock.now());
            }
        }
        Ok(())
    }
}
