//! One turn of one system: a fresh cluster, and all sizes in order, each brought into the steady state.

use std::time::{Duration, Instant};

use super::traffic::{Reading, Traffic};
use super::{Point, SizesArgs};
use crate::systems::Shape;
use crate::systems::compaction::Compaction;
use crate::systems::ground::{Launch, Running, etcd_leader};
use quorate_load::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;
use quorate_tooling::units::{show_count, show_size};

/// Runs the turn.
pub(super) fn run(
    args: &SizesArgs,
    pair: u16,
    shape: Shape,
    points: &mut Vec<Point>,
) -> Result<(), String> {
    let running = Running::start(&Launch::of(&args.on), shape)?;
    let mut turn = Turn {
        args,
        shape,
        compaction: Compaction::begin(&running.endpoints[0])?,
        running,
        leader: 0,
    };
    for &value_bytes in &args.sizes {
        let Measured { report, traffic } = turn.measure(value_bytes)?;
        eprintln!(
            "turn {} of {}: {}, {}: {} puts/s",
            pair + 1,
            args.pairs,
            shape.title(),
            show_size(value_bytes),
            show_count(report.per_second),
        );
        points.push(Point {
            pair,
            shape,
            value_bytes,
            expected: shape.expected(value_bytes),
            report,
            traffic,
        });
    }
    Ok(())
}

struct Turn<'a> {
    args: &'a SizesArgs,
    shape: Shape,
    /// Ends before the cluster does.
    compaction: Compaction,
    running: Running,
    leader: usize,
}

/// What came of values of one length.
struct Measured {
    /// What clients saw.
    report: Report,
    /// What the cluster did meanwhile.
    traffic: Traffic,
}

impl Turn<'_> {
    /// Measures in the steady state: again, a few times at most, if segments had to be made after all.
    fn measure(&mut self, value_bytes: usize) -> Result<Measured, String> {
        let mut attempts = 1;
        loop {
            let before = self.warm_up(value_bytes)?;
            let mut job = self.job(value_bytes);
            job.load.duration = Some(self.args.seconds);
            let report = load::run(&job)?;
            let after = Reading::settled(&self.running)?;
            let is_steady = !self.has_segments() || after.filled_since(&before) == 0.0;
            if is_steady || attempts == ATTEMPTS_MAX {
                return Ok(Measured {
                    report,
                    traffic: after.since(&before),
                });
            }
            attempts += 1;
        }
    }

    /// Puts until it is known who leads, if anybody does, and, but behind slow links, until segments are not made any
    /// more but used again. Clients have to ask the leader: a follower sends what it is told to the leader
    /// once more. Returns what was counted until then. Where another leads after each round, or segments
    /// never are enough, what is counted later tells what the figures are worth.
    fn warm_up(&mut self, value_bytes: usize) -> Result<Reading, String> {
        let began = Instant::now();
        let first = Reading::take(&self.running)?;
        let (mut before, mut last_fill) = (first.clone(), first.clone());
        let mut job = self.job(value_bytes);
        job.load.duration = Some(self.args.warmup);
        loop {
            job.load.endpoints = self.asked();
            load::run(&job)?;
            let after = Reading::settled(&self.running)?;
            let leader = match self.shape.system.is_ours() {
                true => after.leader_since(&before),
                false => etcd_leader(&self.running.endpoints).unwrap_or(self.leader),
            };
            let is_led = std::mem::replace(&mut self.leader, leader) == leader
                || !self.shape.system.is_led();
            if after.filled_since(&before) > 0.0 {
                last_fill = after.clone();
            }
            before = after;
            let is_steady =
                !self.has_segments() || before.least_written_since(&last_fill) >= STEADY_BYTES;
            let is_long = began.elapsed() > WARM_UP_MAX
                || before.least_written_since(&first) > WARM_UP_BYTES_MAX;
            if is_long || is_led && is_steady {
                return Ok(before);
            }
            job.load.duration = Some(self.args.warmup * 2);
        }
    }

    /// Whether segments are to be used again before anything is measured: behind slow links that takes too
    /// long, and etcd has none.
    fn has_segments(&self) -> bool {
        self.args.on.link.is_none() && self.shape.system.is_ours()
    }

    /// The endpoints that clients use: the leader's, or all where nobody leads.
    fn asked(&self) -> Vec<String> {
        match self.shape.system.is_led() {
            true => vec![self.running.endpoints[self.leader].clone()],
            false => self.running.endpoints.clone(),
        }
    }

    fn job(&self, value_bytes: usize) -> Job {
        let fragments = usize::from(self.shape.fragments(value_bytes));
        self.compaction.every(value_bytes / fragments);
        let clients = clients(self.args.clients, value_bytes);
        let load = LoadArgs {
            clients,
            conns: Some(clients.min(load::CONNECTIONS_DEFAULT_MAX)),
            val_size: value_bytes,
            key_space: Some(keys(value_bytes)),
            timeout: TIMEOUT,
            server_pids: self.running.pids.clone(),
            metrics: self.running.endpoints.clone(),
            ..LoadArgs::at(self.asked())
        };
        Job {
            name: "put",
            read_share: 0.0,
            load,
            read: ReadArgs::default(),
            verify: VerifyArgs::default(),
        }
    }
}

/// Fewer clients than asked for, if what they have under way would be too much.
fn clients(most: u32, value_bytes: usize) -> u32 {
    let fit = (UNDER_WAY_BYTES_MAX / value_bytes.max(1)).max(1);
    most.min(fit.try_into().unwrap_or(u32::MAX))
}

/// The number of keys. What is live is little beside a segment: of a segment that holds little else, it
/// would be moved. One alone is always in the segment written last, which is left alone.
fn keys(value_bytes: usize) -> u64 {
    (LIVE_BYTES_MAX / value_bytes.max(1)).clamp(1, KEYS_MAX) as u64
}

/// What each replica writes without a new segment when it has enough of them: three.
const STEADY_BYTES: f64 = 192.0 * 1024.0 * 1024.0;
/// Measurements of one size, until one is of the steady state.
const ATTEMPTS_MAX: u32 = 4;
const WARM_UP_MAX: Duration = Duration::from_secs(40);
const WARM_UP_BYTES_MAX: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;
const TIMEOUT: Duration = Duration::from_secs(60);
const UNDER_WAY_BYTES_MAX: usize = 32 << 20;
const LIVE_BYTES_MAX: usize = 512 << 10;
const KEYS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_have_fewer_clients_and_keys() {
        assert_eq!((clients(16, 1024), keys(256)), (16, 1024));
        assert_eq!((clients(16, 64 << 10), keys(64 << 10)), (16, 8));
        assert_eq!((clients(16, 16 << 20), keys(16 << 20)), (2, 1));
        assert_eq!((clients(16, 64 << 20), keys(64 << 20)), (1, 1));
    }
}
