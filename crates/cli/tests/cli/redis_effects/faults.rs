//! What becomes of servers: they hang, fill their memory, are busy, lose connections, or cannot have an effect.

use super::{Counter, executor, expect_equal_servers, page, servers_of, start};
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up, output, quorate, signal};
use quorate_resp::{Reply, encode_request};
use rustix::process::Signal;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server hangs, and a script runs.
const HANG: Duration = Duration::from_secs(1);

/// The numbers of a replica that executes and of one that follows.
fn executor_and_follower(up: &Up) -> (u16, u16) {
    let executing = executor(up);
    (executing, executing % 3 + 1)
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Scenario: a server hangs for a moment, a script keeps it busy, and its memory is full.
#[test]
fn servers_that_hang_or_are_busy_or_full_lose_nothing() {
    let home = Home::new();
    let settings = home.dir.with_extension("conf");
    std::fs::write(&settings, "maxmemory 24mb\nbusy-reply-threshold 50\n").unwrap();
    let settings = format!("--redis-config={}", settings.display());
    let Some(up) = start(&home, &[&settings]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(20);
    let (executing, following) = executor_and_follower(&up);
    for (replica, is_waited_for) in [(following, false), (executing, true)] {
        let servers = servers_of(up.pids[&replica]);
        servers.iter().for_each(|pid| signal(*pid, Signal::STOP));
        if is_waited_for {
            std::thread::sleep(HANG);
            servers.iter().for_each(|pid| signal(*pid, Signal::CONT));
            counter.count(20);
        } else {
            counter.count(20);
            servers.iter().for_each(|pid| signal(*pid, Signal::CONT));
        }
    }
    let script = format!(
        "local b=redis.call('time') repeat local t=redis.call('time') until \
         (t[1]-b[1])*1000000+t[2]-b[2]>{} redis.call('set','busy','1') return 'done'",
        HANG.as_micros()
    );
    let mut request = Vec::new();
    encode_request(&["EVAL", &script, "0"], &mut request);
    let mut busy = Client::connect(&up.urls[0]);
    busy.send(&request);
    let mut other = Client::connect(&up.urls[1]);
    wait_until("the server says that it is busy", || {
        let said = other.say("get a");
        said.starts_with("BUSY ") || said.parse::<u64>().is_ok() && other.say("get busy") == "1"
    });
    assert_eq!(
        busy.next().and_then(|reply| reply.text()).as_deref(),
        Some("done")
    );
    assert_eq!(other.say("get busy"), "1");
    counter.count(20);
    assert_eq!(
        executor(&up),
        executing,
        "nobody has to take over from a busy server"
    );
    let value = "x".repeat(256 << 10);
    let refused = (0..200).map(|number| other.say(&format!("set full:{number} {value}")));
    let refused = refused.into_iter().find(|said| said != "OK").unwrap();
    assert!(refused.starts_with("OOM command not allowed"), "{refused}");
    assert_eq!(other.say("get busy"), "1");
    for number in 0..200 {
        other.say(&format!("del full:{number}"));
    }
    counter.count(20);
    expect_equal_servers(&up);
    assert!(up.stop().success());
}

/// Scenario: the executor's tap is cut again and again between transactions, and within them.
#[test]
fn a_tap_that_is_cut_loses_no_half_of_a_transaction() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let (mut acknowledged, mut unknown) = (0, 0);
    for number in 0_usize..10 {
        let at = |offset: usize| &up.urls[(number + offset) % up.urls.len()];
        let mut cutting = Client::connect(at(1));
        for _ in 0..5 {
            let mut client = Client::connect(at(0));
            client.pipeline(&["multi", "incr a", "incr b"]);
            cutting.pipeline(&["client kill type replica"]);
            client.pipeline(&["exec"]);
            let replies: Vec<Reply> = std::iter::from_fn(|| client.next()).take(4).collect();
            match replies.get(3) {
                Some(Reply::Array(both)) => {
                    assert_eq!(both[0], both[1]);
                    acknowledged += 1;
                }
                Some(other) => panic!("EXEC is answered with {other:?}"),
                None => unknown += 1,
            }
            if cutting.next().is_none() {
                cutting = Client::connect(at(2));
            }
        }
    }
    println!("{acknowledged} transactions acknowledged, {unknown} not");
    let mut counter = Counter::new(&up.urls);
    let mut client = Client::connect(&up.urls[0]);
    let [a, b] = ["get a", "get b"].map(|request| client.say(request).parse::<i64>().unwrap());
    assert_eq!(a, b);
    assert!((acknowledged..=acknowledged + unknown).contains(&a), "{a}");
    assert!(acknowledged > 0);
    (counter.acknowledged, counter.unknown) = (a, 0);
    counter.count(20);
    expect_equal_servers(&up);
    assert!(up.stop().success());
}

/// Scenario: a client ends the connections of all others again and again, Quorate's own among them.
#[test]
fn a_client_that_ends_connections_ends_no_office() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(5);
    let executing = executor(&up);
    let admin = &up.admin[usize::from(executing) - 1];
    let epoch = page(admin)["epoch"].clone();
    let mut ending = Client::connect(&up.urls[0]);
    for _ in 0..10 {
        let ended = ending.ask("client kill type normal skipme yes");
        // The counter's connection, and the one by which Quorate asks for barriers.
        assert!(matches!(ended, Reply::Integer(2..)), "{ended:?}");
        counter.count(5);
    }
    assert_eq!(page(admin)["epoch"], epoch);
    assert_eq!(executor(&up), executing);
    expect_equal_servers(&up);
    assert!(up.stop().success());
}

