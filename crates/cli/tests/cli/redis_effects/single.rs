//! A server on its own as people have one before they have a cluster, whoever writes to it, and what brings it over.

use super::server;
use crate::support::resp::Client;
use crate::support::{PATIENCE, Up, free_ports, output, quorate, signal};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that nobody replicates, with a folder and a port of its own.
pub(super) struct Single {
    program: String,
    child: Child,
    port: String,
    /// The `host:port` of the server.
    pub(super) place: String,
    dir: tempfile::TempDir,
}

impl Single {
    /// The server that tests run with, with more options.
    pub(super) fn start(flags: &[&str]) -> Option<Single> {
        Single::run(&program()?, tempfile::tempdir().unwrap(), flags)
    }

    /// Starts one with what an RDB holds.
    pub(super) fn load(rdb: &str) -> Single {
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(rdb, dir.path().join("dump.rdb")).unwrap();
        Single::run(&program().unwrap(), dir, &[]).expect("a server that ran before")
    }

    /// Starts a program in a folder; `None` if it has no such options.
    pub(super) fn run(program: &str, dir: tempfile::TempDir, flags: &[&str]) -> Option<Single> {
        let port = free_ports(1).to_string();
        let mut single = Single {
            child: child(program, &dir, &port, flags),
            program: program.to_owned(),
            place: format!("127.0.0.1:{port}"),
            port,
            dir,
        };
        single.serves().then_some(single)
    }

