//! A running server whose data is brought over while clients write to it, and which the cluster takes over from.

use super::files::export;
use super::{executor, expect_equal_by, server};
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up, expect_failure, free_ports, output, quorate, signal};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server on its own, as people have one before they have a cluster.
struct Single {
    child: Child,
    place: String,
    _dir: tempfile::TempDir,
}

impl Single {
    fn start(flags: &[&str]) -> Option<Single> {
        let option = server()?;
        let path = option.split_once('=').map(|(_, path)| path.to_owned())?;
        Some(Single::run(&path, tempfile::tempdir().unwrap(), flags))
    }

    /// Starts one with what an RDB holds.
    fn load(rdb: &str) -> Single {
        let option = server().unwrap();
        let (_, path) = option.split_once('=').unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(rdb, dir.path().join("dump.rdb")).unwrap();
        let single = Single::run(path, dir, &[]);
        let began = Instant::now();
        while Client::connect(&single.place).say("ping") != "PONG" {
            assert!(began.elapsed() < PATIENCE, "the file is not loaded in time");
            std::thread::sleep(Duration::from_millis(10));
        }
        single
    }

    fn run(path: &str, dir: tempfile::TempDir, flags: &[&str]) -> Single {
        let port = free_ports(1).to_string();
        let child = Command::new(path)
            .args([
                "--port",
                &port,
                "--save",
                "",
                "--repl-diskless-sync-delay",
                "0",
            ])
            .args(flags)
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let single = Single {
            child,
            place: format!("127.0.0.1:{port}"),
            _dir: dir,
        };
        let began = Instant::now();
        while Client::try_connect(&single.place).is_err() {
            assert!(began.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        single
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `quorate redis import` that runs.
struct Importing {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Importing {
    fn start(from: &Single, up: &Up) -> Importing {
        let server = server().unwrap();
        let endpoints = up.urls.join(",");
        let mut child = quorate()
            .args(["redis", "import", "--from", &from.place, &server])
            .args(["--endpoints", &endpoints])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Importing { child, lines }
    }

    /// Waits for the next line, which begins like this.
    fn expect(&mut self, beginning: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(line.starts_with(beginning), "{line}");
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Somebody who writes without end: how many of the writes were acknowledged.
struct Writer {
    is_over: Arc<AtomicBool>,
    done: Arc<AtomicI64>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(place: &str) -> Writer {
        let (is_over, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicI64::new(0)),
        );
        let (mut client, ends, count) = (
            Client::connect(place),
            Arc::clone(&is_over),
            Arc::clone(&done),
        );
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let key = count.load(Ordering::Relaxed) % 50;
                for words in [
                    format!("rpush list{key} {key}"),
                    format!("set fleeting{key} 1 px 5"),
                    "spop chosen".to_owned(),
                    "incr n".to_owned(),
                ] {
                    // It is silent, or gone, from the cutover on.
                    if client.try_ask(&words).is_none() {
                        return;
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Writer {
            is_over,
            done,
            thread,
        }
    }

    /// Waits until so many more were acknowledged.
    fn more(&self, count: i64) {
        let until = self.done.load(Ordering::Relaxed) + count;
        let began = Instant::now();
        while self.done.load(Ordering::Relaxed) < until {
            assert!(began.elapsed() < PATIENCE, "nobody can write");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn fill(place: &str) {
    let mut client = Client::connect(place);
    for words in [
        "xadd orders 1-1 f v",
        "xgroup create orders g 0",
        "xreadgroup group g me streams orders >",
        "zadd sorted 1.5 m inf n",
        "pfadd guessed a b c",
        "set lasting 1 pxat 4102444800000",
        "select 9",
        "set other 1",
    ] {
        let said = client.ask(words);
        assert!(!format!("{said:?}").contains("Error"), "{words}: {said:?}");
    }
    let members: String = (0..20_000).map(|at| format!(" m{at}")).collect();
    let fields: String = (0..2000).map(|at| format!(" {at} v{at}")).collect();
    client.say("select 0");
    assert_eq!(client.say(&format!("hset fields{fields}")), "2000");
    assert_eq!(client.say(&format!("sadd chosen{members}")), "20000");
    let code = "#!lua name=l\nredis.register_function('f',function()return(7)end)";
    let mut request = Vec::new();
    quorate_resp::encode_request(&["FUNCTION", "LOAD", code], &mut request);
    client.send(&request);
    assert_eq!(
        client.next().and_then(|reply| reply.text()).as_deref(),
        Some("l")
    );
}

/// `quorate redis cutover` from a server; what it printed.
fn cut_over(from: &Single, up: &Up) -> String {
    let cut = output(quorate().args([
        "redis",
        "cutover",
        "--from",
        &from.place,
        "--endpoints",
        &up.urls.join(","),
    ]));
    let said = String::from_utf8_lossy(&cut.stdout).into_owned();
    let errors = String::from_utf8_lossy(&cut.stderr).into_owned();
    assert!(cut.status.success(), "{said}{errors}");
    said
}

/// Scenario: replicas and the import itself are killed while a client writes to the server that is followed; then the
/// cluster takes over, with everything that was acknowledged there.
#[test]
fn a_running_server_is_followed_and_taken_over_from() {
    let Some(source) = Single::start(&[]) else {
        return;
    };
    fill(&source.place);
    let writer = Writer::start(&source.place);
    let home = Home::new();
    let mut up = home.start(&["--face", "redis", &server().unwrap(), "--restart"]);
    let mut importing = Importing::start(&source, &up);
    importing.expect("following ");
    writer.more(20);

    let refused = Client::connect(&up.urls[1]).say("set a 1");
    assert!(
        refused.contains("until `quorate redis cutover`, nothing was done"),
        "{refused}"
    );
    let status = output(quorate().args(["redis", "status", "--endpoints", &up.urls[1]]));
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.contains("everything of another server is here"),
        "{status}"
    );
    for victim in [1, 2] {
        signal(up.pids[&victim], Signal::KILL);
        writer.more(20);
        up.wait_for(&format!("replica {victim} serves again"));
    }
    drop(importing);
    writer.more(20);
    let mut importing = Importing::start(&source, &up);
    importing.expect("following ");
    writer.more(20);

    let said = cut_over(&source, &up);
    println!("{said}");
    assert!(said.contains("nobody took writes for "), "{said}");
    importing.expect("cut over: ");
    let done = writer.done.load(Ordering::Relaxed);
    writer.is_over.store(true, Ordering::Relaxed);
    let mut there = Client::connect(&source.place);
    let counted: i64 = there.say("get n").parse().unwrap();
    assert!((done..=done + 1).contains(&counted), "{counted} of {done}");

    executor(&up);
    expect_moved(&home, &source, &up);
    assert!(up.stop().success());
    drop(source);
    drop(writer.thread.join());
}

/// A digest of all keys and what they mean: how they are packed is each server's own. It changes nothing, so that a
/// server that refuses writes tells it.
fn contents(url: &str) -> String {
    let script = "local read={string={'get'},list={'lrange',0,-1},set={'smembers'},hash={'hgetall'}, \
                  zset={'zrange',0,-1,'withscores'},stream={'xrange','-','+'}} \
                  local keys=redis.call('keys','*') table.sort(keys) local sum='' \
                  for _,key in ipairs(keys) do local kind=redis.call('type',key).ok local how=read[kind] \
                  local all=redis.call(how[1],key,unpack(how,2)) \
                  if kind=='hash' then local pairs={} for at=1,#all,2 do pairs[#pairs+1]=all[at]..'='..all[at+1] end \
                  all=pairs end if kind=='set' or kind=='hash' then table.sort(all) end \
                  local ends=redis.call('pexpiretime',key) \
                  sum=redis.sha1hex(sum..key..kind..cjson.encode(all)..ends) end return sum";
    let mut request = Vec::new();
    quorate_resp::encode_request(&["EVAL_RO", script, "0"], &mut request);
    let mut client = Client::connect(url);
    client.send(&request);
    let digest = client.next().and_then(|reply| reply.text());
    digest.expect("a digest")
}

/// Everything of a server is in a cluster, and in what that exports.
fn expect_moved(home: &Home, source: &Single, up: &Up) {
    let mut there = Client::connect(&source.place);
    let mut here = Client::connect(&up.urls[2]);
    for words in [
        "get n",
        "pexpiretime lasting",
        "scard chosen",
        "strlen guessed",
    ] {
        assert_eq!(here.say(words), there.say(words), "{words}");
    }
    assert_eq!(here.say("fcall f 0"), "7");
    let pending = here.ask("xpending orders g");
    assert_eq!(pending, there.ask("xpending orders g"));
    let digest = contents(&source.place);
    assert_eq!(contents(&up.urls[0]), digest);
    let copy = Single::load(&export(home, up, "moved.rdb"));
    assert_eq!(contents(&copy.place), digest);
    assert_eq!(Client::connect(&copy.place).say("fcall f 0"), "7");
    assert_eq!(here.say("select 9"), "OK");
    assert_eq!(here.say("incr other"), "2");
    expect_equal_by(up, contents);
}

/// Scenario: servers that cannot be followed, and clusters that follow none, are told so, and nothing is begun.
#[test]
fn what_cannot_be_followed_changes_nothing() {
    let Some(source) = Single::start(&["--requirepass", "secret"]) else {
        return;
    };
    let home = Home::new();
    let option = server().unwrap();
    let up = home.start(&["--face", "redis", &option]);
    let endpoints = up.urls[0].clone();
    let dir = tempfile::tempdir().unwrap();
    let [right, wrong] = ["secret", "other"].map(|password| {
        let path = dir.path().join(password);
        std::fs::write(&path, format!("{password}\n")).unwrap();
        path.display().to_string()
    });
    let import = |from: &str, password: Option<&str>| {
        let mut command = quorate();
        command.args(["redis", "import", "--from", from, &option]);
        command.args(["--endpoints", &endpoints]);
        command.args(password.map(|path| format!("--from-password-file={path}")));
        command
    };
    expect_failure(&mut import(&source.place, None), 1, "NOAUTH");
    expect_failure(&mut import(&source.place, Some(&wrong)), 1, "WRONGPASS");
    let (strange, answering) = stranger();
    let says = "that is no Redis and no Valkey";
    expect_failure(&mut import(&strange, None), 1, says);
    answering.join().unwrap();
    let (host, port) = source.place.split_once(':').unwrap();
    let replica = Single::start(&["--replicaof", host, port]).unwrap();
    let says = "it is a replica: follow its master";
    expect_failure(&mut import(&replica.place, None), 1, says);
    let mut cutover = quorate();
    cutover.args(["redis", "cutover", "--from", &replica.place]);
    cutover.args(["--endpoints", &endpoints]);
    expect_failure(&mut cutover, 1, "this cluster follows no other server");
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    let full = "the cluster has data already";
    expect_failure(&mut import(&source.place, Some(&right)), 1, full);
    assert_eq!(Client::connect(&up.urls[1]).say("get a"), "1");
    assert_eq!(Client::connect(&up.urls[1]).say("del a"), "1");

    abandon(&mut import(&source.place, Some(&right)), &endpoints);
    assert_eq!(Client::connect(&up.urls[2]).say("incr a"), "1");
    assert!(up.stop().success());
}

/// Begins an import and gives it up, which leaves an empty cluster that serves.
fn abandon(import: &mut Command, endpoints: &str) {
    let mut importing = import.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(importing.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("following "), "{line}");
    importing.kill().unwrap();
    importing.wait().unwrap();
    let abandoned = output(quorate().args(["redis", "abandon", "--endpoints", endpoints]));
    assert!(abandoned.status.success(), "{abandoned:?}");
}

/// Somebody who answers one request with HTTP.
fn stranger() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_ne!(stream.read(&mut [0; 64]).unwrap(), 0);
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        stream.write_all(answer).unwrap();
    });
    (place, answering)
}