/// Scenario: the executor is alone, has effects that nobody orders, and hears later that another one executes.
#[test]
fn effects_that_were_never_ordered_are_gone_with_their_executor() {
    let home = Home::new();
    let Some(up) = start(&home, &["--restart", "--durability", "disk"]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(20);
    let (executing, _) = executor_and_follower(&up);
    let others: Vec<u16> = (1..=3).filter(|id| *id != executing).collect();
    let url = |id: &u16| up.urls[usize::from(*id) - 1].clone();
    let (own, urls) = (url(&executing), others.iter().map(url).collect());
    for id in &others {
        signal(up.pids[id], Signal::STOP);
    }
    let mut alone = Client::connect(&own);
    alone.pipeline(&["incr a", "set tail 1", "rpush tails 1 2 3"]);
    let status = up.admin[usize::from(executing) - 1].clone();
    wait_until("its server has done it", || {
        let held = page(&status)
            .get("held_bytes")
            .and_then(|held| held.parse().ok());
        held.is_some_and(|held: u64| held > 0)
    });
    let frozen = up.pids[&executing];
    signal(frozen, Signal::STOP);
    // What was sent to them goes with them.
    for id in &others {
        signal(up.pids[id], Signal::KILL);
    }
    counter = Counter {
        urls,
        client: None,
        ..counter
    };
    // They serve again in either order.
    counter.count(50);
    signal(frozen, Signal::CONT);
    assert_eq!(alone.next(), None, "what nobody ordered is not answered");
    counter.count(20);
    assert_eq!(Client::connect(&own).say("exists tail tails"), "0");
    expect_equal_servers(&up);
    assert!(up.stop().success());
}

/// Scenario: somebody changed the data of a following server behind Quorate's back, and an effect fails there.
#[test]
fn a_follower_on_which_an_effect_fails_is_begun_anew() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(20);
    let (executing, following) = executor_and_follower(&up);
    let requests = [
        "CONFIG SET replica-read-only no",
        "SET l text",
        "CONFIG SET replica-read-only yes",
    ];
    // It may be begun anew at that moment.
    wait_until("the server of the follower is changed", || {
        ask_behind(&up, following, &requests).is_ok_and(|said| said == "+OK\r\n".repeat(4))
    });
    let mut client = Client::connect(&up.urls[usize::from(executing) - 1]);
    assert_eq!(client.say("rpush l v"), "1");
    let admin = &up.admin[usize::from(following) - 1];
    wait_until("the server that could not have it is begun anew", || {
        let page = page(admin);
        let deaths = page
            .get("server_deaths")
            .and_then(|deaths| deaths.parse().ok());
        deaths.is_some_and(|deaths: u64| deaths > 0)
            && page.get("lag_bytes").map(String::as_str) == Some("0")
    });
    counter.count(20);
    expect_equal_servers(&up);
    assert!(up.stop().success());
}

