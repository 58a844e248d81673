//! A running server whose data is brought into Quorate's own store, while clients write to it.

use super::files::export;
use super::server;
use super::single::{
    Importing, Single, Writer, contents, cut_over_counting, cutover, fill_own, follow_through_kills,
};
use crate::support::resp::Client;
use crate::support::{Home, Up, expect_failure, output, quorate};
use std::process::Command;

/// Scenario: replicas and the import itself are killed while a client writes to the server that is followed; then the
/// cluster takes over, with everything that was acknowledged there.
#[test]
fn the_own_store_follows_a_running_server_and_takes_over() {
    let Some(source) = Single::start(&[]) else {
        return;
    };
    fill_own(&source.place);
    let writer = Writer::start(&source.place);
    let home = Home::new();
    let mut up = home.start(&["--face", "redis", "--restart"]);
    let mut importing = Importing::start_own(&["--from", &source.place], &up);
    importing.expect("following ");
    writer.more(20);

    for words in ["get n", "set a 1"] {
        let refused = Client::connect(&up.urls[1]).say(words);
        let says = "until `quorate redis cutover`, nothing was done";
        assert!(refused.contains(says), "{refused}");
    }
    let status = status(&up);
    let says = "everything of another server is here";
    assert!(status.contains(says), "{status}");
    let start = |up: &Up| Importing::start_own(&["--from", &source.place], up);
    let importing = follow_through_kills(importing, start, &mut up, &writer);
    let counted = cut_over_counting(&source, &up, importing, &writer);

    let copy = Single::load(&export(&home, &up, "moved.rdb"));
    assert_eq!(contents(&copy.place), contents(&source.place));
    let mut here = Client::connect(&up.urls[2]);
    assert_eq!(here.say("pexpiretime lasting"), "4102444800000");
    assert_eq!(here.say("incr n"), (counted + 1).to_string());
    assert_eq!(here.say("select 9"), "OK");
    assert_eq!(here.say("incr other"), "2");
    assert!(up.stop().success());
    drop(source);
    drop(writer.thread.join());
}

/// Scenario: the other server holds, and then does, what the own store does not have. Both are named; an import can be
/// begun anew, or given up.
#[test]
fn what_the_own_store_does_not_have_is_named() {
    let Some(source) = Single::start(&[]) else {
        return;
    };
    let mut there = Client::connect(&source.place);
    assert_eq!(there.say("set a 1"), "OK");
    assert_eq!(there.say("xadd orders 1-1 f v"), "1-1");
    let home = Home::new();
    let up = home.start(&["--face", "redis"]);
    let import = || command(&["import", "--from", &source.place], &up);
    let mut here = Client::connect(&up.urls[0]);
    assert_eq!(here.say("set mine 1"), "OK");
    expect_failure(&mut import(), 1, "the cluster has data already");
    assert_eq!(here.say("del mine"), "1");
    expect_failure(&mut import(), 1, "key \"orders\"");
    let option = server().unwrap();
    let says = "the data of this cluster is in a store of Quorate's own: leave --redis-server";
    expect_failure(import().arg(option), 2, says);
    assert_eq!(here.say("dbsize"), "0", "nothing was begun");
    expect_failure(
        &mut cutover(&["--from", &source.place], &up),
        1,
        "follows no other server",
    );

    assert_eq!(there.say("del orders"), "1");
    let mut importing = Importing::start_own(&["--from", &source.place], &up);
    importing.expect("following ");
    assert_eq!(there.say("XADD orders 2-1 f v"), "2-1");
    let says = "the other server did \"XADD orders\", which fails here: ERR the embedded store has no command";
    let why = importing.failure();
    assert!(why.contains(says), "{why}");
    expect_failure(&mut cutover(&["--from", &source.place], &up), 1, says);
    assert!(status(&up).contains(says));
    let file = home.dir.join("half.rdb").display().to_string();
    expect_failure(
        &mut command(&["export", &file], &up),
        1,
        "is being brought over",
    );
    assert!(here.say("get a").contains("follows another server"));

    assert_eq!(there.say("del orders"), "1");
    let mut importing = Importing::start_own(&["--from", &source.place], &up);
    importing.expect("following ");
    // One who has not heard of it does not begin again.
    let abandoned = output(&mut command(&["abandon"], &up));
    assert!(abandoned.status.success(), "{abandoned:?}");
    importing.expect("ended: ");
    assert_eq!(here.say("get a"), "(nil)");
    assert_eq!(here.say("incr a"), "1");
    assert!(up.stop().success());
}

/// Scenario: a replica runs a program that does not know of such imports.
#[test]
fn all_replicas_have_to_know_what_is_followed() {
    let Some(source) = Single::start(&[]) else {
        return;
    };
    let home = Home::new();
    let up = home.start(&["--face", "redis", "--server-arg=--wire-version=7"]);
    let says = "this replica speaks as an older program does (--wire-version 7)";
    expect_failure(
        &mut command(&["import", "--from", &source.place], &up),
        1,
        says,
    );
    assert_eq!(Client::connect(&up.urls[0]).say("incr a"), "1");
    assert!(up.stop().success());
}

/// A subcommand of `quorate redis` for the cluster.
fn command(args: &[&str], up: &Up) -> Command {
    let mut command = quorate();
    command.arg("redis").args(args);
    command.args(["--endpoints", &up.urls[1]]);
    command
}

fn status(up: &Up) -> String {
    let status = output(&mut command(&["status"], up));
    String::from_utf8_lossy(&status.stdout).into_owned()
}
