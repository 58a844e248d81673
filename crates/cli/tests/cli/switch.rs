//! A running cluster goes from one protocol to another.

use crate::support::{
    Client, Home, Up, converged, eventually, expect_failure, free_ports, metric, output, quorate,
};
use quorate_server::RAFT_LEVEL;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;
use tokio::task::JoinHandle;

/// Longer than a value that every protocol orders whole.
const LONG: usize = 20_000;

fn switch(url: &str, to: &[&str]) -> Value {
    let flags = ["cluster", "switch", "--json", "--endpoints", url];
    let done = output(quorate().args(flags).args(to));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{to:?}: {said}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Puts one key after the other through one replica until it is told to stop; every put must be
/// answered. Each third value is long.
fn write_on(url: &str, stop: &Arc<AtomicBool>) -> (Arc<AtomicU32>, JoinHandle<()>) {
    let written = Arc::new(AtomicU32::new(0));
    let (count, stop, url) = (Arc::clone(&written), Arc::clone(stop), url.to_owned());
    let task = tokio::spawn(async move {
        let mut client = Client::connect(&url).await;
        while !stop.load(Ordering::Relaxed) {
            let next = count.load(Ordering::Relaxed);
            client.put(&key(&url, next), &value(next)).await.unwrap();
            count.store(next + 1, Ordering::Relaxed);
        }
    });
    (written, task)
}

fn key(url: &str, number: u32) -> String {
    format!("{url}/{number}")
}

fn value(number: u32) -> String {
    match number % 3 {
        0 => number.to_string().repeat(LONG / number.to_string().len()),
        _ => number.to_string(),
    }
}

/// Scenario: three clients write, each through another replica, while the cluster goes through all
/// protocols and back. No request fails, nothing is lost, and a restart goes on where it was.
#[tokio::test]
async fn a_cluster_goes_through_all_protocols_while_clients_write() {
    let home = Home::new();
    let up = home.start(&[]);
    let urls = up.urls.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = urls.iter().map(|url| write_on(url, &stop)).collect();
    let steps: [&[&str]; 8] = [
        &["multi-paxos"],
        &["raft"],
        &["rabia"],
        &["raft", "--param", "window=32"],
        &["rs-paxos", "--code", "3,1"],
        &["multi-paxos", "--param", "payload_min=1"],
        &["rs-paxos", "--code", "3,1"],
        &["rabia", "--param", "window=8"],
    ];
    for url in &urls {
        eventually("the group may go on with every protocol", || async {
            let level = metric(url, "quorate_feature_level").await;
            (level >= f64::from(RAFT_LEVEL)).then_some(())
        })
        .await;
    }
    for (step, to) in (0..).zip(steps) {
        let now = switch(&urls[step % 3], to);
        assert_eq!(now["protocol"], to[0]);
        assert_eq!(
            now["epochs"].as_array().unwrap().last().unwrap()["number"],
            step + 2
        );
        for (written, _) in &writers {
            let before = written.load(Ordering::Relaxed);
            eventually("writes go on", || async {
                (written.load(Ordering::Relaxed) > before + 20).then_some(())
            })
            .await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut counts = Vec::new();
    for (written, task) in writers {
        task.await.unwrap();
        counts.push(written.load(Ordering::Relaxed));
    }
    converged(&urls).await;
    expect_all(&urls, &counts).await;

    drop(up);
    let up = home.start(&[]);
    assert_eq!(up.urls, urls);
    expect_all(&urls, &counts).await;
    let page = output(quorate().args(["cluster", "history", "--endpoints", &urls[0]]));
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.trim_end().ends_with("rabia window=8"), "{page}");
}

/// Every replica has every value that was acknowledged to anybody.
async fn expect_all(urls: &[String], counts: &[u32]) {
    for url in urls {
        let mut client = Client::connect(url).await;
        for (writer, count) in urls.iter().zip(counts) {
            for number in 0..*count {
                let found = client.get(&key(writer, number)).await.unwrap();
                assert!(
                    found.as_deref() == Some(&value(number)),
                    "{number} of {writer} through {url}: {:?}",
                    found.map(|found| found.len())
                );
            }
        }
    }
}

/// Scenario: what makes no sense is refused with the reason, and nothing changes.
#[tokio::test]
async fn a_switch_that_makes_no_sense_is_refused() {
    let home = Home::new();
    let up = home.start(&[]);
    for (to, code, why) in [
        (&["vr"][..], 1, "there is no protocol \"vr\""),
        (&["rabia"], 1, "the configuration is as asked for already"),
        (&["rabia", "--param", "window=0"], 1, "window"),
        (&["rs-paxos", "--param", "k=4"], 1, "k = 4"),
        (&["rs-paxos", "--code", "5,3"], 2, "there are 3"),
        (
            &["rs-paxos", "--code", "3,1", "--param", "k=3"],
            2,
            "contradicts",
        ),
    ] {
        let mut command = quorate();
        let flags = ["cluster", "switch", "--endpoints", &up.urls[0]];
        expect_failure(command.args(flags).args(to), code, why);
    }
    let page = output(quorate().args(["cluster", "status", "--endpoints", &up.urls[1]]));
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("rabia, epoch 1; last change: done"), "{page}");
}

/// Scenario: who asks for a parameter of another protocol, or for a code of other members, does what the refusal says.
#[tokio::test]
async fn the_advice_of_a_refusal_is_taken() {
    let home = Home::new();
    let up = home.start(&[]);
    let at = ["--endpoints", &up.urls[0]];
    let set = ["cluster", "set", "--proposers", "1"];
    let why = "quorate cluster switch chora for one that runs";
    expect_failure(quorate().args(set).args(at), 2, why);
    let wrong = ["cluster", "switch", "rs-paxos", "--code", "5,3"];
    expect_failure(quorate().args(wrong).args(at), 2, "as in --code 3,1");

    switch(&up.urls[0], &["rs-paxos", "--code", "3,1"]);
    switch(&up.urls[0], &["chora"]);
    let done = output(quorate().args(set).args(at));
    assert!(done.status.success(), "{done:?}");
    assert!(up.stop().success());

    let dir = home.dir.display().to_string();
    let again = ["up", "--data-dir", &dir, "--protocol", "chora"];
    expect_failure(quorate().args(again), 2, "leave the flag out");
    home.start(&[]);
}

/// Scenario: whole values are cut into fragments and made whole again, in the background; replicas
/// then hold what their code says, and serve all of it.
#[tokio::test]
async fn values_are_coded_anew_for_the_code_of_the_cluster() {
    let home = tempfile::tempdir().unwrap();
    let (dir, port) = (home.path().join("cluster"), free_ports(10).to_string());
    let flags = [
        "--port",
        &port,
        "--replicas",
        "5",
        "--protocol",
        "multi-paxos",
    ];
    let up = Up::start(&dir, &flags);
    let mut client = Client::connect(&up.urls[0]).await;
    let long = |number: u32| number.to_string().repeat(LONG);
    for number in 1..=9 {
        client
            .put(&number.to_string(), &long(number))
            .await
            .unwrap();
    }
    let whole = 9.0 * LONG as f64;
    for (to, held) in [
        (&["rs-paxos", "--code", "5,3"][..], whole / 3.0),
        (&["rs-paxos", "--code", "5,2"], whole / 2.0),
        (&["rabia"], whole),
        (&["rs-paxos", "--code", "5,3"], whole / 3.0),
        (&["multi-paxos"], whole),
    ] {
        switch(&up.urls[1], to);
        for url in &up.urls {
            eventually(&format!("{to:?}: {url} holds {held} bytes"), || async {
                let live = metric(url, "quorate_bulk_live_bytes").await;
                let settled = metric(url, "quorate_epoch_settled").await;
                (settled == 1.0 && live >= held && live < held + 100.0).then_some(())
            })
            .await;
            let mut client = Client::connect(url).await;
            for number in 1..=9 {
                let found = client.get(&number.to_string()).await.unwrap();
                assert!(
                    found == Some(long(number)),
                    "{number} through {url}, {to:?}"
                );
            }
        }
    }
}

/// Scenario: whole values are cut into fragments by replicas that may do so with 64 KiB in a second. It
/// takes as long as that must, and they tell how far they are.
#[tokio::test]
async fn values_are_coded_anew_at_a_rate_and_the_progress_is_shown() {
    const RATE: f64 = 65536.0;
    let home = tempfile::tempdir().unwrap();
    let (dir, port) = (home.path().join("cluster"), free_ports(10).to_string());
    let flags = [
        "--port",
        &port,
        "--replicas",
        "5",
        "--protocol",
        "multi-paxos",
    ];
    let up = Up::start(&dir, &[&flags[..], &["--recode-rate", "64KiB"]].concat());
    let mut client = Client::connect(&up.urls[0]).await;
    for number in 0..20 {
        let long = "v".repeat(LONG);
        client.put(&number.to_string(), &long).await.unwrap();
    }
    let all = 20.0 * LONG as f64;
    let began = Instant::now();
    switch(&up.urls[0], &["rs-paxos", "--code", "5,3"]);
    let part = eventually("some values are moved, and others are not", || async {
        let done = metric(&up.urls[1], "quorate_recoded_bytes").await;
        (done > 0.0 && done < all).then_some(done)
    });
    assert_eq!(part.await % LONG as f64, 0.0);
    let status = output(quorate().args(["cluster", "status", "--endpoints", &up.urls[1]]));
    let status = String::from_utf8(status.stdout).unwrap();
    let says = "of 391 KiB, at most 64.0 KiB/s";
    assert!(status.contains(says), "{status}");
    for url in &up.urls {
        eventually(&format!("{url}: all is moved"), || async {
            let settled = metric(url, "quorate_epoch_settled").await;
            let done = metric(url, "quorate_recoded_bytes").await;
            (settled == 1.0 && done == all).then_some(())
        })
        .await;
    }
    // The last one is only begun in time, and 50 ms are given in advance.
    let least_s = (all - LONG as f64) / RATE - 0.05;
    let took_s = began.elapsed().as_secs_f64();
    assert!(took_s >= least_s, "{took_s} s, not {least_s}");
}
