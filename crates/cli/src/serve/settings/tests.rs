//! Options that are left out, and each contradiction between those that are not.

use super::*;

fn three() -> ServeOptions {
    ServeOptions {
        id: Some(2),
        initial_cluster: Some("1=http://a:1,2=http://b:2,3=http://c:3".into()),
        ..ServeOptions::default()
    }
}

#[test]
fn defaults_make_a_replica_of_its_own() {
    let settings = Settings::resolve(ServeOptions::default()).unwrap();
    assert_eq!(settings.id, ReplicaId(1));
    assert_eq!(settings.listen.clients, ["127.0.0.1:2379"]);
    assert_eq!(settings.state, ClusterState::Existing);
    assert_eq!(settings.members[0].client_url, "http://127.0.0.1:2379");
    assert!(settings.peer_addresses.is_empty());
}

/// Scenario: a replica listens at every address of its machine and does not say which one is for clients.
#[test]
fn clients_are_told_an_address_they_can_reach() {
    for listened in ["http://0.0.0.0:2379", "http://[::]:2379"] {
        let options = ServeOptions {
            listen_client_urls: Some(listened.into()),
            ..three()
        };
        let settings = Settings::resolve(options).unwrap();
        assert_eq!(settings.members[1].client_url, "http://b:2379");
        let alone = ServeOptions {
            listen_client_urls: Some(listened.into()),
            listen_peer_urls: Some("http://0.0.0.0:2380".into()),
            ..ServeOptions::default()
        };
        let error = Settings::resolve(alone.clone()).unwrap_err();
        assert!(error.contains("--advertise-client-urls"), "{error}");
        let told = ServeOptions {
            advertise_client_urls: Some("http://10.0.0.1:2379".into()),
            ..alone
        };
        let settings = Settings::resolve(told).unwrap();
        assert_eq!(settings.members[0].client_url, "http://10.0.0.1:2379");
    }
}

#[test]
fn the_others_are_peers() {
    let settings = Settings::resolve(three()).unwrap();
    let peers = [
        (ReplicaId(1), "a:1".to_owned()),
        (ReplicaId(3), "c:3".to_owned()),
    ];
    assert_eq!(settings.peer_addresses, peers);
    assert_eq!(settings.members[0].client_url, "");
    assert_eq!(settings.new_cluster().epoch().n(), 3);
}

/// Scenario: the list that `etcdctl member add` prints, with names that have the numbers in them, and with one that
/// this replica was given.
#[test]
fn replicas_are_called_by_number_or_by_name() {
    let resolve = |id: Option<u16>, name: &str, list: &str| {
        Settings::resolve(ServeOptions {
            id,
            name: Some(name.into()),
            initial_cluster: Some(list.into()),
            ..ServeOptions::default()
        })
    };
    let list = "replica-9=http://a:1,replica-10=http://b:2";
    let settings = resolve(None, "replica-10", list).unwrap();
    assert_eq!((settings.id.0, settings.own_address.as_str()), (10, "b:2"));
    assert_eq!(settings.peer_addresses, [(ReplicaId(9), "a:1".to_owned())]);
    let settings = resolve(Some(4), "infra4", "1=http://a:1,infra4=http://b:2").unwrap();
    assert_eq!((settings.id.0, settings.own_address.as_str()), (4, "b:2"));
    let error = resolve(Some(4), "infra4", "infra1=http://a:1,4=http://b:2").unwrap_err();
    assert!(error.contains("are called by their numbers"), "{error}");
}

type Change = fn(&mut ServeOptions);

/// Each change of good options must be refused with its message.
fn expect_refusals(cases: &[(Change, &str)]) {
    for (change, message) in cases {
        let mut options = three();
        change(&mut options);
        let error = Settings::resolve(options).unwrap_err();
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
}

/// Scenario: each option that makes no sense about who is in the cluster and what it takes.
#[test]
fn every_contradiction_is_named() {
    expect_refusals(&[
        (|o| o.id = Some(0), "numbered from 1"),
        (|o| o.id = Some(4), "does not list --id 4"),
        (
            |o| o.initial_cluster = Some("one=http://a:1".into()),
            "1=http://host:port",
        ),
        (
            |o| o.initial_cluster = Some("2=http://a:1,2=http://b:1".into()),
            "replica 2 twice",
        ),
        (
            |o| o.initial_cluster = Some("2=http://a:1,3=http://a:1".into()),
            "two replicas",
        ),
        (
            |o| o.initial_cluster_state = Some("neww".into()),
            "neither new nor existing",
        ),
        (
            |o| o.protocol = Some("paxos".into()),
            "there is no protocol \"paxos\"",
        ),
        (
            |o| o.cluster_id = Some("xyz".into()),
            "not a hexadecimal number",
        ),
        (
            |o| o.max_request_bytes = Some(1 << 30),
            "is not between 1 and",
        ),
        (
            |o| o.max_client_memory = Some(1 << 20),
            "--max-client-memory 1048576 is less than 16777216",
        ),
        (|o| o.param = vec!["x".into()], "name=value"),
    ]);
}

/// Scenario: each other option that makes no sense, alone or with another.
#[test]
fn every_other_contradiction_is_named() {
    expect_refusals(&[
        (
            |o| o.wire_version = Some(0),
            "this program speaks wire versions 1 to",
        ),
        (
            |o| {
                o.wire_version = Some(6);
                o.protocol = Some("raft".into());
            },
            "--protocol raft needs feature level 7, and programs with --wire-version 6 do not know it",
        ),
        (
            |o| o.clock = Some("declared:soon".into()),
            "--clock \"declared:soon\": \"soon\" is no time",
        ),
        (
            |o| o.cores = Some("first".into()),
            "--cores \"first\": not a list of numbers",
        ),
        (
            |o| o.react_after_ms = Some(5),
            "says when to react, and --react does not say how",
        ),
        (
            |o| {
                o.react = Some(ReactMode::ShrinkCode);
                o.react_after_ms = Some(0);
            },
            "--react-after-ms 0 is not between 1 and",
        ),
        (
            |o| o.advertise_client_urls = Some("7=http://a:1".into()),
            "names replica 7",
        ),
        (
            |o| {
                o.cluster_id = Some("1f".into());
                o.initial_cluster_state = Some("new".into());
            },
            "--cluster-id contradicts",
        ),
    ]);
}