/// The folder of a replica's server.
fn folder_of(up: &Up, replica: u16) -> PathBuf {
    let server = servers_of(up.pids[&replica])[0];
    std::fs::read_link(format!("/proc/{server}/cwd")).unwrap()
}

/// Scenario: somebody removes the sockets of servers, so that nobody can connect to them any more.
#[test]
fn a_server_that_loses_its_socket_is_replaced() {
    let home = Home::new();
    let Some(up) = start(&home, &[]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(20);
    for replica in [executor(&up), executor_and_follower(&up).1] {
        std::fs::remove_file(folder_of(&up, replica).join("server.sock")).unwrap();
    }
    counter.client = None;
    counter.count(50);
    println!("silence when a socket is gone: {:?}", counter.silence);
    expect_equal_servers(&up);
    counter.client = None;
    counter.count(20);
    assert!(up.stop().success());
}

/// Scenario: the newest copy of a replica's data is damaged on its disk, and its server dies.
#[test]
fn a_damaged_copy_of_the_data_stops_its_replica_and_no_other() {
    let home = Home::new();
    let Some(mut up) = start(&home, &["--restart"]) else {
        return;
    };
    let mut counter = Counter::new(&up.urls);
    counter.count(20);
    let (_, following) = executor_and_follower(&up);
    let admin = up.admin[usize::from(following) - 1].clone();
    let path = home.dir.with_file_name("copy.rdb");
    let exported = output(
        quorate()
            .args(["redis", "export"])
            .arg(&path)
            .args(["--endpoints", &admin]),
    );
    assert!(exported.status.success(), "{exported:?}");
    let copies = folder_of(&up, following)
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned();
    let copies = rdb_files(&copies);
    assert!(!copies.is_empty(), "the replica has a copy");
    for copy in copies {
        let mut bytes = std::fs::read(&copy).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        std::fs::write(&copy, bytes).unwrap();
    }
    for server in servers_of(up.pids[&following]) {
        signal(server, Signal::KILL);
    }
    wait_until("the replica says why it has no server", || {
        let failure = page(&admin).get("failure").cloned().unwrap_or_default();
        failure.contains("which may be damaged")
    });
    counter.count(20);
    signal(up.pids[&following], Signal::KILL);
    up.wait_for(&format!("replica {following} serves again"));
    expect_equal_servers(&up);
    counter.count(20);
    assert!(up.stop().success());
}

/// The copies of data in a folder, and in those within it.
fn rdb_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let found = paths.flat_map(|path| match path.is_dir() {
        true => rdb_files(&path),
        false => vec![path],
    });
    found
        .filter(|path| path.extension().is_some_and(|end| end == "rdb"))
        .collect()
}

/// What the server of a replica says to Quorate's own user, to the login first.
fn ask_behind(up: &Up, replica: u16, requests: &[&str]) -> io::Result<String> {
    let folder = folder_of(up, replica);
    let users = std::fs::read_to_string(folder.join("users.acl"))?;
    let password = users
        .split_whitespace()
        .find_map(|word| word.strip_prefix('>'));
    // The path itself may be too long for the kernel.
    let open = std::fs::File::open(&folder)?;
    let path = format!("/proc/self/fd/{}/server.sock", open.as_raw_fd());
    let mut stream = UnixStream::connect(path)?;
    let login = format!("AUTH quorate {}", password.unwrap());
    let all = [login.as_str()].into_iter().chain(requests.iter().copied());
    let all: String = all.map(|request| format!("{request}\r\n")).collect();
    stream.write_all(all.as_bytes())?;
    let mut said = String::new();
    let mut space = [0; 256];
    while said.lines().count() <= requests.len() {
        match stream.read(&mut space)? {
            0 => break,
            read => said += &String::from_utf8_lossy(&space[..read]),
        }
    }
    Ok(said)
}
