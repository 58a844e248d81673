//! Real servers behind the Redis face: `REDIS_SERVER` names one, or `PATH` has one; without, nothing is tested.

mod commands;
mod faults;
mod files;
mod hostile;
mod moving;
mod own;
mod single;
mod sources;
mod times;

use crate::support::real_server::server;
use crate::support::refusals::expect_documented_refusals;
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up, expect_failure, output, quorate, signal};
use quorate_resp::Reply;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time without an answer when an executor freezes: clients give up after as long.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The longest time without an answer, on machines that are busy with other tests.
const SILENCE_MAX_BUSY: Duration = Duration::from_secs(10);

/// A cluster over real servers, if there is one to test with.
fn start(home: &Home, flags: &[&str]) -> Option<Up> {
    let server = server()?;
    let protocol = std::env::var("REDIS_PROTOCOL").unwrap_or_else(|_| "rabia".to_owned());
    let all = ["--face", "redis", &server, "--protocol", &protocol];
    Some(home.start(&[&all, flags].concat()))
}

/// A count that goes on whatever becomes of connections: no acknowledged increment is lost or done twice.
struct Counter {
    urls: Vec<String>,
    next: usize,
    client: Option<Client>,
    /// The last number that was acknowledged.
    acknowledged: i64,
    /// Increments since then of which nobody knows what became.
    unknown: i64,
    /// The longest time between two acknowledged increments.
    silence: Duration,
    last: Instant,
}

impl Counter {
    fn new(urls: &[String]) -> Counter {
        Counter {
            urls: urls.to_vec(),
            next: 0,
            client: None,
            acknowledged: 0,
            unknown: 0,
            silence: Duration::ZERO,
            last: Instant::now(),
        }
    }

