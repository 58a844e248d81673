//! Plain HTTP on the port of the face: probes, the version, metrics.

use crate::backend;
use crate::backend::{get, get_whole};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, TxnRequest};
use quorate_etcd_store::Store;
use quorate_face_etcd::client::KvClient;
use quorate_face_etcd::{Metrics, serve};
use quorate_server::Handle;
use std::net::SocketAddr;
use std::sync::Arc;

/// Serves on a port of its own until the test ends.
async fn start(handle: Handle<Store>) -> SocketAddr {
    let listener = backend::listen();
    let address = listener.local_addr().expect("it is bound");
    let metrics: Metrics = Arc::new(|| "up 1\n".to_owned());
    let (limits, never) = (quorate_face_etcd::Limits::default(), std::future::pending());
    tokio::spawn(serve(listener, handle, limits, Some(metrics), never));
    address
}

fn put(key: &'static str, value: &'static str) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        ..PutRequest::default()
    }
}

#[tokio::test]
async fn plain_routes_share_the_port() {
    let address = start(backend::start()).await;
    let local = "[+]serializable_read ok\n";
    let cluster = "[+]linearizable_read ok\n";
    let uncorrupted = "[+]data_corruption ok\n";
    let votes = "[+]non_learner ok\n";
    for (path, body) in [
        ("/health", r#"{"health":"true","reason":""}"#.to_owned()),
        (
            "/health?serializable=true&exclude=NOSPACE",
            r#"{"health":"true","reason":""}"#.to_owned(),
        ),
        ("/livez", "ok\n".to_owned()),
        ("/livez?verbose", format!("{local}ok\n")),
        ("/readyz", "ok\n".to_owned()),
        (
            "/readyz?verbose",
            format!("{uncorrupted}{local}{cluster}{votes}ok\n"),
        ),
        (
            "/readyz?verbose&exclude=data_corruption&exclude=non_learner&exclude=other",
            format!("{local}{cluster}ok\n"),
        ),
        ("/livez/serializable_read", "ok\n".to_owned()),
        (
            "/readyz/data_corruption?verbose",
            format!("{uncorrupted}ok\n"),
        ),
        ("/readyz/non_learner?verbose", format!("{votes}ok\n")),
        (
            "/version",
            r#"{"etcdserver":"3.7.0","etcdcluster":"3.7.0","storage":"3.7.0"}"#.to_owned(),
        ),
    ] {
        assert_eq!(get(address, path).await, (200, body), "{path}");
    }
    let none = (404, "404 page not found\n".to_owned());
    assert_eq!(get(address, "/livez/non_learner").await, none);
}

/// The page for browsers, and what it is made of, come with a policy that keeps everything else out.
#[tokio::test]
async fn the_console_loads_nothing_from_elsewhere() {
    let address = start(backend::start()).await;
    for (path, beginning) in [
        ("/console", "<!doctype html>"),
        ("/console.js", "// Draws"),
        ("/console.css", ":root"),
    ] {
        let (code, head, body) = get_whole(address, path).await;
        assert_eq!(code, 200, "{path}");
        assert!(body.starts_with(beginning), "{path}: {body}");
        let head = head.to_lowercase();
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{path} lacks {line}: {head}");
        }
    }
}

/// Scenario: a put and a transaction with a put and a deletion were applied, and a check was run.
#[tokio::test]
async fn metrics_have_etcds_names() {
    let address = start(backend::start()).await;
    let mut kv = KvClient::new(backend::connect(address).await);
    kv.put(put("a", "1")).await.expect("put");
    let deletion = DeleteRangeRequest {
        key: "a".into(),
        ..DeleteRangeRequest::default()
    };
    let txn = TxnRequest {
        success: vec![
            Request::RequestDeleteRange(deletion).into(),
            Request::RequestPut(put("b", "1")).into(),
        ],
        ..TxnRequest::default()
    };
    kv.txn(txn).await.expect("txn");
    assert_eq!(get(address, "/readyz").await.0, 200);
    let (code, page) = get(address, "/metrics").await;
    assert_eq!(code, 200);
    let of = |method| {
        format!(r#"grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="{method}""#)
    };
    let started = format!("grpc_server_started_total{{{}}} 1", of("Put"));
    let handled = format!(
        "grpc_server_handled_total{{{},grpc_code=\"OK\"}} 1",
        of("Txn")
    );
    for line in [
        "up 1",
        r#"etcd_server_version{server_version="3.7.0"} 1"#,
        r#"etcd_cluster_version{cluster_version="3.7"} 1"#,
        r#"etcd_server_id{server_id="2"} 1"#,
        &started,
        &handled,
        "etcd_server_is_leader 1",
        "etcd_server_is_learner 0",
        "etcd_mvcc_put_total 2",
        "etcd_mvcc_delete_total 1",
        "etcd_mvcc_txn_total 1",
        "etcd_debugging_mvcc_keys_total 1",
        "etcd_debugging_mvcc_current_revision 3",
        "etcd_server_health_success 0",
        r#"etcd_server_healthcheck{type="readyz",name="non_learner"} 1"#,
        r#"etcd_server_healthchecks_total{type="readyz",name="data_corruption",status="success"} 1"#,
    ] {
        assert!(
            page.lines().any(|one| one == line),
            "{line} is missing from\n{page}"
        );
    }
    for name in [
        "process_resident_memory_bytes ",
        "etcd_mvcc_db_total_size_in_bytes ",
    ] {
        assert!(page.lines().any(|one| one.starts_with(name)), "{page}");
    }
}

#[tokio::test]
async fn plain_routes_of_a_stopped_replica() {
    let (handle, _) = Handle::new(1);
    let address = start(handle).await;
    let reason = "etcdserver: server stopped";
    let health = format!(r#"{{"health":"false","reason":"RANGE ERROR:{reason}"}}"#);
    assert_eq!(get(address, "/health").await, (503, health));
    let list = format!("[-]serializable_read failed: {reason}\n\n");
    assert_eq!(get(address, "/livez").await, (503, list));
}
