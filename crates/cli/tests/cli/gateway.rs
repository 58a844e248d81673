//! Gateways without a replica, in front of clusters of real processes.

use crate::support;
use crate::support::{
    Client, Home, Up, channel, converged, eventually, expect_failure, metric, post, quorate, signal,
};
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest};
use quorate_face_etcd::client::WatchClient;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tokio_stream::StreamExt;

/// `gateway endpoints: URL,URL`, which comes before the replicas'.
fn gateways(up: &Up) -> &[String] {
    assert!(!up.gateways.is_empty(), "no line told of gateways");
    &up.gateways
}

/// Scenario: a cluster with two gateways. What is written through one is read through the other and through
/// replicas; a watch and a lease through a gateway work as at a replica.
#[tokio::test]
async fn a_gateway_serves_clients_as_a_replica_does() {
    let home = Home::new();
    let up = home.start(&["--protocol", "nezha", "--gateways", "2"]);
    let [one, two] = [0, 1].map(|at| gateways(&up)[at].clone());
    let mut client = Client::connect(&one).await;
    client.put("a", "first").await.unwrap();
    assert_eq!(client.get("a").await.unwrap().as_deref(), Some("first"));
    let mut watch = WatchClient::new(channel(&two).await);
    let create = WatchCreateRequest {
        key: b"a".to_vec().into(),
        start_revision: 1,
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut events = watch.watch(requests).await.unwrap().into_inner();
    let mut other = Client::connect(&two).await;
    other.put_leased("a", "second").await.unwrap();
    let mut told = Vec::new();
    while told.len() < 2 {
        let response = events.message().await.unwrap().unwrap();
        let values = response.events.iter().filter_map(|event| event.kv.as_ref());
        told.extend(values.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()));
    }
    assert_eq!(told, ["first", "second"]);
    for url in &up.urls {
        let mut replica = Client::connect(url).await;
        assert_eq!(replica.get("a").await.unwrap().as_deref(), Some("second"));
        assert!(metric(url, "quorate_gateways_connected").await >= 2.0);
    }
    client.delete("a").await.unwrap();
    assert_eq!(other.get("a").await.unwrap(), None);
    let (revision, _) = converged(&up.urls).await;
    assert_eq!(revision, 4, "two puts and a deletion");
    assert!(up.stop().success());
}

