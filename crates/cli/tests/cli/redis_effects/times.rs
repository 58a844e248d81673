//! Times to live over a change of executor.

use super::faults::wait_until;
use super::{executor, start};
use crate::support::resp::Client;
use crate::support::{Home, PATIENCE, Up, output, quorate, signal};
use quorate_resp::Reply;
use rustix::process::Signal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the last key lives at first; more, where a change of executor takes longer.
const LIFE_MS: i64 = 2000;
/// Keys of one change; they end one after the other.
const KEYS: i64 = 4;
/// How often keys are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The clock of this machine, in ms since the Unix epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// How far replicas' clocks may be apart from the executor's, in whole ms, as operators are shown it.
fn shown_difference_ms(up: &Up) -> i64 {
    let status = output(quorate().args(["redis", "status", "--endpoints", &up.admin[0]]));
    let table = String::from_utf8_lossy(&status.stdout).into_owned();
    let shown = table.split_whitespace().filter_map(|word| {
        let (ahead, within) = word.split_once('±')?;
        Some((ahead.parse::<f64>().ok()?, within.parse::<f64>().ok()?))
    });
    let all: Vec<f64> = shown.map(|(ahead, within)| ahead.abs() + within).collect();
    assert_eq!(all.len(), 2, "two replicas do not execute:\n{table}");
    all.into_iter().fold(0.0, f64::max).ceil() as i64
}

/// The number that a replica answers, whichever takes the request; `turn` says who is asked first.
fn number(up: &Up, turn: usize, request: &str) -> i64 {
    let deadline = Instant::now() + PATIENCE;
    for turn in turn.. {
        assert!(Instant::now() < deadline, "nobody answers {request:?}");
        let client = Client::try_connect(&up.urls[turn % up.urls.len()]).ok();
        match client.and_then(|mut client| client.try_ask(request)) {
            Some(Reply::Integer(number)) => return number,
            Some(Reply::Error(why)) if why.starts_with("LOADING") => {}
            Some(other) => panic!("{request:?} is answered with {other:?}"),
            None => std::thread::sleep(LOOK_AGAIN),
        }
    }
    unreachable!("turns do not end");
}

/// Keys whose time ends while another replica executes than the one that set it. Returns whether one did before the
/// last of them ended.
fn outlive(up: &mut Up, life_ms: i64, change: fn(&mut Up)) -> bool {
    let early_ms = shown_difference_ms(up);
    let mut keys: Vec<(String, i64)> = Vec::new();
    let mut client = Client::connect(&up.urls[0]);
    for at in 1..=KEYS {
        let name = format!("key:{life_ms}:{at}");
        let request = format!("set {name} 1 px {}", life_ms * at / KEYS);
        assert_eq!(client.say(&request), "OK");
        let Reply::Integer(end_ms) = client.ask(&format!("pexpiretime {name}")) else {
            panic!("{name} has an end");
        };
        keys.push((name, end_ms));
    }
    drop(client);
    let last_ms = keys.last().map_or(0, |(_, end_ms)| *end_ms);
    change(up);
    let is_soon = now_ms() < last_ms;
    let (mut turn, deadline) = (0, Instant::now() + PATIENCE);
    while !keys.is_empty() {
        assert!(Instant::now() < deadline, "{keys:?} do not go");
        keys.retain(|(name, end_ms)| {
            turn += 1;
            let left = number(up, turn, &format!("pexpiretime {name}"));
            let now_ms = now_ms();
            assert!(
                left == *end_ms || left == -2,
                "{name} ends at {left}, not at {end_ms}"
            );
            let is_due = now_ms >= *end_ms - early_ms;
            assert!(
                left > 0 || is_due,
                "{name} went {} ms early",
                end_ms - now_ms
            );
            left > 0
        });
        std::thread::sleep(LOOK_AGAIN);
    }
    is_soon
}

/// Scenario: keys have a time to live, and another replica executes before it is over.
#[test]
fn keys_go_no_earlier_than_clocks_differ() {
    let home = Home::new();
    let Some(mut up) = start(&home, &["--restart"]) else {
        return;
    };
    let moves: fn(&mut Up) = |up| {
        let next = executor(up) % 3 + 1;
        let flags = [
            "redis",
            "move",
            &next.to_string(),
            "--endpoints",
            &up.admin[0],
        ];
        assert!(output(quorate().args(flags)).status.success());
    };
    let dies: fn(&mut Up) = |up| {
        let victim = executor(up);
        signal(up.pids[&victim], Signal::KILL);
        wait_until("another one executes", || {
            // Who asks for something has one claim.
            number(up, usize::from(victim), "exists none") == 0 && executor(up) != victim
        });
    };
    assert_eq!(Client::connect(&up.urls[0]).say("set a 1"), "OK");
    for change in [moves, dies] {
        let mut life_ms = LIFE_MS;
        while !outlive(&mut up, life_ms, change) {
            life_ms *= 2;
        }
    }
    assert_eq!(number(&up, 0, "exists a"), 1);
    assert!(up.stop().success());
}