    /// Increments until so many more are acknowledged.
    fn count(&mut self, more: i64) {
        let (mut done, began) = (0, Instant::now());
        self.last = began;
        while done < more {
            assert!(began.elapsed() < PATIENCE, "{done} of {more} in time");
            let url = &self.urls[self.next % self.urls.len()];
            let client = match self.client.take() {
                Some(client) => Some(client),
                None => Client::try_connect(url).ok(),
            };
            let reply = client.and_then(|mut client| {
                let reply = client.try_ask("incr a")?;
                self.client = Some(client);
                Some(reply)
            });
            match reply {
                Some(Reply::Integer(now)) => {
                    let least = self.acknowledged + 1;
                    let most = least + self.unknown;
                    assert!(
                        (least..=most).contains(&now),
                        "{now} is not of {least}..={most}"
                    );
                    (self.acknowledged, self.unknown) = (now, 0);
                    self.silence = self.silence.max(self.last.elapsed());
                    self.last = Instant::now();
                    done += 1;
                }
                Some(other) => panic!("INCR is answered with {other:?}"),
                None => {
                    self.unknown += 1;
                    self.next += 1;
                    // Somebody else may not be there either.
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }
}

/// What `/redis` of the replica at an address for operators says, by name.
fn page(admin: &str) -> BTreeMap<String, String> {
    let found = output(Command::new("curl").args(["-s", &format!("{admin}/redis")]));
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    let pairs = inner.split(",\"").filter_map(|pair| pair.split_once("\":"));
    let clean = |text: &str| text.trim_matches('"').to_owned();
    pairs
        .map(|(name, value)| (clean(name), clean(value)))
        .collect()
}

/// The number of the replica that executes.
fn executor(up: &Up) -> u16 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for (admin, id) in up.admin.iter().zip(1..) {
            if page(admin).get("role").map(String::as_str) == Some("executing") {
                return id;
            }
        }
        assert!(Instant::now() < deadline, "nobody executes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The servers that a replica runs.
fn servers_of(replica: u32) -> Vec<u32> {
    let path = format!("/proc/{replica}/task");
    let threads = std::fs::read_dir(path).into_iter().flatten().flatten();
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let words = children.iter().flat_map(|list| list.split_whitespace());
    words.filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process runs; one that ended and that nobody has asked for does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !(stat.is_empty() || stat.contains(") Z "))
}

/// A digest of all keys of the server that executes, by a script: the order of sets and hashes is each server's own.
fn digest(url: &str) -> String {
    let script = "local function held(k) local t,m=redis.call('type',k).ok,{} if t=='set' then \
                  m=redis.call('smembers',k) elseif t=='hash' then for _,f in ipairs(redis.call('hkeys',k)) do \
                  m[#m+1]=#f..':'..f..redis.call('hget',k,f) end else return redis.call('dump',k) end \
                  table.sort(m) return t..table.concat(m,',') end local k=redis.call('keys','*') table.sort(k) \
                  local s='' for _,x in ipairs(k) do s=redis.sha1hex(s..x..held(x)) end return s";
    let mut request = Vec::new();
    quorate_resp::encode_request(&["EVAL", script, "0"], &mut request);
    let mut client = Client::connect(url);
    client.send(&request);
    client
        .next()
        .and_then(|reply| reply.text())
        .expect("a digest")
}

/// Makes every replica the executor in turn: all their servers have the same data.
fn expect_equal_servers(up: &Up) {
    expect_equal_by(up, digest);
}

/// Has a replica execute, by whichever one is asked.
fn expect_moved(id: u16, endpoint: &str) {
    let id = id.to_string();
    let moved = output(quorate().args(["redis", "move", &id, "--endpoints", endpoint]));
    let errors = String::from_utf8_lossy(&moved.stderr);
    assert!(moved.status.success(), "{errors}");
}

/// Makes every replica the executor in turn, and compares digests of what their servers have.
fn expect_equal_by(up: &Up, digest: fn(&str) -> String) {
    let digests = (1..=3).map(|id| {
        expect_moved(id, &up.admin[0]);
        digest(&up.urls[0])
    });
    let digests: Vec<String> = digests.collect();
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{digests:?}"
    );
}

/// Scenario: two commands, and every replica is killed in turn while a client counts.
#[test]
fn counting_goes_on_while_each_replica_is_killed_in_turn() {
    let home = Home::new();
    let Some(mut up) = start(&home, &["--restart"]) else {
        return;
    };
    let mut client = Client::connect(&up.urls[0]);
    assert_eq!(client.say("set b 1"), "OK");
    let mut counter = Counter::new(&up.urls);
    counter.count(50);
    for victim in 1..=3 {
        let children = servers_of(up.pids[&victim]);
        assert!(!children.is_empty());
        signal(up.pids[&victim], Signal::KILL);
        counter.count(100);
        up.wait_for(&format!("replica {victim} serves again"));
        counter.count(50);
        for child in children {
            assert!(!is_alive(child), "a server outlived its replica");
        }
    }
    assert!(counter.silence < SILENCE_MAX_BUSY, "{:?}", counter.silence);
    println!("longest silence: {:?}", counter.silence);
    expect_equal_servers(&up);
    assert_eq!(Client::connect(&up.urls[2]).say("get b"), "1");
    assert!(up.stop().success());
}

/// Scenario: the executor is killed again and again; then every server, the executor's first.
#[test]
fn counting_goes_on_while_executors_and_servers_are_killed() {
    let home = Home::new();
    let Some(mut up) = start(&home, &["--restart"]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(50);
    for _ in 0..3 {
        let victim = executor(&up);
        signal(up.pids[&victim], Signal::KILL);
        counter.count(50);
        up.wait_for(&format!("replica {victim} serves again"));
    }
    for _ in 0..3 {
        let victim = executor(&up);
        for child in servers_of(up.pids[&victim]) {
            signal(child, Signal::KILL);
        }
        counter.count(50);
    }
    for victim in 1..=3 {
        for child in servers_of(up.pids[&victim]) {
            signal(child, Signal::KILL);
        }
        counter.count(50);
    }
    println!("longest silence: {:?}", counter.silence);
    expect_equal_servers(&up);
    assert_eq!(digest(&up.urls[0]), digest(&up.urls[1]));
    let mut client = Client::connect(&up.urls[1]);
    let counted: i64 = client.say("get a").parse().unwrap();
    assert!((counter.acknowledged..=counter.acknowledged + counter.unknown).contains(&counted));
    assert!(up.stop().success());
}

/// Scenario: the executor's process stops without ending, and goes on later with a server that nobody follows.
#[test]
fn an_executor_that_freezes_is_replaced_and_comes_back() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(50);
    let frozen = executor(&up);
    let others: Vec<String> = (up.urls.iter().zip(1..))
        .filter(|(_, id)| *id != frozen)
        .map(|(url, _)| url.clone())
        .collect();
    let mut counter = Counter {
        urls: others,
        client: None,
        ..counter
    };
    counter.count(20);
    let pid = up.pids[&frozen];
    signal(pid, Signal::STOP);
    counter.count(50);
    println!(
        "silence when an executor freezes: {:?}, aim {SILENCE_MAX:?}",
        counter.silence
    );
    assert!(counter.silence < SILENCE_MAX_BUSY, "{:?}", counter.silence);
    signal(pid, Signal::CONT);
    counter.count(50);
    expect_equal_servers(&up);

    // Without a client that waits nobody takes over, but whoever is told to.
    let frozen = executor(&up);
    signal(up.pids[&frozen], Signal::STOP);
    expect_moved(frozen % 3 + 1, &up.admin[usize::from(frozen % 3)]);
    signal(up.pids[&frozen], Signal::CONT);
    counter.client = None;
    counter.count(20);
    assert!(up.stop().success());
}

/// Scenario: what a single server has is there: transactions, scripts, streams, messages, commands that wait.
#[test]
fn clients_find_everything_that_a_single_server_has() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let [mut one, mut two] = [0, 1].map(|at| Client::connect(&up.urls[at]));
    assert_eq!(one.say("multi"), "OK");
    assert_eq!(one.say("incr m"), "QUEUED");
    assert_eq!(one.ask("exec"), Reply::Array(vec![Reply::Integer(1)]));
    assert_eq!(two.say("watch m"), "OK");
    assert_eq!(one.say("incr m"), "2");
    assert_eq!(two.say("multi"), "OK");
    assert_eq!(two.say("incr m"), "QUEUED");
    assert_eq!(two.ask("exec"), Reply::Null);
    assert_eq!(one.say("eval return(redis.call('incr',KEYS[1])) 1 s"), "1");
    assert_eq!(one.say("xadd x 1-1 f v"), "1-1");
    assert_eq!(two.say("xlen x"), "1");
    assert_eq!(two.say("wait 1 5000"), "1");
    assert!(matches!(two.ask("subscribe news"), Reply::Array(_)));
    assert_eq!(one.say("publish news hello"), "1");
    let Some(Reply::Array(message)) = two.next() else {
        panic!("a message comes");
    };
    assert_eq!(message[2].text().as_deref(), Some("hello"));
    let mut waiting = Client::connect(&up.urls[2]);
    waiting.pipeline(&["blpop l 0"]);
    assert_eq!(one.say("rpush l v"), "1");
    assert!(matches!(waiting.next(), Some(Reply::Array(_))));
    assert!(matches!(waiting.ask("hello 3"), Reply::Map(_)));
    let requests: Vec<String> = (0..1000).map(|_| "incr p".to_owned()).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    one.pipeline(&requests);
    for number in 1..=1000 {
        assert_eq!(one.next(), Some(Reply::Integer(number)));
    }
    expect_documented_refusals(&up.urls[1], "With real servers");
    assert_eq!(
        Client::connect(&up.urls[1]).try_ask("post / HTTP/1.1"),
        None
    );
    expect_equal_servers(&up);
    let status = output(quorate().args(["redis", "status", "--endpoints", &up.urls[1]]));
    let table = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        table.contains("executing") && table.contains("following"),
        "{table}"
    );
    assert!(up.stop().success());
}

/// Scenario: a cluster is stopped, and begun again without a word about its servers.
#[test]
fn a_cluster_keeps_its_store_and_its_data() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    assert!(up.stop().success());
    let dir = home.dir.display().to_string();
    let server = server().unwrap();
    let again = Up::start(&home.dir, &[&server]);
    assert_eq!(Client::connect(&again.urls[1]).say("incr a"), "2");
    assert!(again.stop().success());
    expect_failure(
        quorate().args(["up", "--data-dir", &dir, "--redis-mode", "embedded"]),
        2,
        "--redis-mode embedded contradicts the cluster in",
    );
    expect_failure(
        quorate()
            .args(["up", "--data-dir", &dir])
            .env("PATH", "/nowhere"),
        1,
        "no valkey-server and no redis-server in PATH: install one",
    );
}

/// Scenario: options that make no sense, or that this program does not have yet.
#[test]
fn stores_that_cannot_be_had_are_refused_before_anything_is_begun() {
    let home = Home::new();
    let dir = home.dir.display().to_string();
    for (flags, code, says) in [
        (
            &["--face", "redis", "--redis-mode", "other"][..],
            2,
            "--redis-mode other: the modes are embedded, effects and commands",
        ),
        (
            &["--face", "redis", "--redis-server=/nowhere/redis-server"],
            2,
            "--redis-server /nowhere/redis-server is no server that can be run",
        ),
        (
            &["--redis-server=/nowhere/redis-server"],
            2,
            "are options of the Redis face",
        ),
    ] {
        let mut command = quorate();
        command.args(["up", "--data-dir", &dir]).args(flags);
        expect_failure(&mut command, code, says);
        assert!(!home.dir.exists(), "{flags:?}");
    }
}
