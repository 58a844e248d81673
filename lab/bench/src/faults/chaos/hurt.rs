//! Doing faults to a cluster, and undoing them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::PutRequest;
use quorate_sim::judge::Request;
use tokio::runtime::Runtime;

use super::disk;
use super::fault::{Fault, Planned};
use super::replicas::Replicas;
use crate::faults::requests::send;
use crate::faults::session::Session;
use crate::faults::state::connect;
use quorate_load::relay::{Network, Weather};

/// A cluster while it is hurt.
#[derive(Debug)]
pub(super) struct Hurt<'a> {
    pub(super) replicas: &'a mut Replicas,
    network: &'a Network,
    runtime: &'a Runtime,
    session: Arc<Session>,
    fillers: Vec<PathBuf>,
    /// Flags that end the puts which fill a log while its disk is full.
    ballast: Vec<Arc<AtomicBool>>,
    /// What was drawn with each fault, in words.
    pub(super) notes: Vec<String>,
    /// Replicas whose faults may end them, which is no violation.
    may_end: Vec<usize>,
}

impl<'a> Hurt<'a> {
    pub(super) fn new(
        replicas: &'a mut Replicas,
        network: &'a Network,
        runtime: &'a Runtime,
        session: &Arc<Session>,
    ) -> Hurt<'a> {
        Hurt {
            replicas,
            network,
            runtime,
            session: Arc::clone(session),
            fillers: Vec::new(),
            ballast: Vec::new(),
            notes: Vec::new(),
            may_end: Vec::new(),
        }
    }

    /// Does a fault.
    pub(super) fn begin(&mut self, planned: &Planned) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(planned.seed);
        let victim = planned.victim;
        if planned.fault.kills() {
            for replica in planned.victims(self.replicas.count()) {
                self.replicas.kill(replica);
            }
        }
        match planned.fault {
            Fault::Kill | Fault::KillAll => {}
            Fault::Pause => self.replicas.pause(victim, true),
            Fault::Partition => self.cut_off(victim, &mut random)?,
            Fault::OneWay => {
                let outwards = random.bool();
                let cut = |weather: &mut Weather| weather.cut = true;
                self.network.around(victim, outwards, !outwards, cut);
                let what = if outwards { "out" } else { "in" };
                self.notes.push(format!("nothing comes {what}"));
            }
            Fault::SlowLink => {
                let delay = Duration::from_millis(random.u64(5..150));
                let bytes_per_second = random.u64(64..1024) << 10;
                self.network.around(victim, true, true, |weather| {
                    weather.delay = delay / 2;
                    weather.jitter = delay;
                    weather.bytes_per_second = bytes_per_second;
                });
            }
            Fault::BrokenLink => self.network.around(victim, true, true, |weather| {
                weather.stalls = 0.02;
                weather.broken += 1;
            }),
            Fault::Clock => {
                let seconds = random.i64(-HOUR_S..=HOUR_S);
                let clock_ns = seconds * 1_000_000_000;
                self.replicas.mislead(victim, clock_ns, Duration::ZERO)?;
                self.notes.push(format!("{seconds} s"));
            }
            Fault::SlowDisk => {
                let sync = Duration::from_millis(random.u64(20..500));
                self.replicas.mislead(victim, 0, sync)?;
                self.notes.push(format!("{sync:?} a sync"));
            }
            Fault::DiskFull => self.fill(victim)?,
            Fault::ReadOnly => {
                let disk = self.replicas.disk(victim);
                self.replicas.ground.lock_disk(&disk, true)?;
                self.may_end.push(victim);
                self.replicas.start(victim)?;
            }
            Fault::Corrupt => self.corrupt(victim, &mut random)?,
            Fault::Wipe => self.replicas.wipe(victim)?,
        }
        Ok(())
    }

    /// Goes on with a fault that is more than a state.
    pub(super) fn go_on(&mut self, planned: &Planned) {
        if planned.fault == Fault::BrokenLink {
            let again = |weather: &mut Weather| weather.broken += 1;
            self.network.around(planned.victim, true, true, again);
        }
    }

    /// Undoes a fault.
    pub(super) fn end(&mut self, planned: &Planned) -> Result<(), String> {
        let victim = planned.victim;
        match planned.fault {
            Fault::Kill | Fault::KillAll | Fault::Corrupt | Fault::Wipe => {
                for replica in planned.victims(self.replicas.count()) {
                    self.replicas.start(replica)?;
                }
            }
            Fault::Pause => self.replicas.pause(victim, false),
            Fault::Partition | Fault::OneWay | Fault::SlowLink | Fault::BrokenLink => {
                self.replicas.ground.cable(victim, true)?;
                self.network.around(victim, true, true, |weather| {
                    let broken = weather.broken;
                    *weather = Weather {
                        broken,
                        ..Weather::default()
                    };
                });
            }
            Fault::Clock | Fault::SlowDisk => self.replicas.mislead(victim, 0, Duration::ZERO)?,
            Fault::DiskFull => {
                self.make_room();
                // Where another fault has killed it, or it has only just been started again, nobody answers.
                if let Ok(failed) = self.replicas.metric(victim, SNAPSHOT_FAILURES) {
                    self.notes.push(format!("{failed} snapshots failed"));
                }
            }
            Fault::ReadOnly => {
                self.replicas.kill(victim);
                let disk = self.replicas.disk(victim);
                self.replicas.ground.lock_disk(&disk, false)?;
                self.replicas.start(victim)?;
            }
        }
        Ok(())
    }

    /// Waits until every replica votes again; an operator does what programs say they should.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        for replica in 0..self.replicas.count() {
            let Err(why) = self.replicas.wait_voting(replica) else {
                continue;
            };
            let has_ended = self.replicas.ended(replica).is_some();
            if !has_ended || !self.may_end.contains(&replica) {
                return Err(why);
            }
            self.replicas.kill(replica);
            self.notes
                .push(format!("replica {} was started again", replica + 1));
            self.replicas.start(replica)?;
            self.replicas.wait_voting(replica)?;
        }
        Ok(())
    }

    fn cut_off(&mut self, victim: usize, random: &mut fastrand::Rng) -> Result<(), String> {
        if random.bool() && self.replicas.ground.cable(victim, false)? {
            self.notes.push("cable out".to_owned());
            return Ok(());
        }
        let cut = |weather: &mut Weather| weather.cut = true;
        self.network.around(victim, true, true, cut);
        Ok(())
    }

    fn corrupt(&mut self, victim: usize, random: &mut fastrand::Rng) -> Result<(), String> {
        let flipped = disk::flip(&self.replicas.folder(victim), random);
        let flipped = flipped.map_err(|error| format!("cannot change the log: {error}"))?;
        self.notes.push(match flipped {
            None => "the log had no mark".to_owned(),
            Some(flipped) => {
                let name = flipped.file.file_name().unwrap_or_default();
                format!("byte {} of {}", flipped.offset, name.display())
            }
        });
        Ok(())
    }

    /// Fills a disk, and has the log grow so that it wants more.
    fn fill(&mut self, victim: usize) -> Result<(), String> {
        let disk = self.replicas.disk(victim);
        let filler = disk::fill(&disk)
            .map_err(|error| format!("cannot fill {}: {error}", disk.display()))?;
        self.fillers.push(filler);
        let over = Arc::new(AtomicBool::new(false));
        self.ballast.push(Arc::clone(&over));
        let url = self.replicas.endpoints[(victim + 1) % self.replicas.count()].clone();
        let timeout = self.session.timeout;
        let put = Request::Put(PutRequest {
            key: Bytes::from_static(b"ballast"),
            value: Bytes::from(vec![b'b'; BALLAST_BYTES]),
            ..PutRequest::default()
        });
        self.runtime.spawn(async move {
            // Nobody wants the values; what counts is that they are written.
            while !over.load(SeqCst) {
                let Ok(mut channel) = connect(&url).await else {
                    // A replica that is down is not asked as fast as it refuses.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let sent =
                    async { while !over.load(SeqCst) && send(&mut channel, &put).await.is_ok() {} };
                let _ = tokio::time::timeout(timeout, sent).await;
            }
        });
        Ok(())
    }

    fn make_room(&mut self) {
        for over in self.ballast.drain(..) {
            over.store(true, SeqCst);
        }
        for filler in self.fillers.drain(..) {
            // It was made above, and there is nobody else to delete it.
            let _ = std::fs::remove_file(filler);
        }
    }
}

const SNAPSHOT_FAILURES: &str = "quorate_snapshot_failures_total";
const HOUR_S: i64 = 3600;
const BALLAST_BYTES: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(30);
