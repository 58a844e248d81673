//! An older copy of a data folder in its place.

use crate::support::{
    Client, Home, Up, channel, converged, eventually, get, metric, signal, write_on,
};
use quorate_etcd_api::etcdserverpb::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmType, RangeRequest, StatusRequest,
};
use quorate_face_etcd::client::{KvClient, MaintenanceClient};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies a folder that is in use, file by file.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let copied = match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => fs::copy(entry.path(), &target).map(|_| ()),
        };
        match copied {
            // A segment was given up meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

/// Scenario: the folder of a replica that runs under load is copied; after many more writes the replica is killed and
/// the copy put in the place of its folder. It notices, comes back by itself without what it had promised, nothing
/// that was acknowledged is lost, and its vote counts again.
async fn an_old_copy_is_noticed(protocol: &str) {
    let home = Home::new();
    let mut up = home.start(&["--protocol", protocol]);
    for url in &up.urls {
        eventually("replicas claim how far their promises go", || async {
            (metric(url, "quorate_feature_level").await >= 3.0).then_some(())
        })
        .await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (written, task) = write_on(up.urls[1..].to_vec(), Arc::clone(&stop));
    let more = async |count: u32| {
        let before = written.load(Ordering::Relaxed);
        eventually("writes go on", || async {
            (written.load(Ordering::Relaxed) > before + count).then_some(())
        })
        .await;
    };
    more(100).await;
    let (own, copy) = (home.dir.join("1"), home.dir.join("copy"));
    copy_folder(&own, &copy).unwrap();
    more(200).await;
    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 1 (process");
    fs::rename(&own, home.dir.join("newer")).unwrap();
    fs::rename(&copy, &own).unwrap();
    let _first = Up::start(&home.dir, &["--only", "1"]);
    eventually("the old copy is noticed", || async {
        let log = fs::read_to_string(own.join("log.txt")).unwrap_or_default();
        log.contains("this data folder is an older copy")
            .then_some(())
    })
    .await;
    more(100).await;
    stop.store(true, Ordering::Relaxed);
    task.await.unwrap();
    converged(&up.urls).await;

    signal(up.pids[&2], Signal::KILL);
    up.wait_for("replica 2 (process");
    eventually("its vote counts", || async {
        let mut client = Client::try_connect(&up.urls[0]).await?;
        client.put("vote", "counts").await.ok()
    })
    .await;
    let mut client = Client::connect(&up.urls[0]).await;
    for key in 0..written.load(Ordering::Relaxed) {
        let found = client.get(&format!("n{key}")).await.unwrap();
        assert_eq!(found.as_deref(), Some("v"), "n{key}");
    }
}

#[tokio::test]
async fn an_old_copy_is_noticed_under_rabia() {
    an_old_copy_is_noticed("rabia").await;
}

#[tokio::test]
async fn an_old_copy_is_noticed_under_multi_paxos() {
    an_old_copy_is_noticed("multi-paxos").await;
}

#[tokio::test]
#[ignore = "minutes on a loaded machine"]
async fn an_old_copy_is_noticed_under_the_other_protocols() {
    for protocol in ["raft", "rs-paxos", "racos", "chora", "nezha"] {
        an_old_copy_is_noticed(protocol).await;
    }
}

/// Asks a replica for the alarms about states that differ, or has one ended.
async fn corrupt(url: &str, action: AlarmAction, member_id: u64) -> Vec<u64> {
    let mut maintenance = MaintenanceClient::new(channel(url).await);
    let request = AlarmRequest {
        action: action as i32,
        member_id,
        alarm: AlarmType::Corrupt as i32,
    };
    let answer = maintenance.alarm(request).await.expect("it answers");
    let alarms: Vec<AlarmMember> = answer.into_inner().alarms;
    alarms.iter().map(|alarm| alarm.member_id).collect()
}

async fn all_list(urls: &[&String], members: &[u64]) {
    for url in urls {
        eventually("the alarms are listed", || async {
            (corrupt(url, AlarmAction::Get, 0).await == members).then_some(())
        })
        .await;
    }
}

/// Three replicas, of which the first and the third hold another value than the second, and none runs.
///
/// The third is down when a value is acknowledged. A copy of the first one's folder is put back that was taken just
/// before: the second had no time to note how far its promises go. So the first and the third decide the slots anew.
async fn differ(home: &Home) -> Vec<String> {
    let mut up = home.start(&[]);
    for url in &up.urls {
        eventually("the group knows of alarms", || async {
            (metric(url, "quorate_feature_level").await >= 3.0).then_some(())
        })
        .await;
    }
    let mut client = Client::connect(&up.urls[1]).await;
    client.put("k", "before").await.unwrap();
    converged(&up.urls).await;
    let own = home.dir.join("1");
    let (copy, newer) = (home.dir.join("copy"), home.dir.join("newer"));
    signal(up.pids[&3], Signal::KILL);
    up.wait_for("replica 3 (process");
    copy_folder(&own, &copy).unwrap();
    // What is decided is on its disk once the next write is.
    for key in ["k", "a", "b", "c"] {
        client.put(key, "acknowledged").await.unwrap();
    }
    signal(up.pids[&2], Signal::KILL);
    signal(up.pids[&1], Signal::KILL);
    up.wait_for("replica 2 (process");
    let urls = up.urls.clone();
    drop(up);

    fs::rename(&own, newer).unwrap();
    fs::rename(&copy, &own).unwrap();
    let _first = Up::start(&home.dir, &["--only", "1"]);
    let _third = Up::start(&home.dir, &["--only", "3"]);
    let mut client = Client::connect(&urls[0]).await;
    client.put("k", "other").await.unwrap();
    let both = [urls[0].clone(), urls[2].clone()];
    converged(&both).await;
    urls
}

/// The replica takes writes, and holds what the majority does.
async fn goes_on(url: &str) {
    let mut client = Client::connect(url).await;
    client.put("later", "x").await.expect("a majority goes on");
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("other"));
}

/// Scenario: three replicas start, and one holds another value. Two are equal and go on; the odd one stops, and all
/// list an alarm about it until somebody ends that.
#[tokio::test]
async fn who_differs_from_a_majority_stops() {
    let home = Home::new();
    let urls = differ(&home).await;
    let _first = Up::start(&home.dir, &["--only", "1"]);
    let _third = Up::start(&home.dir, &["--only", "3"]);
    let mut second = Up::start(&home.dir, &["--only", "2"]);
    second.wait_for("replica 2 (process");
    let log = fs::read_to_string(home.dir.join("2/log.txt")).unwrap();
    let odd = "a majority of the members agrees without this replica, which stops";
    assert!(log.contains(odd), "{log}");
    let rest = [&urls[0], &urls[2]];
    all_list(&rest, &[2]).await;
    for url in rest {
        goes_on(url).await;
        assert_eq!(get(url, "/health").await.0, 200);
    }
    assert_eq!(corrupt(&urls[0], AlarmAction::Deactivate, 2).await, [2]);
    all_list(&rest, &[]).await;
}

/// Scenario: only two of three replicas run, and they differ. Both stay, refuse writes and linearizable reads, and say
/// where they differ. The third decides: it is equal to one of them, and these two go on. The odd one begins anew
/// with an empty folder, and the alarm about it ends.
#[tokio::test]
async fn two_that_differ_wait_for_a_third() {
    let home = Home::new();
    let urls = differ(&home).await;
    let _third = Up::start(&home.dir, &["--only", "3"]);
    let mut second = Up::start(&home.dir, &["--only", "2"]);
    let two = [&urls[1], &urls[2]];
    all_list(&two, &[2, 3]).await;
    for url in two {
        let mut client = Client::connect(url).await;
        let refused = client
            .put("k", "more")
            .await
            .expect_err("nobody knows what is right");
        assert_eq!(refused.message(), "etcdserver: corrupt cluster");
        client
            .get("k")
            .await
            .expect_err("nobody knows what is right");
        let local = RangeRequest {
            key: "k".into(),
            serializable: true,
            ..RangeRequest::default()
        };
        let mut kv = KvClient::new(channel(url).await);
        kv.range(local).await.expect("its own state can be read");
        let health = r#"{"health":"false","reason":"ALARM CORRUPT"}"#.to_owned();
        assert_eq!(get(url, "/health").await, (503, health));
        let errors = eventually("the difference is told", || async {
            let mut maintenance = MaintenanceClient::new(channel(url).await);
            let status = maintenance.status(StatusRequest {}).await.ok()?;
            let text = status.into_inner().errors.join("\n");
            text.contains("hold different states before slot")
                .then_some(text)
        })
        .await;
        assert!(errors.contains("memberID:2 alarm:CORRUPT"), "{errors}");
        let status = get(url, "/status").await.1;
        assert!(
            status.contains("hold different states before slot"),
            "{status}"
        );
        assert!(status.contains("a third one decides"), "{status}");
    }

    let _first = Up::start(&home.dir, &["--only", "1"]);
    second.wait_for("replica 2 (process");
    drop(second);
    let rest = [&urls[0], &urls[2]];
    all_list(&rest, &[2]).await;
    for url in rest {
        goes_on(url).await;
    }
    fs::rename(home.dir.join("2"), home.dir.join("odd")).unwrap();
    let _second = Up::start(&home.dir, &["--only", "2"]);
    all_list(&urls.iter().collect::<Vec<_>>(), &[]).await;
    converged(&urls).await;
    assert_eq!(get(&urls[1], "/health").await.0, 200);
}