/// Scenario: requests in JSON to a gateway, which orders the put itself and passes the others on.
#[tokio::test]
async fn a_gateway_takes_requests_in_json() {
    let home = Home::new();
    let up = home.start(&["--protocol", "nezha", "--gateways", "1"]);
    let gateway = &gateways(&up)[0];
    let (key, range) = (r#"{"key":"YQ==","value":"Yg=="}"#, r#"{"key":"YQ=="}"#);
    let put = post(gateway, "/v3/kv/put", key).await;
    assert!(put.contains(r#""revision":"2""#), "{put}");
    for url in up.urls.iter().chain([gateway]) {
        let found = post(url, "/v3/kv/range", range).await;
        assert!(found.contains(r#""kvs":[{"key":"YQ==""#), "{found}");
    }
    let lease = post(gateway, "/v3/lease/grant", r#"{"TTL":60,"ID":7}"#).await;
    assert!(lease.contains(r#""ID":"7","TTL":"60""#), "{lease}");
    let renewed = post(gateway, "/v3/lease/keepalive", r#"{"ID":7}"#).await;
    assert!(renewed.contains(r#"{"result":{"header":"#), "{renewed}");
    let wrong = post(gateway, "/v3/kv/put", "{}").await;
    assert!(wrong.contains("key is not provided"), "{wrong}");
    assert!(up.stop().success());
}

/// Scenario: a replica dies, and later the one that took over, while a gateway's client writes on: none of
/// what it was answered is lost, and the gateway reads from whoever is left.
#[tokio::test]
async fn a_gateway_outlives_any_replica() {
    let home = Home::new();
    let up = home.start(&["--protocol", "nezha", "--gateways", "1"]);
    let mut client = Client::connect(&gateways(&up)[0]).await;
    client.put("k", "0").await.unwrap();
    signal(up.pids[&1], Signal::KILL);
    for value in 1..20 {
        client.put("k", &value.to_string()).await.unwrap();
        assert_eq!(
            client.get("k").await.unwrap(),
            Some(value.to_string()),
            "read back after {value}"
        );
    }
    assert!(up.stop().success());
}

/// Scenario: a gateway is given members by another name than the cluster has for them, as a host's name for its
/// number. It learns the other addresses, and keeps to one connection to each member.
#[tokio::test]
async fn members_with_two_addresses_are_reached_by_one_of_them() {
    let home = Home::new();
    let up = home.start(&["--protocol", "nezha"]);
    let named = up.urls.iter().map(|url| {
        let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
        format!("http://localhost:{}", port + 1)
    });
    let named: Vec<String> = named.collect();
    let gateway = format!("http://127.0.0.1:{}", support::free_ports(1));
    let mut command: Command = quorate();
    command.args(["gateway", "--peers", &named.join(",")]);
    command.args(["--listen-client-urls", &gateway]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let log = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    let mut client = eventually("the gateway serves", || Client::try_connect(&gateway)).await;
    for value in 0..200 {
        client.put("k", &value.to_string()).await.unwrap();
    }
    signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
    let log = log.join().unwrap();
    let calls = log
        .iter()
        .filter(|line| line.contains("connected to a member"))
        .count();
    // By either name at most, unless both are called in the same moment.
    assert!(
        (3..=12).contains(&calls),
        "{calls} connections to three members"
    );
    assert!(up.stop().success());
}

/// Scenario: under another protocol a gateway passes everything on; when the cluster goes over to nezha, the same
/// gateway orders writes itself, and back again it passes them on.
#[tokio::test]
async fn a_gateway_follows_the_protocol_of_its_cluster() {
    let home = Home::new();
    let up = home.start(&["--protocol", "rabia", "--gateways", "1"]);
    let gateway = gateways(&up)[0].clone();
    let mut client = Client::connect(&gateway).await;
    client.put("k", "passed on").await.unwrap();
    let answered = async || {
        let text = support::metrics(&gateway).await;
        let line = text
            .lines()
            .find(|line| line.starts_with("quorate_branches_total"));
        line.is_some()
    };
    assert!(!answered().await, "it ordered a write under rabia");
    assert_eq!(support::get(&gateway, "/console").await.0, 404);
    let switched = quorate()
        .args(["cluster", "switch", "--endpoints", &up.urls[0], "nezha"])
        .status()
        .unwrap();
    assert!(switched.success());
    eventually("the gateway orders writes itself", || {
        let mut client = client.clone();
        let answered = &answered;
        async move {
            client.put("k", "ordered").await.unwrap();
            answered().await.then_some(())
        }
    })
    .await;
    let (_, _) = converged(&up.urls).await;
    assert!(up.stop().success());
}

/// Scenario: what is wrong on a gateway's command line is said in one line, and a gateway in front of nothing
/// waits for its cluster without serving.
#[test]
fn what_is_wrong_is_said() {
    let mut none = quorate();
    none.args(["gateway", "--peers", "127.0.0.1:2380"]);
    expect_failure(
        &mut none,
        2,
        "--peers \"127.0.0.1:2380\" is not of the form",
    );
    let mut many = quorate();
    many.args(["up", "--gateways", "60000", "--port", "6000"]);
    expect_failure(&mut many, 2, "--gateways 60000 leaves no room");
    let port = support::free_ports(2);
    let mut alone: Command = quorate();
    alone.args(["gateway", "--peers", &format!("http://127.0.0.1:{port}")]);
    let url = format!("http://127.0.0.1:{}", port + 1);
    alone.args(["--listen-client-urls", &url]);
    let mut child = alone.stderr(Stdio::piped()).spawn().unwrap();
    // What it logs later must find a reader as well.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("no member answers at the address, retrying"));
    assert!(waits, "it ended by itself");
    signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
}
