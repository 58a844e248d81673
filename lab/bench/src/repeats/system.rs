//! A cluster most of whose replicas can be frozen.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use rustix::process::Signal;

use super::RepeatsArgs;
use crate::cluster::{Cluster, need_etcd};
use quorate_load::load::rpc::{Call, Channel};
use quorate_load::replicas::Replicas;
use quorate_load::trial::Asker;
use quorate_tooling::children::signal;
use quorate_tooling::process;
use quorate_tooling::scrape;

/// Replicas of a cluster, and those of them that are never frozen: the first.
const REPLICAS: u8 = 5;
const LIVE: usize = 2;
/// The name of the system that is no protocol of ours.
pub(super) const ETCD: &str = "etcd";

/// A running cluster.
#[derive(Debug)]
pub(super) struct System {
    endpoints: Vec<String>,
    /// The processes of the replicas, in their order.
    pids: Vec<u32>,
    _cluster: Running,
}

#[derive(Debug)]
#[expect(dead_code, reason = "dropped, it stops the cluster")]
enum Running {
    Ours(Replicas),
    Etcd(Cluster),
}

/// Most replicas of a cluster do nothing while this exists.
#[must_use]
pub(super) struct Frozen<'a>(&'a [u32]);

impl System {
    /// Starts five replicas under a protocol, or of etcd.
    pub(super) fn begin(args: &RepeatsArgs, name: &str) -> Result<System, String> {
        let parent = args.place.parent();
        if name == ETCD {
            need_etcd(&args.etcd, "leave etcd out of --systems")?;
            let cluster = Cluster::etcd(&args.etcd, REPLICAS, parent)?;
            return Ok(System {
                endpoints: cluster.endpoints.clone(),
                pids: cluster.pids(),
                _cluster: Running::Etcd(cluster),
            });
        }
        let binary = args.place.binary()?;
        let mut options = vec![format!("--protocol={name}")];
        if CODED.contains(&name) {
            options.push(format!("--code={REPLICAS},3"));
            // A small value that is stored whole is decided with the two replicas that are never frozen.
            options.push("--param=payload_min=1".to_owned());
        }
        let replicas = Replicas::begin(binary, REPLICAS, parent, &options, START_PATIENCE, None)?;
        let pids: Option<Vec<u32>> = (0..REPLICAS.into()).map(|one| replicas.pid(one)).collect();
        Ok(System {
            endpoints: replicas.endpoints.clone(),
            pids: pids.ok_or("a replica is not running")?,
            _cluster: Running::Ours(replicas),
        })
    }

    /// Where clients put.
    pub(super) fn live(&self) -> Vec<String> {
        self.endpoints[..LIVE].to_vec()
    }

    /// Freezes all replicas but those that clients put through. One that runs as another process by now is an error.
    pub(super) fn freeze(&mut self) -> Result<Frozen<'_>, String> {
        let frozen = Frozen(self.pids.get(LIVE..).ok_or("too few replicas run")?);
        frozen.0.iter().for_each(|&pid| signal(pid, Signal::STOP));
        let deadline = Instant::now() + FREEZE_PATIENCE;
        while let Some(pid) = frozen.0.iter().find(|&&pid| !process::is_stopped(pid)) {
            if Instant::now() > deadline {
                return Err(format!(
                    "process {pid} of a replica does not stop, or is gone"
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(frozen)
    }

    /// Waits until a put through each of the endpoints is acknowledged.
    pub(super) async fn wait_writable(&self) -> Result<(), String> {
        for url in &self.endpoints[..LIVE] {
            let mut asker = Asker::new(url, PUT_PATIENCE)?;
            let (key, value) = (Bytes::from_static(b"writable"), Bytes::new());
            asker.insist_put(START_PATIENCE, &key, value).await?;
        }
        Ok(())
    }

    /// How often each put whose key begins like this was executed, once no more of them are. Puts that were never
    /// executed are left out.
    pub(super) async fn executed(&self, prefix: &str) -> Result<Vec<u32>, String> {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().ok_or("no prefix")? += 1;
        let request = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: Bytes::from(end),
            keys_only: true,
            ..RangeRequest::default()
        };
        self.wait_writable().await?;
        let mut channel =
            Channel::connect(scrape::authority(&self.endpoints[0])?, PUT_PATIENCE).await?;
        let mut last = (Vec::new(), Instant::now());
        loop {
            let answer = channel.call(Call::Range, &request).await;
            let answer: RangeResponse = answer.map_err(|failure| failure.text)?;
            let versions = answer
                .kvs
                .iter()
                .map(|kv| u32::try_from(kv.version).unwrap_or(u32::MAX));
            let executed: Vec<u32> = versions.collect();
            if executed != last.0 {
                last = (executed, Instant::now());
            } else if last.1.elapsed() > QUIET {
                return Ok(last.0);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|&pid| signal(pid, Signal::CONT));
    }
}

impl fmt::Debug for Frozen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frozen").field(&self.0).finish()
    }
}

const CODED: [&str; 2] = ["rs-paxos", "racos"];
const START_PATIENCE: Duration = Duration::from_secs(60);
const FREEZE_PATIENCE: Duration = Duration::from_secs(2);
const PUT_PATIENCE: Duration = Duration::from_secs(10);
/// What was not executed for so long, after a later put was, is not executed any more.
const QUIET: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(200);
