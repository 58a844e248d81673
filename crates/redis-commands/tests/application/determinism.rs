//! Real servers that are given the same bodies: they come to the same replies and the same data, whatever their hash
//! tables are seeded with.
//!
//! `REDIS_SERVER` names a server, or `PATH` has one; without, nothing is tested. The long form has `CALLS` calls, and
//! compares with the server that `REDIS_SERVER_2` names, which may be of another version.

use crate::alike::{in_order, is_drawn, is_newer, is_unordered};
use crate::server::Server;
use crate::{generate, new};
use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use quorate_core::{Application, At};
use quorate_redis_commands::{Commands, Done, Entry, Origin, Pipe, Shared, body, refused};
use quorate_redis_store::{Call, Request, find};
use quorate_resp::{Reply, Resp};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Calls of the quick form, and of the long one unless `CALLS` says otherwise.
const CALLS_QUICK: usize = 5_000;
const CALLS: usize = 30_000;
/// Bodies that are under way at once.
const BODIES_AT_ONCE: usize = 20;
/// Databases that are used.
const DATABASES: u32 = 2;
/// Bodies after which everything is deleted.
const BODIES_BEFORE_FLUSH: u64 = 1_500;
/// Calls that depend on the order of sets where servers do not take care, and that reach other databases.
const MORE: [&str; 10] = [
    "SORT {t} ALPHA STORE {l}",
    "SORT {t} BY nosort STORE {l}",
    "SORT {t} BY nosort LIMIT 0 3 STORE {l}",
    "SORT {t} BY s* STORE {l}",
    "SORT {t} BY s* ALPHA STORE {l}",
    "SORT {t} BY h*->a GET # STORE {l}",
    "SORT {z} BY nosort STORE {l}",
    "SWAPDB 0 1",
    "MOVE {k} 1",
    "COPY {k} {k} DB 1 REPLACE",
];

/// A server, and what feeds it.
struct Fed {
    server: Server,
    pipe: Pipe,
}

impl Fed {
    fn start(program: &Path) -> Fed {
        Fed {
            server: Server::start_program(program, &["--enable-debug-command", "yes"]),
            pipe: Pipe::new(0),
        }
    }

    /// The replies to bodies, the first of which has this position.
    fn carry_out(&mut self, first: u64, entries: &[Entry]) -> Vec<Bytes> {
        for (position, entry) in (first..).zip(entries) {
            self.pipe.entry(position, entry).expect("it is a body");
        }
        let replies = entries.iter().map(|_| match self.next_done() {
            Done::Entry { replies, .. } => replies,
            other => panic!("{other:?}"),
        });
        replies.collect()
    }

    /// The next thing that the server has done.
    fn next_done(&mut self) -> Done {
        let out = self.pipe.take_output();
        self.server.stream.write_all(&out).expect("it reads");
        let mut space = [0; 16 << 10];
        loop {
            if let Some(done) = self.pipe.next_done().expect("it answers") {
                return done;
            }
            let read = self.server.stream.read(&mut space).expect("it answers");
            assert!(read > 0, "the server hung up");
            self.pipe.input().extend_from_slice(&space[..read]);
        }
    }

    /// A digest of all that the server has, as servers of one version make it.
    fn digest(&mut self) -> Bytes {
        self.server
            .call(&["DEBUG", "DIGEST"].map(|word| Bytes::from_static(word.as_bytes())))
    }

