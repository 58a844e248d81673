//! Plans that are begun, read again, and contradicted.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    up: UpOptions,
}

fn options(dir: &Path, flags: &[&str]) -> UpOptions {
    let dir = dir.display().to_string();
    let all = ["up", "--data-dir", &dir]
        .into_iter()
        .chain(flags.iter().copied());
    Cli::parse_from(all).up
}

fn usage(result: Result<Plan, Failure>) -> String {
    match result.unwrap_err() {
        Failure::Usage(message) | Failure::Failed(message) => message,
    }
}

#[test]
fn a_cluster_is_begun_once_and_remembered() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let plan = Plan::of(&options(&dir, &["--replicas", "5", "--port", "4000"])).unwrap();
    assert_eq!(Plan::of(&options(&dir, &[])).unwrap(), plan);
    assert_eq!(plan.client_url(Who::Replica(3)), "http://127.0.0.1:4004");
    let behind = 4000 + 2 * plan.replicas;
    let first = format!("http://127.0.0.1:{behind}");
    assert_eq!(plan.client_url(Who::Gateway(1)), first);
    assert_eq!(plan.peer_url(3), "http://127.0.0.1:4005");
    assert_eq!(plan.epoch().unwrap().n(), 5);
    let moved = Plan::of(&options(&dir, &["--port", "5000"])).unwrap();
    assert_eq!((moved.port, moved.cluster), (5000, plan.cluster));
    assert_eq!(Plan::of(&options(&dir, &[])).unwrap(), moved);
}

#[test]
fn certificates_of_its_own_are_part_of_the_cluster() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let all = ["--auto-tls", "--peer-auto-tls"];
    let plan = Plan::of(&options(&dir, &all)).unwrap();
    assert_eq!(plan.client_url(Who::Replica(1)), "https://127.0.0.1:2379");
    assert_eq!(plan.peer_url(1), "https://127.0.0.1:2380");
    let again = options(&dir, &[]);
    assert_eq!(Plan::of(&again).unwrap(), plan);
    let told = plan.replica_flags(1, &again);
    assert!(all.iter().all(|flag| told.iter().any(|is| is == flag)));
}

#[test]
fn flags_that_contradict_the_folder_are_named() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    Plan::of(&options(&dir, &[])).unwrap();
    for (flags, message) in [
        (
            &["--replicas", "5"][..],
            "--replicas 5 contradicts the cluster in",
        ),
        (&["--protocol", "chora"], "--protocol chora contradicts"),
        (&["--durability", "memory"], "which was begun with disk"),
        (&["--face", "plain"], "--face plain contradicts"),
        (&["--param", "window=9"], "--param window=9 contradicts"),
        (&["--only", "1", "--port", "9"], "--port 9 contradicts"),
        (&["--auto-tls"], "--auto-tls true contradicts"),
        (&["--peer-auto-tls"], "begun with plain text between"),
    ] {
        let error = usage(Plan::of(&options(&dir, flags)));
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    let plan = Plan::of(&options(&dir, &[])).unwrap();
    assert!(plan.which(Some(4)).unwrap_err().contains("replicas 1 to 3"));
}

#[test]
fn proposers_and_rounds_are_part_of_the_cluster() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    let flags = [
        "--protocol=chora",
        "--replicas=5",
        "--proposers=2",
        "--round=50us",
    ];
    let plan = Plan::of(&options(&dir, &flags)).unwrap();
    let params = plan.epoch().unwrap().params;
    assert_eq!(list(&params), "proposers=2 round_us=50");
    assert_eq!(Plan::of(&options(&dir, &flags)).unwrap(), plan);
    let error = usage(Plan::of(&options(&dir, &["--proposers=3"])));
    let contradicts = "--param proposers=3 contradicts";
    assert!(
        error.contains(contradicts) && error.contains("round_us=50"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_begun_is_named_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cluster");
    for (flags, message) in [
        (&["--replicas", "0"][..], "at least one"),
        (&["--port", "65535"], "leaves no room"),
        (&["--protocol", "paxos"], "there is no protocol \"paxos\""),
        (&["--only", "1"], "holds none"),
        (&["--param", "nonsense=1"], "nonsense"),
        (&["--proposers", "2"], "--proposers is an option of chora"),
        (
            &["--protocol", "chora", "--proposers", "4"],
            "proposers = 4: must be a number from 1 to 3, or auto",
        ),
    ] {
        let error = usage(Plan::of(&options(&dir, flags)));
        assert!(error.contains(message), "{error:?} lacks {message:?}");
        assert!(!dir.exists());
    }
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("letter.txt"), "Dear").unwrap();
    let error = usage(Plan::of(&options(&dir, &[])));
    assert!(error.contains("holds files but no cluster.toml"), "{error}");
}
