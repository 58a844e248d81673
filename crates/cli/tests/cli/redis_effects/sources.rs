//! Servers that data is brought over from: of other versions, behind TLS and passwords, that die and come back, or that
//! send what nobody can load.

use super::faults::wait_until;
use super::single::{Importing, Single, Writer, contents, cut_over, cutover, fill, program};
use super::{executor, expect_equal_by, server};
use crate::support::resp::Client;
use crate::support::{Home, Up, expect_failure, free_ports, output, quorate, signal};
use bytes::BytesMut;
use quorate_certificates::{Authority, Validity};
use quorate_resp::{Limits, RequestParser};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::Ordering;

/// The variable with programs of other versions, as `PATH` has folders.
const SOURCES: &str = "REDIS_SOURCES";
/// The newest Redis that Valkey follows.
const FORK: (u32, u32) = (7, 2);

/// The family of a program, and its version in two numbers.
fn version(program: &str) -> (String, (u32, u32)) {
    let told = output(Command::new(program).arg("--version"));
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let family = told.split_whitespace().next().unwrap().to_owned();
    let numbers = told.split_once("v=").unwrap().1;
    let mut numbers = numbers.split('.').map(|number| number.parse().unwrap());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    (family, version)
}

/// `quorate redis import` with these options for the other server.
fn import(from: &[&str], up: &Up) -> Command {
    let mut command = quorate();
    let server = server().unwrap();
    command.args(["redis", "import", &server]).args(from);
    command.args(["--endpoints", &up.urls.join(",")]);
    command
}

/// Scenario: servers that the cluster's can follow are moved into it, and others are refused before anything is begun.
#[test]
fn servers_of_other_versions_are_followed_or_refused() {
    let Some(own) = program() else {
        return;
    };
    let Some(programs) = std::env::var_os(SOURCES) else {
        println!("skipped: {SOURCES} names no servers of other versions");
        return;
    };
    let (family, number) = version(&own);
    for program in std::env::split_paths(&programs) {
        let program = program.display().to_string();
        let dir = tempfile::tempdir().unwrap();
        let source = Single::run(&program, dir, &[]).expect("a server");
        fill(&source.place);
        let home = Home::new();
        let up = home.start(&["--face", "redis", &server().unwrap()]);
        let from = ["--from", &source.place[..]];
        let is_followed = match version(&program) {
            (theirs, version) if theirs == family => version <= number,
            (theirs, version) => theirs == "Redis" && version <= FORK,
        };
        println!("{program}: to be followed: {is_followed}");
        if is_followed {
            let mut importing = Importing::start(&from, &up);
            importing.expect("following ");
            assert_eq!(Client::connect(&source.place).say("incr n"), "1");
            cut_over(&from, &up);
            executor(&up);
            assert_eq!(contents(&up.urls[1]), contents(&source.place));
            assert_eq!(Client::connect(&up.urls[0]).say("fcall f 0"), "7");
        } else {
            let says = "cannot follow it: servers follow those of their family that are no newer";
            expect_failure(&mut import(&from, &up), 1, says);
            assert_eq!(Client::connect(&up.urls[0]).say("incr a"), "1");
        }
        assert!(up.stop().success());
    }
}

/// Options of a server that keeps its data when it is killed, and has a user who may be followed by and no more.
const KEEPING: [&str; 13] = [
    "--appendonly",
    "yes",
    "--repl-diskless-sync",
    "yes",
    "--user",
    "mover",
    "on",
    ">hush",
    "resetchannels",
    "+psync",
    "+replconf",
    "+info",
    "+ping",
];

/// A server with data that can be followed by a user with a password, over TLS if it speaks that.
struct Secured {
    source: Single,
    /// The options that it was started with.
    flags: Vec<String>,
    /// The options with which it is followed.
    from: Vec<String>,
    /// The certificates and the password.
    _files: tempfile::TempDir,
}