    /// The replies to calls that change nothing, in an order of their own.
    fn read(&mut self, db: u32, calls: Vec<Vec<Bytes>>) -> Vec<Reply> {
        let request = Request {
            db,
            calls: calls.into_iter().map(|args| Call { args }).collect(),
            ..Request::default()
        };
        self.pipe.read(0, &request);
        match self.next_done() {
            Done::Read { replies, .. } => parse(&replies).into_iter().map(in_order).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// All that the server has, as any version shows it.
    fn data(&mut self) -> Vec<(u32, Vec<Bytes>, Reply)> {
        let mut data = Vec::new();
        for db in 0..DATABASES {
            let keys = self.read(db, vec![vec!["KEYS".into(), "*".into()]]).pop();
            let Some(Reply::Array(keys)) = keys else {
                panic!("{keys:?}");
            };
            let keys: Vec<Bytes> = keys.into_iter().map(bytes).collect();
            let types = keys.iter().map(|key| vec!["TYPE".into(), key.clone()]);
            let types = self.read(db, types.collect());
            let shows = keys.into_iter().zip(types).map(|(key, of)| {
                let (name, rest): (&'static str, &[&'static str]) =
                    match &of.text().expect("a type")[..] {
                        "string" => ("GET", &[]),
                        "list" => ("LRANGE", &["0", "-1"]),
                        "set" => ("SMEMBERS", &[]),
                        "hash" => ("HGETALL", &[]),
                        _ => ("ZRANGE", &["0", "-1", "WITHSCORES"]),
                    };
                let rest = rest.iter().map(|word| Bytes::from_static(word.as_bytes()));
                [name.into(), key].into_iter().chain(rest).collect()
            });
            let shows: Vec<Vec<Bytes>> = shows.collect();
            let shown = self.read(db, shows.clone());
            data.extend(
                shows
                    .into_iter()
                    .zip(shown)
                    .map(|(show, of)| (db, show, of)),
            );
        }
        data
    }
}

/// The name of a key, which may look like a number.
fn bytes(name: Reply) -> Bytes {
    match name {
        Reply::Bulk(name) => name,
        Reply::Double(name) => name.into(),
        other => panic!("{other:?}"),
    }
}

/// The replies that these bytes are.
fn parse(replies: &Bytes) -> Vec<Reply> {
    let mut rest = BytesMut::from(&replies[..]);
    let mut all = Vec::new();
    while let Some(reply) = Reply::take(&mut rest).expect("it is a reply") {
        all.push(reply);
    }
    all
}

/// What makes bodies, and orders them as a replica does.
struct Bodies {
    app: Commands,
    shared: Arc<Shared>,
    rng: Rng,
    templates: Vec<&'static str>,
    calls: usize,
    /// Whether there are no calls that come to something else on some versions.
    are_for_all: bool,
    /// The position at which everything is deleted next.
    flush_at: u64,
}

impl Bodies {
    fn new(seed: u64, are_for_all: bool) -> Bodies {
        let (app, shared) = new();
        let mut templates = generate::templates();
        templates.extend(MORE);
        Bodies {
            app,
            shared,
            rng: Rng::with_seed(seed),
            templates,
            calls: 0,
            are_for_all,
            flush_at: 0,
        }
    }

    /// Calls that command mode takes.
    fn request(&mut self) -> Request {
        let rng = &mut self.rng;
        let calls = (0..rng.usize(1..6)).map(|_| generate::call(rng, &self.templates));
        let is_for_both = |args: &[Bytes]| !self.are_for_all || is_for_all_versions(args);
        let calls = calls.filter(|args| is_taken(args) && is_for_both(args));
        let calls: Vec<Vec<Bytes>> = calls.collect();
        request(rng, calls)
    }

