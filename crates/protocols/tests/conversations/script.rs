//! The language of conversations. A line is a command, a comment (`#`), empty, or, indented, what
//! the commands before it led to: that part is recorded.

use crate::stage::{Packet, Stage, text_of};
use quorate_core::{Boot, Class, Group, Input, SECONDS, Seat, Slot, coin};
use quorate_protocols::Protocol;
use quorate_testkit::{epoch, id};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lines shown of a conversation that ends before its time.
const CONTEXT_LINES: usize = 12;
/// A cluster that has not come to rest after this time is stuck.
const SETTLED_NS: u64 = 20 * SECONDS;

/// Plays a script; gives the same with what happens in it, or what is wrong with a line.
pub(crate) fn play<P: Protocol>(script: &str) -> Result<String, String> {
    let mut player = Player::<P> { stage: None };
    let mut played = String::new();
    let commands = script.lines().filter(|line| !line.starts_with(' '));
    for line in commands {
        played.push_str(line);
        played.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let result = catch_unwind(AssertUnwindSafe(|| player.command(line)));
        let result = result.unwrap_or_else(|panic| player.panicked(&panic));
        let context = |why| {
            let from = played.lines().count().saturating_sub(CONTEXT_LINES);
            let before: Vec<&str> = played.lines().skip(from).collect();
            let before = before.join("\n    ");
            format!("{why}\n  It went so far:\n    {before}")
        };
        result.map_err(context)?;
        for line in player.take_lines() {
            played.push_str(&format!("  {line}\n"));
        }
    }
    match &player.stage {
        Some(stage) if !stage.watch.violations.is_empty() => Err(format!(
            "it ends in a violation: {}",
            stage.watch.violations[0]
        )),
        _ => Ok(played),
    }
}

struct Player<P: Protocol> {
    stage: Option<Stage<P>>,
}

impl<P: Protocol> Player<P> {
    fn take_lines(&mut self) -> Vec<String> {
        self.stage
            .as_mut()
            .map(|stage| std::mem::take(&mut stage.watch.lines))
            .unwrap_or_default()
    }

    /// A broken lemma ends a conversation like any other violation.
    fn panicked(&mut self, panic: &Box<dyn std::any::Any + Send>) -> Result<(), String> {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let text = text.unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let lemma = first.split(": ").next().unwrap_or_default();
        match &mut self.stage {
            Some(stage) => stage.watch.violate(lemma.to_string()),
            None => return Err(text),
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "cluster" {
            self.stage = Some(cluster::<P>(&words[1..])?);
            return Ok(());
        }
        let stage = self.stage.as_mut().ok_or("the first command is cluster")?;
        let count = stage.count();
        let one = |at: usize| replica(count, words.get(at).copied());
        match words[0] {
            "submit" => stage.submit(one(1)?, Class::Write, words.get(2) == Some(&"long")),
            "read" => stage.submit(one(1)?, Class::Read, false),
            "gather" => match stage.gather(one(1)?) {
                true => {}
                false => return Err("it wants nothing gathered".into()),
            },
            "deliver" => chosen(stage, &words[1..])?
                .into_iter()
                .for_each(|n| stage.deliver(n)),
            "lose" => {
                let lost = chosen(stage, &words[1..])?;
                stage.wire.retain(|packet| !lost.contains(&packet.number));
            }
            "repeat" => chosen(stage, &words[1..])?
                .into_iter()
                .for_each(|n| stage.repeat(n)),
            "fire" => {
                let (me, name) = (one(1)?, words.get(2).copied().unwrap_or_default());
                let timer = stage.timer(me, name).ok_or("it waits for no such thing")?;
                stage.fire(me, timer);
            }
            "durable" => stage.flush(one(1)?),
            "disk" => {
                let me = one(1)?;
                stage.set_slow(me, words.get(2) == Some(&"slow"));
            }
            "crash" => stage.crash(one(1)?),
            "restart" => match words.get(2) {
                Some(&"lost") => stage.lose_disk(one(1)?),
                _ => stage.restart(one(1)?),
            },
            "link" => {
                let (me, peer) = (one(1)?, one(2)?);
                let (peer, up) = (id(peer), words.get(3) == Some(&"up"));
                stage.step(me, Input::Link { peer, up });
            }
            "clock" => {
                let (me, ms) = (one(1)?, number(words.get(2).copied())?);
                stage.nodes[me].clock_ns = ms * 1_000_000;
            }
            "wait" => {
                let ms = number(words.get(1).copied())?.unsigned_abs();
                stage.now_ns += ms * 1_000_000;
            }
            "settle" => settle(stage),
            "show" => {
                let facts = stage.facts(one(1)?);
                stage.watch.lines.extend(facts);
            }
            "expect" => expect(stage, &words[1..])?,
            other => return Err(format!("there is no command {other}")),
        }
        Ok(())
    }
}

/// `cluster N [mutant=NAME] [coin=BITS] [disk=slow] [PARAMETER=VALUE]...`
fn cluster<P: Protocol>(words: &[&str]) -> Result<Stage<P>, String> {
    let n: usize = words
        .first()
        .and_then(|n| n.parse().ok())
        .ok_or("how many replicas?")?;
    let (mut sabotage, mut is_slow) = (None, false);
    let mut epoch = epoch(P::NAME, n, &[]);
    for word in &words[1..] {
        match word.split_once('=').ok_or("a parameter is NAME=VALUE")? {
            ("mutant", name) => {
                let mutant = P::mutants().into_iter().find(|mutant| mutant.name == name);
                sabotage = Some(mutant.ok_or("there is no such mutant")?.sabotage);
            }
            ("disk", how) => is_slow = how == "slow",
            ("coin", bits) => epoch.seed = seed_for(bits),
            (name, value) => {
                epoch.params.insert(name.into(), value.into());
            }
        }
    }
    let seats = (0..n).map(|index| Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me: id(index),
        boot: Boot(0),
    });
    let seats: Vec<Seat> = seats.collect();
    for seat in &seats {
        P::config(seat)?;
    }
    Ok(Stage::new(seats, is_slow, sabotage))
}

