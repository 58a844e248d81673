//! `quorate log export`: what a replica has executed, for others to judge.

use crate::support::{Client, Home, converged, expect_failure, output, quorate};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, TxnRequest};
use quorate_face_etcd::client::KvClient;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tonic::transport::Endpoint;

fn export(dir: &Path, flags: &[&str]) -> Vec<Value> {
    let mut command = quorate();
    command.args(["log", "export", "--data-dir"]);
    let output = output(command.arg(dir).args(flags));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn commands(lines: &[Value]) -> Vec<&Value> {
    let lists = lines.iter().filter_map(|line| line["commands"].as_array());
    lists.flatten().collect()
}

/// The operations of the store, with the revision of each.
fn operations(lines: &[Value]) -> Vec<(String, i64)> {
    let writes = commands(lines)
        .into_iter()
        .filter(|command| command["class"] == "write");
    writes
        .map(|command| {
            let operation = &command["operation"];
            let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
            let revision = command["revision"].as_i64().unwrap();
            (format!("{} {}", text("op"), text("key")), revision)
        })
        .collect()
}

/// What the cluster orders for itself is shown as what it is, and as done.
fn expect_orders(commands: &[&Value]) {
    let orders = commands.iter().filter(|one| one["class"] == "order");
    let orders: Vec<&&Value> = orders.collect();
    for op in ["feature-level", "publish", "name-leader"] {
        let order = orders.iter().find(|one| one["operation"]["op"] == op);
        let order = order.unwrap_or_else(|| panic!("no {op} in {orders:?}"));
        assert_eq!(order["outcome"], "executed", "{order}");
        assert!(order["effect"].is_string(), "{order}");
    }
    let unclear = orders
        .iter()
        .find(|one| one["operation"]["op"] == "undecodable");
    assert_eq!(unclear, None);
}

/// Scenario: puts, a transaction and a deletion; the replicas stop; all tell the same order, with
/// everything that changed.
#[tokio::test]
async fn all_replicas_export_the_same_order_with_what_it_came_to() {
    let home = Home::new();
    let up = home.start(&[]);
    let mut client = Client::connect(&up.urls[0]).await;
    client.put("a", "1").await.unwrap();
    let channel = Endpoint::from_shared(up.urls[1].clone()).unwrap();
    let mut kv = KvClient::new(channel.connect().await.unwrap());
    let put = PutRequest {
        key: "b".into(),
        value: b"\xff"[..].into(),
        ..PutRequest::default()
    };
    let all = DeleteRangeRequest {
        key: "a".into(),
        range_end: "b".into(),
        ..DeleteRangeRequest::default()
    };
    let txn = TxnRequest {
        success: vec![
            Request::RequestPut(put).into(),
            Request::RequestDeleteRange(all).into(),
        ],
        ..TxnRequest::default()
    };
    kv.txn(txn).await.unwrap();
    converged(&up.urls).await;
    let mut in_use = quorate();
    in_use.args(["log", "export", "--data-dir"]);
    expect_failure(
        in_use.arg(home.dir.join("1")),
        1,
        "is in use by the running replica",
    );
    assert!(up.stop().success());

    let lines = export(&home.dir.join("1"), &[]);
    assert_eq!(lines[0]["export"]["replica"], 1);
    assert_eq!(lines[0]["export"]["first_slot"], 0);
    assert!(lines.last().unwrap()["end"].as_u64().unwrap() > 0);
    assert_eq!(
        operations(&lines),
        [("put a".to_owned(), 2), ("txn ".to_owned(), 3)]
    );
    let writes = commands(&lines);
    expect_orders(&writes);
    let txn = writes.iter().find(|one| one["operation"]["op"] == "txn");
    let changes = &txn.unwrap()["changes"];
    assert_eq!(changes[0]["key"], "b");
    assert_eq!(changes[0]["value"], "/w==");
    assert_eq!(changes[0]["create_revision"], 3);
    assert_eq!(
        (&changes[1]["op"], &changes[1]["key"]),
        (&"delete".into(), &"a".into())
    );

    // What a replica forgot to note before it ended, the others have.
    let orders: Vec<Vec<Value>> = (1..=3)
        .map(|id| export(&home.dir.join(id.to_string()), &["--values", "digest"]))
        .collect();
    let slots = |lines: &[Value]| -> Vec<Value> {
        let slots = lines.iter().filter(|line| line.get("slot").is_some());
        slots.cloned().collect()
    };
    let (one, two) = (slots(&orders[0]), slots(&orders[1]));
    let common = one.len().min(two.len());
    assert!(common >= 2, "{one:?}");
    assert_eq!(one[..common], two[..common]);
}

/// Scenario: only some slots are wanted, and no values.
#[tokio::test]
async fn a_range_of_slots_is_exported_without_values() {
    let home = Home::new();
    let up = home.start(&["--replicas", "1"]);
    let mut client = Client::connect(&up.urls[0]).await;
    for i in 0..20 {
        client.put(&format!("k{i}"), "four").await.unwrap();
    }
    assert!(up.stop().success());
    let dir = home.dir.join("1");
    let all = export(&dir, &[]);
    let lines = export(&dir, &["--from", "5", "--to", "9", "--values", "none"]);
    let slots: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["slot"].as_u64())
        .collect();
    assert_eq!(slots, [5, 6, 7, 8]);
    let operation = &commands(&lines)[0]["operation"];
    assert_eq!(operation["value_bytes"], 4);
    assert!(operation.get("value").is_none());
    assert_eq!(lines.last(), all.last());
}

/// Scenario: the log was released up to a snapshot; the export begins there and says so.
#[tokio::test]
async fn an_export_begins_at_the_older_snapshot_once_the_log_before_it_is_gone() {
    let home = Home::new();
    let up = home.start(&[
        "--replicas",
        "1",
        "--snapshot-count",
        "8",
        "--snapshot-bytes",
        "0",
    ]);
    let mut client = Client::connect(&up.urls[0]).await;
    let value = "v".repeat(1 << 20);
    let first = home.dir.join("1/log/0000000001.seg");
    for i in 0.. {
        assert!(i < 1_000, "{} is never released", first.display());
        client.put(&format!("k{}", i % 3), &value).await.unwrap();
        if !first.exists() {
            break;
        }
    }
    assert!(up.stop().success());
    let lines = export(&home.dir.join("1"), &["--values", "none"]);
    let first = lines[0]["export"]["first_slot"].as_u64().unwrap();
    assert!(first > 0 && first.is_multiple_of(8), "{first}");
    assert_eq!(lines[1]["snapshot"], first);
    assert_eq!(lines[2]["slot"], first);
    assert!(lines[0]["export"]["revision"].as_i64().unwrap() > 1);
    let boundaries = lines.iter().filter(|line| line.get("snapshot").is_some());
    assert!(boundaries.count() >= 1);
}

#[test]
fn what_cannot_be_exported_is_named() {
    let home = tempfile::tempdir().unwrap();
    let export = |flags: &[&str]| {
        let mut command = quorate();
        command.args(["log", "export", "--data-dir"]);
        command.arg(home.path().join("1")).args(flags);
        command
    };
    expect_failure(&mut export(&[]), 1, "cannot read");
    expect_failure(
        &mut export(&["--from", "3", "--to", "2"]),
        2,
        "--to lies before",
    );
    fs::create_dir(home.path().join("1")).unwrap();
    fs::write(home.path().join("1/meta"), "magic = \"quorate-meta\"\n").unwrap();
    expect_failure(&mut export(&[]), 1, "meta is damaged");
}