    /// The next bodies, in the order of the log; the requests behind them.
    fn next(&mut self) -> (u64, Vec<Request>, Vec<Entry>) {
        let first = self.shared.len();
        let mut requests: Vec<Request> = (0..BODIES_AT_ONCE).map(|_| self.request()).collect();
        if first >= self.flush_at {
            self.flush_at += BODIES_BEFORE_FLUSH;
            let flush = request(&mut self.rng, vec![vec!["FLUSHALL".into()]]);
            let large = generate::large_collections();
            requests.insert(0, request(&mut self.rng, large));
            requests.insert(0, flush);
        }
        requests.retain(|request| !request.calls.is_empty());
        for (number, request) in (first..).zip(&requests) {
            let body = body(Origin { boot: 1, number }, request);
            self.app.apply(At::default(), &body, &[]);
            self.calls += request.calls.len();
        }
        let entries = self.shared.from(first, requests.len());
        (first, requests, entries.expect("they are new"))
    }
}

fn request(rng: &mut Rng, calls: Vec<Vec<Bytes>>) -> Request {
    Request {
        resp: if rng.bool() { Resp::Two } else { Resp::Three },
        db: rng.u32(..DATABASES),
        atomic: rng.u8(..4) == 0,
        calls: calls.into_iter().map(|args| Call { args }).collect(),
        ..Request::default()
    }
}

/// Whether all versions come to the same: Valkey 9 does not sort by words that are no numbers where others do.
fn is_for_all_versions(args: &[Bytes]) -> bool {
    !is_newer(args) && !args[0].eq_ignore_ascii_case(b"sort")
}

fn is_taken(args: &[Bytes]) -> bool {
    let command = find(&args[0]).filter(|command| command.check_arity(args.len()));
    command.is_some_and(|command| refused(command.name, args).is_none())
}

/// What a server said to a call.
#[derive(Debug, PartialEq)]
struct Said {
    /// The command's name, and whether it may change something.
    name: String,
    is_write: bool,
    /// The reply in a form that is equal wherever servers say the same; `None` where each server has its own.
    reply: Option<Reply>,
}

/// What a server said to each call; to all of them at once where a transaction failed.
fn said(request: &Request, replies: &Bytes, is_one_version: bool) -> Vec<Said> {
    let mut all = parse(replies);
    if let (true, [Reply::Array(_)]) = (request.atomic, &all[..]) {
        let Some(Reply::Array(of_calls)) = all.pop() else {
            return Vec::new();
        };
        all = of_calls;
    }
    assert!(
        request.atomic || all.len() == request.calls.len(),
        "{all:?}"
    );
    let first_word = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let of_calls = all
        .into_iter()
        .zip(&request.calls)
        .map(|(reply, call)| Said {
            name: String::from_utf8_lossy(&call.args[0]).to_lowercase(),
            // What is sorted is data only where it is stored.
            is_write: find(&call.args[0])
                .is_some_and(|command| command.is_write() && command.name != "sort"),
            reply: match reply {
                _ if is_own(&call.args) => None,
                // Versions have other words.
                Reply::Error(text) if !is_one_version => Some(Reply::Error(first_word(&text))),
                reply if !is_one_version || is_unordered(&call.args) => Some(in_order(reply)),
                reply => Some(reply),
            },
        });
    of_calls.collect()
}

/// Whether the reply to a call is each server's own: it draws, or knows what a cursor means.
fn is_own(args: &[Bytes]) -> bool {
    let is_scan = args[0].to_ascii_lowercase().ends_with(b"scan");
    is_drawn(args) || is_scan && args.get(2).is_none_or(|cursor| cursor != "0")
}

fn shown(request: &Request) -> String {
    let calls = request.calls.iter().map(|call| {
        let words = call.args.iter().map(|arg| arg.escape_ascii().to_string());
        words.collect::<Vec<_>>().join(" ")
    });
    format!(
        "db {}, atomic {}: {}",
        request.db,
        request.atomic,
        calls.collect::<Vec<_>>().join(" | ")
    )
}

/// Has two servers carry out the same random calls, and compares what they say and what they have. Versions may answer
/// reads otherwise; which ones is told.
fn compare(programs: [&Path; 2], calls: usize) {
    let is_one_version = programs[0] == programs[1];
    let [mut one, mut other] = programs.map(Fed::start);
    let seed = number("SEED").unwrap_or(7);
    let mut bodies = Bodies::new(seed as u64, !is_one_version);
    let mut otherwise: BTreeMap<String, usize> = BTreeMap::new();
    while bodies.calls < calls {
        let (first, requests, entries) = bodies.next();
        let replies = [&mut one, &mut other].map(|fed| fed.carry_out(first, &entries));
        for (at, request) in requests.iter().enumerate() {
            let [here, there] =
                [0, 1].map(|server| said(request, &replies[server][at], is_one_version));
            assert_eq!(here.len(), there.len(), "seed {seed}: {}", shown(request));
            for (here, there) in here.into_iter().zip(there) {
                if here != there && !is_one_version && !here.is_write {
                    *otherwise.entry(here.name).or_default() += 1;
                    continue;
                }
                assert_eq!(here, there, "seed {seed}: {}", shown(request));
            }
        }
        let all: Vec<String> = requests.iter().map(shown).collect();
        let all = all.join("\n");
        match is_one_version {
            true => assert_eq!(one.digest(), other.digest(), "seed {seed}, one of:\n{all}"),
            false => assert_eq!(one.data(), other.data(), "seed {seed}, one of:\n{all}"),
        }
    }
    if is_one_version {
        assert_eq!(one.pipe.replies(), other.pipe.replies());
    }
    println!(
        "{} calls in {} bodies on {programs:?}; reads answered otherwise: {otherwise:?}",
        bodies.calls,
        bodies.shared.len(),
    );
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// The program that a variable names, or else the first server in `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["valkey-server", "redis-server"];
    let folders = std::env::split_paths(&path);
    let mut found = folders.flat_map(|folder| names.map(|name| folder.join(name)));
    let given = std::env::var_os(name).map(PathBuf::from);
    let found = given.or_else(|| found.find(|path| path.is_file()));
    if found.is_none() {
        println!("skipped: {name} names no server, and PATH has none");
    }
    found
}

#[test]
fn two_servers_come_to_the_same() {
    if let Some(program) = program("REDIS_SERVER") {
        compare([&program, &program], CALLS_QUICK);
    }
}

/// Scenario: many calls on two servers of one version, and on one of another version if there is one.
#[test]
#[ignore = "takes a while: CALLS, SEED, REDIS_SERVER, REDIS_SERVER_2"]
fn two_servers_of_one_version_and_of_two_come_to_the_same() {
    let calls = number("CALLS").unwrap_or(CALLS);
    let Some(one) = program("REDIS_SERVER") else {
        return;
    };
    compare([&one, &one], calls);
    if let Some(other) = std::env::var_os("REDIS_SERVER_2").map(PathBuf::from) {
        compare([&one, &other], calls);
    }
}
