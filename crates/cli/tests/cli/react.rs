//! Two failures, one after the other, of a cluster whose code survives one: the reaction policy of
//! RS-Paxos's paper (section 6.4).

use crate::support::{
    Client, Up, eventually, expect_failure, free_ports, metric, metrics, output, quorate, signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// Longer than a value that every protocol orders whole.
const LONG: usize = 20_000;
const VALUES: u32 = 12;

/// Five replicas, any three of which rebuild a value.
struct Five {
    up: Up,
    _home: tempfile::TempDir,
}

impl Five {
    async fn begin(flags: &[&str]) -> Five {
        let home = tempfile::tempdir().unwrap();
        let port = free_ports(10).to_string();
        let code = ["--protocol", "rs-paxos", "--code", "5,3", "--port", &port];
        let flags = [&code, flags].concat();
        let up = Up::start(&home.path().join("cluster"), &flags);
        let five = Five { up, _home: home };
        let mut client = Client::connect(&five.up.urls[0]).await;
        for number in 0..VALUES {
            client
                .put(&number.to_string(), &value(number))
                .await
                .unwrap();
        }
        five
    }

    /// The number of the one whose own count decides slots.
    async fn leader(&self) -> u16 {
        eventually("one decides", || async {
            let before = decided(&self.up.urls).await;
            let mut client = Client::connect(&self.up.urls[0]).await;
            client.put("who", "leads").await.unwrap();
            let after = decided(&self.up.urls).await;
            let rose: Vec<usize> = (0..5).filter(|at| after[*at] > before[*at]).collect();
            (rose.len() == 1).then(|| rose[0] as u16 + 1)
        })
        .await
    }

    /// The arguments that whoever asked for a smaller code says undo it.
    fn advice(&self) -> String {
        let log =
            |id: u16| fs::read_to_string(self.up.dir().join(format!("{id}/log.txt"))).unwrap();
        let told = |log: String| {
            let (_, advice) = log.split_once("undo it with: quorate ")?;
            let (advice, _) = advice.split_once(" gone=")?;
            Some(advice.to_owned())
        };
        (1..=5).map(log).find_map(told).expect("it says so")
    }

    fn kill(&mut self, id: u16) {
        signal(self.up.pids[&id], Signal::KILL);
        self.up.wait_for(&format!("replica {id} (process"));
    }
}

/// Slots that each replica has decided by its own count.
async fn decided(urls: &[String]) -> Vec<f64> {
    let mut all = Vec::new();
    for url in urls {
        let page = metrics(url).await;
        let of_path = |line: &str| {
            let rest = line.strip_prefix("quorate_decided_slots_total{")?;
            rest.split_once("} ")?.1.trim().parse::<f64>().ok()
        };
        all.push(page.lines().filter_map(of_path).sum());
    }
    all
}

fn value(number: u32) -> String {
    number.to_string().repeat(LONG)
}

fn status(url: &str) -> Value {
    let page = output(quorate().args(["cluster", "status", "--json", "--endpoints", url]));
    assert!(page.status.success(), "{page:?}");
    serde_json::from_slice(&page.stdout).unwrap()
}

/// Scenario: one replica dies, and the cluster goes on with whole values; once these are safe, the
/// leader dies, too. All values are there, and new ones are taken.
#[tokio::test]
async fn with_the_policy_a_second_failure_is_survived() {
    let flags = [
        "--server-arg=--react=shrink-code",
        "--server-arg=--react-after-ms=300",
    ];
    let mut five = Five::begin(&flags).await;
    let leader = five.leader().await;
    let first = leader % 5 + 1;
    let rest: Vec<String> = (1..=5)
        .filter(|id| ![first, leader].contains(id))
        .map(|id| five.up.urls[usize::from(id) - 1].clone())
        .collect();
    five.kill(first);
    eventually("the code is smaller, and all values are safe", || async {
        let page = status(&rest[0]);
        let is_done = page["params"]["k"] == "1" && page["is_open"] == true;
        (is_done && page["is_settled"] == true).then_some(())
    })
    .await;
    let mut asked = 0.0;
    for id in (1..=5u16).filter(|id| *id != first) {
        asked += metric(
            &five.up.urls[usize::from(id) - 1],
            "quorate_reactions_total",
        )
        .await;
    }
    assert_eq!(asked, 1.0, "one replica asks for it");
    five.kill(leader);
    eventually("writes go on", || async {
        let mut client = Client::connect(&rest[0]).await;
        client.put("after", &value(7)).await.ok()
    })
    .await;
    for url in &rest {
        let mut client = Client::connect(url).await;
        for number in 0..VALUES {
            let found = client.get(&number.to_string()).await.unwrap();
            assert!(found == Some(value(number)), "{number} through {url}");
        }
        assert!(client.get("after").await.unwrap() == Some(value(7)));
        assert_eq!(status(url)["has_quorum"], true);
        assert_eq!(metric(url, "quorate_members_unreachable").await, 2.0);
    }
    let epochs = status(&rest[0])["epochs"].as_array().unwrap().len();
    assert_eq!(epochs, 2, "five members have no code for a third failure");

    let _back = [first, leader].map(|id| Up::start(five.up.dir(), &["--only", &id.to_string()]));
    let advice = five.advice();
    let advice: Vec<&str> = advice.split_whitespace().collect();
    eventually("the advice of the log undoes it", || async {
        let mut command = quorate();
        command.args(&advice).args(["--endpoints", &rest[0]]);
        output(&mut command).status.success().then_some(())
    })
    .await;
    assert_eq!(status(&rest[0])["params"]["k"], "3");
}

/// Scenario: the same without the policy. The second failure stops the cluster, which says so to
/// clients and operators; it goes on when one of the two is back.
#[tokio::test]
async fn without_the_policy_the_second_failure_stops_the_cluster() {
    let mut five = Five::begin(&[]).await;
    let leader = five.leader().await;
    let first = leader % 5 + 1;
    five.kill(first);
    let rest = five.up.urls[usize::from(first % 5)].clone();
    let mut client = Client::connect(&rest).await;
    eventually("the first is survived", || {
        let mut client = client.clone();
        async move { client.put("one", "gone").await.ok() }
    })
    .await;
    five.kill(leader);
    let error = client.put("two", "gone").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    let why = "NOQUORUM: 3 of 5 members can be reached from here, and rs-paxos takes 4";
    eventually("it says so", || async {
        let alarms = status(&rest)["alarms"].as_array().unwrap().clone();
        let said = alarms.first()?.as_str()?.to_owned();
        said.starts_with(why).then_some(())
    })
    .await;
    assert_eq!(metric(&rest, "quorate_has_quorum").await, 0.0);
    let table = output(quorate().args(["cluster", "status", "--endpoints", &rest]));
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains(why), "{table}");
    let switch = ["cluster", "switch", "rs-paxos", "--code", "5,1"];
    let why = "3 of the present members answer, and it takes 4 to decide a change";
    expect_failure(quorate().args(switch).args(["--endpoints", &rest]), 1, why);

    let _back = Up::start(five.up.dir(), &["--only", &first.to_string()]);
    eventually("it goes on", || {
        let mut client = client.clone();
        async move { client.put("three", "back").await.ok() }
    })
    .await;
}
