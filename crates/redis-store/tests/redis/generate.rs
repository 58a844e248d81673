//! Random calls: of few keys and members, so that they meet.

use bytes::Bytes;
use fastrand::Rng;

/// Calls with gaps; a `|` separates what a gap may be.
const TEMPLATES: &str = include_str!("templates.txt");

/// A random call. About one of ten has something wrong with it.
pub(crate) fn call(rng: &mut Rng, lines: &[&'static str]) -> Vec<Bytes> {
    let line = lines[rng.usize(..lines.len())];
    let mut args: Vec<Bytes> = Vec::new();
    for word in line.split(' ') {
        args.extend(fill(rng, word).map(Bytes::from));
    }
    // What is told of these depends on more than the call, or they would go on for very long.
    let must_stay = ["ZADD {x}", "SPOP", "SELECT", "HRAND", "SRAND", "ZRAND"];
    let must_stay = must_stay.iter().any(|begin| line.starts_with(begin));
    match rng.u8(..60) {
        _ if must_stay => {}
        0 if args.len() > 2 => drop(args.pop()),
        1 => args.push(Bytes::from(value(rng))),
        2 if args.len() > 1 => {
            let at = rng.usize(1..args.len());
            args[at] = Bytes::from(value(rng));
        }
        3 if args.len() > 1 => {
            let at = rng.usize(1..args.len());
            args[at] = Bytes::from(any_key(rng));
        }
        _ => {}
    }
    args
}

/// Calls that make collections so large that they are kept as trees.
pub(crate) fn large_collections() -> Vec<Vec<Bytes>> {
    let begins = ["RPUSH l0", "SADD t0", "HSET h0", "ZADD z0", "ZADD x0"];
    let calls = begins.iter().map(|begin| {
        let words = begin
            .split(' ')
            .map(|word| Bytes::from_static(word.as_bytes()));
        let mut args: Vec<Bytes> = words.collect();
        for number in 0..700 {
            let score = if begin.ends_with("x0") {
                0
            } else {
                number % 50
            };
            if begin.starts_with('Z') {
                args.push(score.to_string().into());
            }
            args.push(number.to_string().into());
            if begin.starts_with('H') {
                args.push("value".into());
            }
        }
        args
    });
    calls.collect()
}

/// The templates of calls that these kinds of gaps do not occur in.
pub(crate) fn templates() -> Vec<&'static str> {
    let lines = TEMPLATES.lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// A word of a template: itself, or what its gap is filled with; nothing for an option that is left out.
fn fill(rng: &mut Rng, word: &str) -> Option<String> {
    let Some(gap) = word
        .strip_prefix('{')
        .and_then(|word| word.strip_suffix('}'))
    else {
        return Some(word.to_owned());
    };
    Some(match gap {
        "k" => any_key(rng),
        "s" | "l" | "h" | "t" | "z" if rng.u8(..40) == 0 => any_key(rng),
        // All scores of those called x are equal.
        "s" | "l" | "h" | "t" | "z" | "x" => format!("{gap}{}", rng.u8(..3)),
        "v" => value(rng),
        "m" => member(rng),
        "i" => rng.i64(-6..7).to_string(),
        "n" => rng.i64(0..5).to_string(),
        "count" => rng.i64(1..60).to_string(),
        "bit" => rng.i64(0..70).to_string(),
        "f" => float(rng),
        "lex" => match rng.u8(..6) {
            0 => "-".into(),
            1 => "+".into(),
            2 => format!("({}", member(rng)),
            _ => format!("[{}", member(rng)),
        },
        "score" => match rng.u8(..6) {
            0 => "-inf".into(),
            1 => "+inf".into(),
            2 => format!("({}", float(rng)),
            _ => float(rng),
        },
        // So far away that nothing ends while a test runs.
        "end" => (33_177_117_420 + rng.i64(..100)).to_string(),
        "endms" => (33_177_117_420_000 + rng.i64(..100_000)).to_string(),
        options => {
            let options: Vec<&str> = options.split('|').collect();
            let option = options[rng.usize(..options.len())];
            return (!option.is_empty()).then(|| option.to_owned());
        }
    })
}

fn any_key(rng: &mut Rng) -> String {
    let kind = ["s", "l", "h", "t", "z"][rng.usize(..5)];
    format!("{kind}{}", rng.u8(..3))
}

fn member(rng: &mut Rng) -> String {
    match rng.u8(..12) {
        0..5 => ["a", "b", "c", "d", "ab", "aa", "B", "e"][rng.usize(..8)].to_owned(),
        5..10 => rng.i64(-4..12).to_string(),
        10 => format!("member{}", rng.u8(..)),
        _ => value(rng),
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.u8(..14) {
        0..4 => rng.i64(-20..100).to_string(),
        4 => float(rng),
        5 => String::new(),
        6 => "x".repeat(rng.usize(40..80)),
        7 => i64::MAX.to_string(),
        8 => rng.i64(..).to_string(),
        9 => "two words".into(),
        10 => "foobar".into(),
        11 => "+5".into(),
        _ => ["hello", "Hello", "abcabc", "bca", "\n", "007"][rng.usize(..6)].to_owned(),
    }
}

fn float(rng: &mut Rng) -> String {
    match rng.u8(..10) {
        0..4 => rng.i64(-5..6).to_string(),
        4..7 => format!("{}.{}", rng.i64(-3..4), rng.u8(..100)),
        7 => format!("{}e{}", rng.i64(-9..10), rng.i64(-3..6)),
        8 => "0.1".into(),
        _ => ["inf", "-inf", "1e17", "3.0"][rng.usize(..4)].to_owned(),
    }
}
