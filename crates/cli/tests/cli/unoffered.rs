//! Writes that were told that they took too long: what was offered to nobody by then never runs.

use crate::support::loss::{Loss, protocols};
use crate::support::{Client, Home, Up, channel, eventually};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_face_etcd::client::KvClient;
use std::fs;
use std::time::Duration;
use tonic::transport::Channel;

/// How long a request waits, in ms.
const TIMEOUT_MS: u64 = 400;
/// The time between requests that are to be in entries of their own, and the number of them that fills what is under
/// way of every protocol.
const APART: Duration = Duration::from_millis(3);
const FILL: usize = 150;

/// Three replicas of which two are gone, and what asks the third.
struct Survivor {
    home: Home,
    up: Up,
    loss: Loss,
    client: KvClient<Channel>,
}

impl Survivor {
    async fn of(loss: Loss, protocol: &str, flags: &[&str]) -> Survivor {
        let home = Home::new();
        let timeout = format!("--server-arg=--request-timeout-ms={TIMEOUT_MS}");
        let mut all = vec!["--protocol", protocol, timeout.as_str()];
        all.extend_from_slice(flags);
        let mut up = home.start(&all);
        let url = up.urls[0].clone();
        let mut client = Client::connect(&url).await;
        eventually("it writes", || {
            let mut client = client.clone();
            async move { client.put("before", "1").await.ok() }
        })
        .await;
        client.get("before").await.unwrap();
        loss.strike(&up);
        loss.wait(&mut up);
        let client = KvClient::new(channel(&url).await);
        Survivor {
            home,
            up,
            loss,
            client,
        }
    }

    /// Puts new keys, one every so often, and waits until all were told that nobody answers.
    async fn put_in_vain(&self, prefix: &str, count: usize, apart: Duration) {
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..count {
            let request = PutRequest {
                key: format!("{prefix}/{number}").into_bytes().into(),
                value: vec![b'v'; 100].into(),
                ..PutRequest::default()
            };
            let mut client = self.client.clone();
            asked.spawn(async move { client.put(request).await });
            tokio::time::sleep(apart).await;
        }
        while let Some(answer) = asked.join_next().await {
            assert!(answer.unwrap().is_err(), "{prefix}: no quorum is there");
        }
    }

    /// Starts the stopped replicas again, and waits until all that runs has run.
    async fn recover(&mut self) -> Vec<Up> {
        let started = self.loss.undo(&self.home, &self.up);
        let client = Client::connect(&self.up.urls[0]).await;
        for turn in 0..20 {
            eventually("it writes again", || {
                let mut client = client.clone();
                async move { client.put("after", &turn.to_string()).await.ok() }
            })
            .await;
        }
        started
    }

    /// How many keys there are under a prefix.
    async fn count(&mut self, prefix: &str) -> i64 {
        let request = RangeRequest {
            key: format!("{prefix}/").into_bytes().into(),
            range_end: format!("{prefix}0").into_bytes().into(),
            count_only: true,
            ..RangeRequest::default()
        };
        self.client.range(request).await.unwrap().into_inner().count
    }

    /// Bytes of memory that the replica has.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.up.pids[&1])).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib << 10
    }
}

/// Scenario: two of three are gone, and more is asked of the third than may be under way. Then they come back.
async fn refused_puts_do_not_run(protocol: &str, flags: &[&str], loss: Loss) {
    let mut survivor = Survivor::of(loss, protocol, flags).await;
    survivor.put_in_vain("first", FILL, APART).await;
    survivor.put_in_vain("second", 300, Duration::ZERO).await;
    let _started = survivor.recover().await;
    let ran = (
        survivor.count("first").await,
        survivor.count("second").await,
    );
    println!("{protocol}, {loss:?}: {ran:?} ran of {FILL} and 300");
    assert_eq!(ran.1, 0, "{protocol}, {loss:?}");
    if loss == Loss::Killed {
        assert_eq!(ran.0, 0, "{protocol}, {loss:?}");
    }
}

protocols! {
    refused_puts_do_not_run;
    rabia: "rabia";
    multi_paxos: "multi-paxos";
    raft: "raft";
    rs_paxos: "rs-paxos", "--code", "3,1";
    chora: "chora";
    nezha: "nezha", "--param", "outstanding=8";
    racos: "racos";
}

/// Scenario: 11,000 puts are refused while two of three are gone.
async fn memory_stays(protocol: &str, flags: &[&str], loss: Loss) {
    let survivor = Survivor::of(loss, protocol, flags).await;
    survivor.put_in_vain("warm", 1_000, Duration::ZERO).await;
    let before = survivor.memory();
    for wave in 0..11 {
        let prefix = format!("wave {wave}");
        survivor.put_in_vain(&prefix, 1_000, Duration::ZERO).await;
    }
    let grown = survivor.memory().saturating_sub(before);
    println!("{protocol}, {loss:?}: {} KiB more", grown >> 10);
    assert!(grown < 16 << 20, "{protocol}, {loss:?}: {grown} bytes more");
}

/// Scenario: 11,000 puts are refused; the replica keeps no memory of them.
#[tokio::test]
#[ignore = "takes minutes"]
async fn memory_does_not_grow_with_what_is_refused() {
    for loss in [Loss::Killed, Loss::Stopped] {
        memory_stays("rabia", &[], loss).await;
        memory_stays("multi-paxos", &[], loss).await;
        memory_stays("raft", &[], loss).await;
        memory_stays("rs-paxos", &["--code", "3,1"], loss).await;
        memory_stays("chora", &[], loss).await;
        memory_stays("nezha", &[], loss).await;
        memory_stays("racos", &[], loss).await;
    }
}