impl Secured {
    fn start(program: &str) -> Secured {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new(files.path(), "root");
        let shown = authority.issue("source", &["127.0.0.1"], Validity::Usual);
        let port = free_ports(1).to_string();
        let tls = [
            "--tls-port",
            &port,
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            &shown.certificate.display().to_string(),
            "--tls-key-file",
            &shown.key.display().to_string(),
        ];
        let mut flags = [&KEEPING[..], &tls].concat();
        let password = files.path().join("password");
        std::fs::write(&password, "hush\n").unwrap();
        let mut from = vec![
            "--from-user=mover".to_owned(),
            format!("--from-password-file={}", password.display()),
        ];
        let dir = || tempfile::tempdir().unwrap();
        let source = match Single::run(program, dir(), &flags) {
            Some(source) => {
                from.push(format!("--from=rediss://127.0.0.1:{port}"));
                from.push(format!("--from-cacert={}", authority.path().display()));
                source
            }
            None => {
                println!("skipped: TLS to the other server, which this one does not speak");
                flags.truncate(KEEPING.len());
                let source = Single::run(program, dir(), &flags).expect("a server");
                from.push(format!("--from={}", source.place));
                source
            }
        };
        fill(&source.place);
        Secured {
            source,
            flags: flags.into_iter().map(str::to_owned).collect(),
            from,
            _files: files,
        }
    }

    /// Kills it, and starts it again with its data.
    fn restart(&mut self) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.source.restart(&flags);
    }
}

/// Scenario: the other server, behind TLS and a password, dies while it sends its data, and again later, with a replica
/// of the cluster frozen; and a cutover that would lose writes is refused.
#[test]
fn an_import_goes_on_whatever_becomes_of_the_other_server() {
    let Some(program) = program() else {
        return;
    };
    let mut secured = Secured::start(&program);
    let from = secured.from.clone();
    let from: Vec<&str> = from.iter().map(String::as_str).collect();
    let home = Home::new();
    let up = home.start(&["--face", "redis", &server().unwrap()]);

    let mut client = Client::connect(&secured.source.place);
    assert_eq!(client.say("config set rdb-key-save-delay 2000000"), "OK");
    let mut importing = Importing::start(&from, &up);
    wait_until("the other server sends its data", || {
        let told = client.say("info");
        told.contains("state=wait_bgsave") && told.contains("rdb_bgsave_in_progress:1")
    });
    secured.restart();
    importing.expect("following ");

    signal(up.pids[&1], Signal::STOP);
    let writer = Writer::start(&secured.source.place);
    writer.more(20);
    secured.restart();
    importing.expect("following ");
    drop(writer.thread.join());

    let says = "stop whoever writes to it, and say so with --writers-stopped";
    expect_failure(&mut cutover(&from, &up), 1, says);
    let writer = Writer::start(&secured.source.place);
    writer.more(1);
    let stopped = [&from[..], &["--writers-stopped"]].concat();
    expect_failure(&mut cutover(&stopped, &up), 1, "still takes writes");
    writer.is_over.store(true, Ordering::Relaxed);
    writer.thread.join().unwrap();
    let said = cut_over(&stopped, &up);
    let says = "takes writes, if anybody sends some";
    assert!(said.contains(says), "{said}");
    importing.expect("ended: ");
    signal(up.pids[&1], Signal::CONT);
    assert_eq!(contents(&up.urls[1]), contents(&secured.source.place));
    expect_equal_by(&up, contents);
    assert!(up.stop().success());
}

/// What somebody who claims to be a server sends to one who follows: of a file, so many bytes; and what is behind it.
struct Sent {
    file: Vec<u8>,
    bytes: usize,
    behind: &'static [u8],
}

impl Sent {
    fn whole(file: Vec<u8>) -> Sent {
        Sent {
            bytes: file.len(),
            file,
            behind: b"",
        }
    }
}

/// A file of this version of the format, without a checksum.
fn rdb(version: &str, body: &[u8]) -> Vec<u8> {
    [b"REDIS", version.as_bytes(), body, b"\xff", &[0; 8]].concat()
}

/// Somebody who claims to be a server, and sends one thing after another to those who follow.
fn pretend(sent: Vec<Sent>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    // It ends with the process.
    std::thread::spawn(move || {
        let mut sent = sent.into_iter();
        for stream in listener.incoming() {
            // Whoever follows leaves as it likes.
            let _ = converse(stream.unwrap(), &mut sent);
        }
    });
    place
}

