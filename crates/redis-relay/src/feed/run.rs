//! One server after another, until the feed ends.

use super::PreparedFeed;
use super::handle::{Request, Waiters};
use super::status::FeedBoard;
use super::waiting::{Room, WaitLimits};
use crate::rdb_files::RdbFiles;
use bytes::Bytes;
use quorate_redis_commands::Shared;
use quorate_redis_effects::Rdb;
use quorate_redis_process::Launcher;
use quorate_redis_store as store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::sleep;

/// The pause before a server is started in the place of one that failed, at first and at most.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A server that ran for so long was well.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// Servers that fail one after another before people are told.
const FAILURES_TOLD: u32 = 3;

/// Reads that are kept before those that nobody waits for are looked for.
const READS_KEPT_MIN: usize = 1024;

/// How a server's time ended.
pub(super) enum Ended {
    /// The feed is to end.
    Stopped,
    /// A state from a peer took the place of the one that the server has.
    Replaced,
    /// The server is of no use any more.
    Failed(String),
}

/// A read that waits.
pub(super) struct Read {
    /// The bodies that have to be carried out before.
    pub(super) after: u64,
    pub(super) request: store::Request,
    reply: oneshot::Sender<Bytes>,
    _room: Room,
}

/// Somebody who waits for an RDB with so many bodies at least.
pub(super) struct RdbWanted {
    after: u64,
    reply: oneshot::Sender<Arc<dyn Rdb>>,
}

/// What the thread of a feed has.
pub(super) struct Feeding {
    pub(super) shared: Arc<Shared>,
    pub(super) changed: Arc<Notify>,
    pub(super) launcher: Launcher,
    pub(super) files: Arc<RdbFiles>,
    pub(super) boot: u64,
    pub(super) waiters: Arc<Waiters>,
    pub(super) requests: mpsc::UnboundedReceiver<Request>,
    pub(super) board: Arc<FeedBoard>,
    /// Reads that are not answered, by number; and those that the server was not given yet.
    pub(super) reads: BTreeMap<u64, Read>,
    next_read: u64,
    /// The number of reads beyond which those that nobody waits for are looked for.
    reads_kept: usize,
    /// Whoever waits for an RDB.
    wanted: Vec<RdbWanted>,
    limits: WaitLimits,
}

impl Feeding {
    pub(super) fn new(
        prepared: PreparedFeed,
        waiters: Arc<Waiters>,
        requests: mpsc::UnboundedReceiver<Request>,
        board: Arc<FeedBoard>,
    ) -> Feeding {
        Feeding {
            shared: prepared.shared,
            changed: prepared.changed,
            launcher: prepared.launcher,
            files: prepared.files,
            boot: prepared.boot,
            waiters,
            requests,
            board,
            reads: BTreeMap::new(),
            next_read: 0,
            reads_kept: READS_KEPT_MIN,
            wanted: Vec::new(),
            limits: prepared.limits,
        }
    }

    /// Looks after servers until it is time to stop.
    ///
    /// # Errors
    /// When servers fail one after another, and too many bodies wait for them.
    pub(super) async fn run(mut self, mut stopping: oneshot::Receiver<()>) -> Result<(), String> {
        let (mut pause, mut failures) = (RESTART_PAUSE, 0);
        loop {
            let began = Instant::now();
            let ended = self.serve(&mut stopping).await;
            self.board.change(|status| status.is_serving = false);
            let why = match ended {
                Ended::Stopped => break,
                Ended::Replaced => {
                    tracing::info!("a state came from a peer: the server begins with it");
                    // What was asked in the state before has no reply in this one.
                    self.waiters.fail_all();
                    continue;
                }
                Ended::Failed(why) => why,
            };
            if began.elapsed() > WELL_AFTER {
                (pause, failures) = (RESTART_PAUSE, 0);
            }
            failures += 1;
            tracing::warn!("the server of Redis is replaced: {why}");
            self.board.change(|status| {
                status.deaths += 1;
                if failures >= FAILURES_TOLD {
                    status.failure =
                        Some(format!("{failures} servers failed, the last one so: {why}"));
                }
            });
            let behind = self.shared.bytes_from(self.board.status().carried_out);
            if failures >= FAILURES_TOLD && behind > self.limits.give_up_bytes() {
                self.waiters.fail_all();
                return Err(format!(
                    "{failures} servers of Redis failed, the last one so: {why}; {behind} bytes of commands wait for \
                     them, and the replica ends before they take all memory (--max-client-memory bounds them)"
                ));
            }
            tokio::select! {
                // An error means that nobody is left to say so.
                _ = &mut stopping => break,
                () = sleep(pause) => {}
            }
            self.take_all();
            pause = (2 * pause).min(RESTART_PAUSE_MAX);
        }
        self.waiters.fail_all();
        Ok(())
    }

    /// Notes everything that is asked, and forgets what nobody waits for any more; the numbers of reads.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        let mut reads = Vec::new();
        while let Ok(request) = self.requests.try_recv() {
            reads.extend(self.take(request));
        }
        if self.reads.len() >= self.reads_kept {
            self.unanswered();
            self.reads_kept = READS_KEPT_MIN.max(2 * self.reads.len());
        }
        reads
    }

    /// Notes what is asked; the number of a read.
    pub(super) fn take(&mut self, request: Request) -> Option<u64> {
        match request {
            Request::Read {
                after,
                request,
                room,
                reply,
            } => {
                let number = self.next_read;
                self.next_read += 1;
                let read = Read {
                    after,
                    request,
                    reply,
                    _room: room,
                };
                self.reads.insert(number, read);
                Some(number)
            }
            Request::Rdb { after, reply } => {
                self.wanted.retain(|wanted| !wanted.reply.is_closed());
                self.wanted.push(RdbWanted { after, reply });
                None
            }
        }
    }

    /// The reads that are not answered, oldest first; those that nobody waits for are forgotten.
    pub(super) fn unanswered(&mut self) -> Vec<u64> {
        self.reads.retain(|_, read| !read.reply.is_closed());
        self.reads.keys().copied().collect()
    }

    pub(super) fn answer_read(&mut self, number: u64, replies: Bytes) {
        if let Some(read) = self.reads.remove(&number) {
            // Its client may be gone.
            let _ = read.reply.send(replies);
        }
    }

    /// The bodies that an RDB needs for somebody who waits for one, at least.
    pub(super) fn rdb_wanted(&self) -> Option<u64> {
        self.wanted.iter().map(|wanted| wanted.after).min()
    }

    /// Tells everybody who waits for an RDB that there is none.
    pub(super) fn refuse_rdbs(&mut self) {
        self.wanted.clear();
    }

    /// Hands an RDB to those who wait for no newer one.
    pub(super) fn hand_out(&mut self, position: u64, rdb: &Arc<dyn Rdb>) {
        let (now, later): (Vec<_>, Vec<_>) =
            (self.wanted.drain(..)).partition(|wanted| wanted.after <= position);
        self.wanted = later;
        for wanted in now {
            // Whoever asked may be gone.
            let _ = wanted.reply.send(Arc::clone(rdb));
        }
    }
}