/// The first seed with which slot 0 tosses these in its first phases.
fn seed_for(bits: &str) -> u64 {
    let fits = |seed: &u64| {
        let mut phases = (1..).zip(bits.bytes());
        phases.all(|(phase, bit)| coin(*seed, 1, Slot(0), phase) == (bit == b'1'))
    };
    (0..)
        .find(fits)
        .expect("every sequence of coins has a seed")
}

fn replica(count: usize, word: Option<&str>) -> Result<usize, String> {
    let number: Option<usize> = word.and_then(|word| word.parse().ok());
    let number = number.filter(|number| (1..=count).contains(number));
    number
        .map(|number| number - 1)
        .ok_or("which replica?".into())
}

fn number(word: Option<&str>) -> Result<i64, String> {
    let word = word.and_then(|word| word.strip_suffix("ms"));
    let number = word.and_then(|word| word.parse().ok());
    number.ok_or("how many ms?".into())
}

/// Which packets: `#7`, `all [BEGINNING]`, or `FROM TO [first|last] [BEGINNING]`; a star is
/// anybody. Only what is on its way when the command begins.
fn chosen<P: Protocol>(stage: &Stage<P>, words: &[&str]) -> Result<Vec<u64>, String> {
    let (from, to, rest) = match words {
        [number] if number.starts_with('#') => {
            let number: u64 = number[1..].parse().map_err(|_| "no number")?;
            return Ok(vec![number]);
        }
        ["all", rest @ ..] => (None, None, rest),
        [from, to, rest @ ..] => {
            let who = |word: &str| match word {
                "*" => Ok(None),
                word => replica(stage.count(), Some(word)).map(Some),
            };
            (who(from)?, who(to)?, rest)
        }
        _ => return Err("which packets?".into()),
    };
    let (which, rest) = match rest {
        [which @ ("first" | "last"), rest @ ..] => (*which, rest),
        rest => ("all", rest),
    };
    let begins = rest.join(" ");
    let is_it = |packet: &&Packet<P>| {
        from.is_none_or(|from| packet.from == from)
            && to.is_none_or(|to| packet.to == to)
            && text_of::<P>(packet).starts_with(&begins)
    };
    let found = stage.wire.iter().filter(is_it);
    let mut found: Vec<u64> = found.map(|packet| packet.number).collect();
    match which {
        "first" => found.truncate(1),
        "last" => found = found.split_off(found.len().saturating_sub(1)),
        _ => {}
    }
    if found.is_empty() {
        return Err("nothing of that kind is on its way".into());
    }
    Ok(found)
}

/// Everything arrives, and every timer fires in its time, until nothing is left; of what happens,
/// only what clients and operators would see is recorded.
fn settle<P: Protocol>(stage: &mut Stage<P>) {
    for me in 0..stage.count() {
        stage.set_slow(me, false);
    }
    let mut began_ns = None;
    loop {
        while let Some(number) = stage.wire.front().map(|packet| packet.number) {
            stage.deliver(number);
        }
        if (0..stage.count()).any(|me| stage.gather(me)) {
            continue;
        }
        let Some(now_ns) = stage.fire_next() else {
            stage.blame_silence();
            break;
        };
        if now_ns > *began_ns.get_or_insert(now_ns) + SETTLED_NS {
            stage.watch.violate("it does not come to rest".into());
            break;
        }
    }
    let seen = ["delivers", "answers", "VIOLATION", "rejoined"];
    stage
        .watch
        .lines
        .retain(|line| seen.iter().any(|word| line.contains(word)));
}

/// `expect [not] REPLICA FACT`, `expect all FACT`, `expect silence`, `expect violation WHAT`: the last one
/// is the only way in which a conversation with a violation passes.
fn expect<P: Protocol>(stage: &mut Stage<P>, words: &[&str]) -> Result<(), String> {
    let (is_wanted, words) = match words {
        ["not", words @ ..] => (false, words),
        words => (true, words),
    };
    let (first, rest) = words.split_first().ok_or("expect what?")?;
    let what = rest.join(" ");
    match *first {
        "silence" if stage.wire.is_empty() => return Ok(()),
        "silence" => return Err(format!("{} packets are on their way", stage.wire.len())),
        "violation" => {
            let found = stage
                .watch
                .violations
                .drain(..)
                .find(|found| found.contains(&what));
            return found
                .map(|_| ())
                .ok_or_else(|| "there was none such".into());
        }
        _ => {}
    }
    let nodes = match *first {
        "all" => (0..stage.count()).collect(),
        one => vec![replica(stage.count(), Some(one))?],
    };
    for me in nodes {
        let facts = stage.facts(me);
        if facts.iter().any(|fact| fact.contains(&what)) != is_wanted {
            let facts = facts.join("\n    ");
            return Err(format!("of replica {} this is true:\n    {facts}", me + 1));
        }
    }
    Ok(())
}
