//! Conversations that were recorded with a Redis 7.0: a line for each call, then one with its reply.
//!
//! `## name` begins a conversation with an empty server, `@3` goes on in the third version of the protocol, `> words`
//! is a call; the reply is the line behind it, escaped.

use super::differential::are_alike;
use super::ours::{Ours, words};
use super::server::Server;
use bytes::Bytes;
use quorate_resp::Resp;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Set to write the replies of a Redis into the conversations.
const RECORD: &str = "QUORATE_RECORD";

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/conversations");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = files
        .map(|file| file.expect("it can be read").path())
        .collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Goes through a conversation: what to do where one begins and where the version changes, and with each call, which
/// may say what to write as its reply.
fn walk(
    text: &str,
    mut turn: impl FnMut(&str),
    mut call: impl FnMut(&[Bytes], Option<&str>) -> Option<String>,
) -> String {
    let mut written = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(written, "{line}");
        if line.starts_with("## ") || line.starts_with('@') {
            turn(line);
        }
        let Some(asked) = line.strip_prefix("> ") else {
            continue;
        };
        let has_reply =
            |next: &&str| next.starts_with(['+', '-', ':', '$', '*', '%', '~', ',', '_']);
        let reply = lines.next_if(has_reply);
        let told = call(&words(asked), reply);
        let _ = writeln!(written, "{}", told.as_deref().or(reply).unwrap_or_default());
    }
    written
}

#[test]
fn conversations_are_answered_as_redis_did() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for path in files() {
        let ours = std::cell::RefCell::new(Ours::new());
        let name = path.file_name().unwrap_or_default().display().to_string();
        let turn = |line: &str| match line {
            "@3" => ours.borrow_mut().resp = Resp::Three,
            _ => *ours.borrow_mut() = Ours::new(),
        };
        walk(&read(&path), turn, |args, recorded| {
            let recorded = recorded.unwrap_or_else(|| panic!("{name}: {args:?} has no reply"));
            let here = ours.borrow_mut().call(args);
            let there = unescape(recorded);
            count += 1;
            if !are_alike(args, &here, &there) {
                wrong.push(format!(
                    "{name}: {args:?}\nhere:  {}\nredis: {recorded}",
                    here.escape_ascii()
                ));
            }
            None
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 0, "there are conversations");
}

#[test]
#[ignore = "needs a Redis 7.0: REDIS_SERVER, and QUORATE_RECORD to write"]
fn conversations_are_those_of_redis() {
    let Some(redis) = Server::start() else {
        panic!("REDIS_SERVER names no program");
    };
    let redis = std::cell::RefCell::new(redis);
    let say = |line: &str| redis.borrow_mut().call(&words(line));
    let records = std::env::var_os(RECORD).is_some();
    for path in files() {
        let turn = |line: &str| match line {
            "@3" => drop(say("hello 3")),
            _ => {
                say("hello 2");
                say("flushall");
            }
        };
        let before = read(&path);
        let after = walk(&before, turn, |args, recorded| {
            let told = redis.borrow_mut().call(args);
            let is_as_recorded =
                recorded.is_some_and(|recorded| are_alike(args, &told, &unescape(recorded)));
            (!is_as_recorded).then(|| told.escape_ascii().to_string())
        });
        if records {
            std::fs::write(&path, after).expect("files of this crate can be written");
        } else {
            assert_eq!(before, after, "{}", path.display());
        }
    }
}

/// The bytes that `escape_ascii` wrote.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, width) = match rest {
            [b'r', ..] => (b'\r', 1),
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'x', high, low, ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                (u8::from_str_radix(digits, 16).expect("two digits"), 3)
            }
            [other, ..] => (*other, 1),
            [] => panic!("{text} ends within an escape"),
        };
        bytes.push(byte);
        rest = &rest[width..];
    }
    bytes
}