fn converse(mut stream: TcpStream, sent: &mut impl Iterator<Item = Sent>) -> std::io::Result<()> {
    const ABOUT: &str = "redis_version:6.2.0\r\nloading:0\r\nrole:master\r\ncluster_enabled:0\r\n\
                         master_replid:0123456789012345678901234567890123456789\r\n\
                         master_repl_offset:100\r\n";
    let mut parser = RequestParser::new(Limits::default());
    let (mut input, mut space) = (BytesMut::new(), [0; 4096]);
    let mut follows = false;
    loop {
        while let Some(words) = parser.next(&mut input).expect("a request") {
            match &words[0][..] {
                _ if follows => {}
                b"INFO" => write!(stream, "${}\r\n{ABOUT}\r\n", ABOUT.len())?,
                b"PSYNC" => {
                    let Sent {
                        file,
                        bytes,
                        behind,
                    } = sent.next().expect("no more is asked for");
                    let id = "0123456789012345678901234567890123456789";
                    write!(stream, "+FULLRESYNC {id} 100\r\n${}\r\n", file.len())?;
                    stream.write_all(&file[..bytes])?;
                    if bytes < file.len() {
                        return Ok(());
                    }
                    stream.write_all(behind)?;
                    follows = true;
                }
                _ => stream.write_all(b"+OK\r\n")?,
            }
        }
        match stream.read(&mut space)? {
            0 => return Ok(()),
            read => input.extend_from_slice(&space[..read]),
        }
    }
}

/// Scenario: files that end too early, that are damaged, too new or make no sense end the import with one message; so
/// does a stream that is none, and the cluster serves again once the import is abandoned.
#[test]
fn what_nobody_can_load_ends_an_import_and_nothing_else() {
    let Some(server) = server() else {
        return;
    };
    let home = Home::new();
    let up = home.start(&["--face", "redis", &server]);
    let fails = |sent: Vec<Sent>, says: &str| {
        let place = pretend(sent);
        expect_failure(&mut import(&["--from", &place], &up), 1, says);
    };
    let mut damaged = rdb("0006", b"");
    *damaged.last_mut().unwrap() = 1;
    let cut = Sent {
        bytes: damaged.len() / 2,
        file: damaged.clone(),
        behind: b"",
    };
    let place = pretend(vec![cut, Sent::whole(damaged)]);
    let ended = output(&mut import(&["--from", &place], &up));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    for says in [
        "it closed the connection: trying again",
        "no whole RDB: it is damaged: its checksum",
    ] {
        assert!(
            said.contains(&format!("{place}: ")) && said.contains(says),
            "{said}"
        );
    }
    let newer = rdb("0099", b"");
    fails(vec![Sent::whole(newer)], "the server does not load it");
    // A hash in one string, whose bytes are none of one.
    let senseless = rdb("0010", b"\xfe\x00\x10\x01a\x07garbage");
    fails(vec![Sent::whole(senseless)], "the server does not load it");
    // Nothing of these was begun.
    assert_eq!(Client::connect(&up.urls[1]).say("incr a"), "1");
    assert_eq!(Client::connect(&up.urls[2]).say("del a"), "1");

    let stream = Sent {
        behind: b"hello\r\n",
        ..Sent::whole(rdb("0006", b""))
    };
    fails(vec![stream], "what came cannot be followed");
    let refused = Client::connect(&up.urls[0]).say("incr a");
    assert!(
        refused.contains("Quorate follows another server"),
        "{refused}"
    );
    let abandoned = output(quorate().args(["redis", "abandon", "--endpoints", &up.urls[0]]));
    assert!(abandoned.status.success(), "{abandoned:?}");
    // Another replica hears of it a moment later: until then it says that nothing was done, and closes.
    let mut said = String::new();
    wait_until("it is known to be abandoned", || {
        said = Client::connect(&up.urls[1]).say("incr a");
        !said.starts_with("LOADING")
    });
    assert_eq!(said, "1");
    assert!(up.stop().success());
}