    /// Kills it, and starts it again in its folder, with these options in the place of those it had.
    pub(super) fn restart(&mut self, flags: &[&str]) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = child(&self.program, &self.dir, &self.port, flags);
        assert!(self.serves(), "it served before");
    }

    /// Waits until it has loaded its file; says whether it has not ended in the place of that.
    fn serves(&mut self) -> bool {
        let began = Instant::now();
        loop {
            let said =
                Client::try_connect(&self.place).map(|mut client| client.try_ask("echo here"));
            match said {
                Ok(Some(quorate_resp::Reply::Error(why))) if why.starts_with("LOADING") => {}
                Ok(Some(_)) => return true,
                _ => {}
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(began.elapsed() < PATIENCE, "the server does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of the server that tests run with.
pub(super) fn program() -> Option<String> {
    let option = server()?;
    option.split_once('=').map(|(_, path)| path.to_owned())
}

fn child(program: &str, dir: &tempfile::TempDir, port: &str, flags: &[&str]) -> Child {
    let usual = [
        "--port",
        port,
        "--save",
        "",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let mut command = Command::new(program);
    command.args(usual).args(flags).current_dir(dir.path());
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// `quorate redis import` that runs.
pub(super) struct Importing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Importing {
    /// Starts it with these options for the other server, for a cluster over real servers.
    pub(super) fn start(from: &[&str], up: &Up) -> Importing {
        let server = server().unwrap();
        Importing::start_own(&[&[&server[..]], from].concat(), up)
    }

    /// Starts it with these options for the other server, for a cluster with Quorate's own store.
    pub(super) fn start_own(from: &[&str], up: &Up) -> Importing {
        let mut child = quorate()
            .args(["redis", "import"])
            .args(from)
            .args(["--endpoints", &up.urls[1..].join(",")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Importing { child, lines }
    }

    /// Waits for the next line, which begins like this.
    pub(super) fn expect(&mut self, beginning: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(line.starts_with(beginning), "{line}");
    }

    /// Waits until it fails: what it says.
    pub(super) fn failure(mut self) -> String {
        let mut said = String::new();
        let errors = self.child.stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(!self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `quorate redis cutover` with these options for the other server.
pub(super) fn cutover(from: &[&str], up: &Up) -> Command {
    let mut command = quorate();
    command.args(["redis", "cutover"]).args(from);
    command.args(["--endpoints", &up.urls[1..].join(",")]);
    command
}

/// What a cutover that succeeds prints.
pub(super) fn cut_over(from: &[&str], up: &Up) -> String {
    let cut = output(&mut cutover(from, up));
    let said = String::from_utf8_lossy(&cut.stdout).into_owned();
    let errors = String::from_utf8_lossy(&cut.stderr).into_owned();
    assert!(cut.status.success(), "{said}{errors}");
    said
}

/// Somebody who writes without end: how many of the writes were acknowledged.
pub(super) struct Writer {
    pub(super) is_over: Arc<AtomicBool>,
    pub(super) done: Arc<AtomicI64>,
    pub(super) thread: JoinHandle<()>,
}

impl Writer {
    pub(super) fn start(place: &str) -> Writer {
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
    pub(super) fn more(&self, count: i64) {
        let until = self.done.load(Ordering::Relaxed) + count;
        let began = Instant::now();
        while self.done.load(Ordering::Relaxed) < until {
            assert!(began.elapsed() < PATIENCE, "nobody can write");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Values of every type that Quorate's own store has, a key with an end, and another database.
pub(super) fn fill_own(place: &str) {
    let mut client = Client::connect(place);
    do_all(
        &mut client,
        &[
            "zadd sorted 1.5 m inf n",
            "set lasting 1 pxat 4102444800000",
            "select 9",
            "set other 1",
        ],
    );
    let members: String = (0..20_000).map(|at| format!(" m{at}")).collect();
    let fields: String = (0..2000).map(|at| format!(" {at} v{at}")).collect();
    client.say("select 0");
    assert_eq!(client.say(&format!("hset fields{fields}")), "2000");
    assert_eq!(client.say(&format!("sadd chosen{members}")), "20000");
}

/// Gives commands that are answered without an error.
fn do_all(client: &mut Client, commands: &[&str]) {
    for words in commands {
        let said = client.ask(words);
        assert!(!format!("{said:?}").contains("Error"), "{words}: {said:?}");
    }
}

/// Kills replicas one after the other while a client writes to the server that is followed, and then the import, which
/// `start` starts again: once more it has everything.
pub(super) fn follow_through_kills(
    importing: Importing,
    start: impl FnOnce(&Up) -> Importing,
    up: &mut Up,
    writer: &Writer,
) -> Importing {
    for victim in [1, 2] {
        signal(up.pids[&victim], Signal::KILL);
        writer.more(20);
        up.wait_for(&format!("replica {victim} serves again"));
    }
    drop(importing);
    writer.more(20);
    let mut importing = start(up);
    importing.expect("following ");
    writer.more(20);
    importing
}

/// Cuts over while a client writes: what `n` counts then is what was acknowledged, or one more.
pub(super) fn cut_over_counting(
    source: &Single,
    up: &Up,
    mut importing: Importing,
    writer: &Writer,
) -> i64 {
    let said = cut_over(&["--from", &source.place], up);
    println!("{said}");
    assert!(said.contains("nobody took writes for "), "{said}");
    importing.expect("ended: ");
    let done = writer.done.load(Ordering::Relaxed);
    writer.is_over.store(true, Ordering::Relaxed);
    let counted: i64 = Client::connect(&source.place).say("get n").parse().unwrap();
    assert!((done..=done + 1).contains(&counted), "{counted} of {done}");
    counted
}

/// Beside those, values of types that only real servers have, and a library.
pub(super) fn fill(place: &str) {
    fill_own(place);
    let mut client = Client::connect(place);
    do_all(
        &mut client,
        &[
            "xadd orders 1-1 f v",
            "xgroup create orders g 0",
            "xreadgroup group g me streams orders >",
            "pfadd guessed a b c",
        ],
    );
    let code = "#!lua name=l\nredis.register_function('f',function()return(7)end)";
    let mut request = Vec::new();
    quorate_resp::encode_request(&["FUNCTION", "LOAD", code], &mut request);
    client.send(&request);
    assert_eq!(
        client.next().and_then(|reply| reply.text()).as_deref(),
        Some("l")
    );
}

/// A digest of all keys and what they mean: how they are packed is each server's own. It changes nothing, so that a
/// server that refuses writes tells it.
pub(super) fn contents(url: &str) -> String {
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
