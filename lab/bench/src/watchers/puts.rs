//! Puts at a fixed rate; latency counts from when each was due.

use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::PutRequest;
use quorate_face_etcd::client::KvClient;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::transport::Channel;

use super::WatchersArgs;
use quorate_load::latency::{Latency, LatencySummary};

/// Where puts go, and what was put.
#[derive(Debug)]
pub(crate) struct Puts {
    channels: Vec<Channel>,
    keys: u32,
    rate: u32,
    duration: Duration,
    value: Bytes,
    count: usize,
    /// Puts while there were watches.
    watched: u64,
}

/// What came of puts.
pub(crate) struct PutsSeen {
    pub(crate) latency: LatencySummary,
    pub(crate) failed: u64,
}

impl Puts {
    pub(crate) fn new(channels: Vec<Channel>, keys: u32, args: &WatchersArgs) -> Puts {
        Puts {
            channels,
            keys,
            rate: args.rate,
            duration: args.duration,
            value: vec![b'v'; args.val_size].into(),
            count: 0,
            watched: 0,
        }
    }

    /// Puts for a while.
    pub(crate) async fn run(&mut self, watched: bool) -> PutsSeen {
        let mut running = JoinSet::new();
        let mut ticks = interval(Duration::from_secs(1) / self.rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + self.duration;
        loop {
            let due = ticks.tick().await;
            if due >= end {
                break;
            }
            let mut kv = KvClient::new(self.channels[self.count % self.channels.len()].clone());
            let request = PutRequest {
                key: key(self.count as u32 % self.keys),
                value: self.value.clone(),
                ..PutRequest::default()
            };
            self.count += 1;
            running.spawn(async move {
                let answer = kv.put(request).await;
                answer.is_ok().then(|| due.elapsed().as_nanos() as u64)
            });
        }
        let (mut latency, mut failed) = (Latency::new(), 0);
        while let Some(put) = running.join_next().await {
            match put {
                Ok(Some(ns)) => latency.record(ns),
                _ => failed += 1,
            }
        }
        if watched {
            self.watched += latency.count();
        }
        PutsSeen {
            latency: latency.summary(),
            failed,
        }
    }

    /// How many puts the watches were to see.
    pub(crate) fn since_watched(&self) -> u64 {
        self.watched
    }
}

/// A key that is put and watched.
pub(crate) fn key(number: u32) -> Bytes {
    format!("w/{number:08}").into()
}
