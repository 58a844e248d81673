//! Whole replicas in this process, joined by rings in memory: core, host, log on disk, a thread each.

use bytes::Bytes;
use quorate_core::{
    ClusterId, Durability, Epoch, Incarnation, Member, Principal, ReplicaId, Slot, Wire,
};
use quorate_plain_store::{Outcome, Query, QueryAnswer, Store, Write};
use quorate_server::{
    Consistency, Embedded, Expected, Failure, Folder, Layout, Meta, PeerLinks, Rings, ServerConfig,
    bootstrap, embed,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const REPLICAS: u16 = 3;
/// What takes longer never happens.
const PATIENCE: Duration = Duration::from_secs(30);

struct Cluster {
    home: tempfile::TempDir,
    rings: Rings,
    layout: Layout,
}

impl Cluster {
    fn new(protocol: &str, layout: Layout) -> Cluster {
        let cluster = Cluster {
            home: tempfile::tempdir().unwrap(),
            rings: Rings::default(),
            layout,
        };
        let member = |id: u16| Member {
            id: ReplicaId(id),
            incarnation: Incarnation(u128::from(id)),
        };
        let epoch = Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (1..=REPLICAS).map(member).collect(),
            protocol: protocol.to_owned(),
            durability: Durability::Disk,
            seed: 1,
            params: BTreeMap::new(),
        };
        for me in 1..=REPLICAS {
            let meta = Meta::bootstrapped(ClusterId(7), member(me), epoch.clone());
            bootstrap(&cluster.dir(me), &meta).unwrap();
        }
        cluster
    }

    fn dir(&self, me: u16) -> std::path::PathBuf {
        self.home.path().join(me.to_string())
    }

    async fn start(&self, me: u16) -> Embedded<Store> {
        let others = (1..=REPLICAS).filter(|id| *id != me);
        let others = others.map(|id| (ReplicaId(id), id.to_string())).collect();
        let peers = PeerLinks::Rings(self.rings.clone());
        let config = ServerConfig {
            layout: self.layout,
            ..ServerConfig::embedded(open(&self.dir(me), me), peers, others)
        };
        embed(config, Store::new()).await.unwrap()
    }
}

fn open(dir: &Path, me: u16) -> Folder {
    Folder::open(dir, &Expected::any(ReplicaId(me))).unwrap()
}

fn key(n: u32) -> Bytes {
    n.to_string().into()
}

async fn put(replica: &Embedded<Store>, n: u32, value: &Bytes) {
    let body = Write::put(key(n), value.clone()).to_bytes();
    loop {
        let written = replica.handle.write(body.clone(), Principal(0));
        match timeout(PATIENCE, written).await.expect("no answer in time") {
            Ok(outcome) => {
                let outcome = Outcome::decode(&outcome).unwrap();
                assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
                return;
            }
            // A leader may have to be found first.
            Err(Failure::NotServing) => tokio::task::yield_now().await,
            Err(failure) => panic!("{failure}"),
        }
    }
}

async fn get(replica: &Embedded<Store>, n: u32, consistency: Consistency) -> Option<Bytes> {
    let read = replica.handle.read(Query::Get(vec![key(n)]), consistency);
    let answer = timeout(PATIENCE, read).await.expect("no answer in time");
    match answer.unwrap() {
        QueryAnswer::Got(mut items) => items.pop().flatten().map(|item| item.value),
        QueryAnswer::Count(_) => unreachable!("it was not asked for"),
    }
}

/// Waits until a replica has applied all that another has.
async fn caught_up(replica: &Embedded<Store>, with: &Embedded<Store>) {
    let target = *with.handle.applied().borrow();
    let mut applied = replica.handle.applied();
    let reached = timeout(PATIENCE, applied.wait_for(|slot| *slot >= target)).await;
    reached.expect("it stays behind").unwrap();
}

async fn links_up(replica: &Embedded<Store>) -> Vec<u16> {
    let status = replica.handle.status().await.unwrap();
    status.links_up.iter().map(|id| id.0).collect()
}

/// Waits until a replica has links to these.
async fn linked(replica: &Embedded<Store>, peers: &[u16]) {
    let reached = async {
        while links_up(replica).await != peers {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, reached)
        .await
        .expect("links never change");
}

/// Scenario: every replica takes writes, of short and of long values; one is stopped, the others go on, and it starts
/// again from its folder, has what it missed, and takes writes.
async fn one_stops_and_comes_back(protocol: &str, layout: Layout) {
    let cluster = Cluster::new(protocol, layout);
    let mut replicas = Vec::new();
    for me in 1..=REPLICAS {
        replicas.push(cluster.start(me).await);
    }
    linked(&replicas[0], &[2, 3]).await;
    let long = Bytes::from(vec![7; 100_000]);
    for (n, replica) in (0..).zip(&replicas) {
        put(replica, n, &long).await;
        put(replica, 10 + n, &key(n)).await;
    }
    for replica in &replicas {
        for n in 0..u32::from(REPLICAS) {
            let read = |n| get(replica, n, Consistency::Linearizable);
            assert!(read(n).await.as_ref() == Some(&long));
            assert_eq!(read(10 + n).await, Some(key(n)));
        }
    }
    // Multi-Paxos' leader is the first to have begun; whoever it is, two remain.
    let stopped = replicas.pop().unwrap();
    stopped.stop().await.unwrap();
    linked(&replicas[0], &[2]).await;
    for n in 100..200 {
        put(&replicas[n as usize % 2], n, &key(n)).await;
    }
    replicas.push(cluster.start(3).await);
    linked(&replicas[0], &[2, 3]).await;
    caught_up(&replicas[2], &replicas[0]).await;
    for n in 100..200 {
        let read = get(&replicas[2], n, Consistency::Serializable).await;
        assert_eq!(read, Some(key(n)));
    }
    put(&replicas[2], 300, &long).await;
    let read = get(&replicas[0], 300, Consistency::Linearizable).await;
    assert!(read == Some(long));
    for replica in replicas {
        replica.stop().await.unwrap();
    }
}

#[tokio::test]
async fn multi_paxos_goes_on_over_rings() {
    one_stops_and_comes_back("multi-paxos", Layout::Threaded).await;
}

#[tokio::test]
async fn chora_goes_on_over_rings() {
    one_stops_and_comes_back("chora", Layout::Split).await;
}

#[tokio::test]
async fn rabia_goes_on_over_rings_in_one_thread() {
    one_stops_and_comes_back("rabia", Layout::Fused).await;
}
