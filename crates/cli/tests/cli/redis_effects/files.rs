//! RDB files: everything that a cluster holds goes into one, and another cluster begins with it.

use super::{digest, expect_equal_servers};
use crate::support::real_server::server;
use crate::support::resp::Client;
use crate::support::{Home, Up, expect_failure, output, quorate};

/// A time to live that nobody who reads this sees the end of.
const LASTING_MS: &str = "4102444800000";
/// Elements of what is too large to be packed.
const MANY: usize = 1500;

/// `quorate redis export` to a file of this name; its path.
pub(super) fn export(home: &Home, up: &Up, name: &str) -> String {
    let path = home.dir.with_file_name(name).display().to_string();
    let exported = output(quorate().args(["redis", "export", &path, "--endpoints", &up.urls[1]]));
    let said = String::from_utf8_lossy(&exported.stdout).into_owned()
        + &String::from_utf8_lossy(&exported.stderr);
    let is_written = exported.status.success() && said.contains("exported: ");
    assert!(is_written, "{said}");
    path
}

/// A cluster in a new folder that begins with a file.
fn import(flags: &[&str], path: &str) -> (Home, Up) {
    let home = Home::new();
    let all = [&["--face", "redis", "--import", path], flags].concat();
    let up = home.start(&all);
    (home, up)
}

/// `quorate up` with a file and these flags begins nothing, and says why.
fn expect_refused(flags: &[&str], path: &str, says: &str) {
    let home = Home::new();
    let dir = home.dir.display().to_string();
    let up = [
        "up",
        "--face",
        "redis",
        "--data-dir",
        &dir,
        "--import",
        path,
    ];
    expect_failure(quorate().args(up).args(flags), 1, says);
}

/// Values of every type that the embedded store has, small and large, with and without an end.
fn fill(client: &mut Client, long: &str) {
    for words in [
        "set a 1",
        &format!("set long {long}"),
        "rpush list a 2 b",
        "sadd ints 3 1 2",
        "sadd names a b 3",
        "hset hash f 1 g 2",
        "zadd sorted 1.5 m inf n",
        "set fleeting 1 px 1",
        &format!("set lasting 1 pxat {LASTING_MS}"),
        "select 9",
        "set other 1",
        "select 0",
    ] {
        let said = client.say(words);
        assert!(!said.starts_with("ERR"), "{words}: {said}");
    }
    let all = |each: fn(usize) -> String| (0..MANY).map(each).collect::<String>();
    for words in [
        format!("rpush many{}", all(|at| format!(" {at}"))),
        format!("hset fields{}", all(|at| format!(" {at} v{at}"))),
        format!("zadd scores{}", all(|at| format!(" {at}.25 {at}"))),
    ] {
        assert_eq!(client.say(&words), MANY.to_string());
    }
}

/// What [`fill`] has put is there, but what was fleeting.
fn expect_filled(url: &str, long: &str) {
    let mut client = Client::connect(url);
    for words in ["llen many", "hlen fields", "zcard scores"] {
        assert_eq!(client.say(words), MANY.to_string(), "{words}");
    }
    for (words, said) in [
        ("get long", long),
        ("exists fleeting", "0"),
        ("pexpiretime lasting", LASTING_MS),
        ("zscore sorted n", "inf"),
        ("lindex list 1", "2"),
        ("scard ints", "3"),
        ("hget hash g", "2"),
        ("select 9", "OK"),
        ("get other", "1"),
    ] {
        assert_eq!(client.say(words), said, "{words}");
    }
}

/// Scenario: all that the embedded store holds goes to real servers, and from there back.
#[test]
fn everything_goes_into_a_file_and_begins_another_cluster() {
    let Some(server) = server() else {
        return;
    };
    let (home, long) = (Home::new(), "x".repeat(100_000));
    let embedded = home.start(&["--face", "redis"]);
    fill(&mut Client::connect(&embedded.urls[0]), &long);
    let path = export(&home, &embedded, "embedded.rdb");
    expect_failure(
        quorate().args(["redis", "export", &path, "--endpoints", &embedded.urls[0]]),
        2,
        "the file is there already",
    );
    assert!(embedded.stop().success());

    let (effects_home, effects) = import(&[&server], &path);
    expect_filled(&effects.urls[1], &long);
    expect_equal_servers(&effects);
    let again = export(&home, &effects, "effects.rdb");
    assert!(effects.stop().success());
    let dir = effects_home.dir.display().to_string();
    expect_failure(
        quorate().args(["up", "--data-dir", &dir, "--import", &again]),
        2,
        "was begun already",
    );

    let (_back_home, back) = import(&[], &again);
    expect_filled(&back.urls[2], &long);
    assert!(back.stop().success());
}

/// Scenario: real servers pass on what only they have, and what is damaged or of no use begins nothing.
#[test]
fn functions_and_streams_go_from_server_to_server() {
    let Some(server) = server() else {
        return;
    };
    let home = Home::new();
    let first = home.start(&["--face", "redis", &server]);
    let mut client = Client::connect(&first.urls[0]);
    let code = "#!lua name=l\nredis.register_function('f',function()return(7)end)";
    let mut request = Vec::new();
    quorate_resp::encode_request(&["FUNCTION", "LOAD", code], &mut request);
    client.send(&request);
    let loaded = client.next().and_then(|reply| reply.text());
    assert_eq!(loaded.as_deref(), Some("l"));
    assert_eq!(client.say("xadd orders 1-1 f v"), "1-1");
    let before = digest(&first.urls[0]);
    let path = export(&home, &first, "servers.rdb");
    assert!(first.stop().success());

    let (_next_home, next) = import(&[&server], &path);
    let mut client = Client::connect(&next.urls[2]);
    assert_eq!(client.say("fcall f 0"), "7");
    assert_eq!(client.say("xlen orders"), "1");
    assert_eq!(digest(&next.urls[0]), before);
    expect_equal_servers(&next);
    assert!(next.stop().success());

    expect_refused(
        &[],
        &path,
        "functions, which Quorate's own store does not have; a real server takes the file as it is",
    );
    let mut damaged = std::fs::read(&path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    expect_refused(&[&server], &path, "it is damaged");
}
