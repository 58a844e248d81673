//! The calls that may be logged as they are: those that come to the same on every server.

use bytes::Bytes;

/// Commands whose outcome is chosen by chance.
const BY_CHANCE: [&str; 1] = ["spop"];
/// Commands that give a key an end.
const BY_CLOCK: [&str; 6] = [
    "expire",
    "expireat",
    "pexpire",
    "pexpireat",
    "psetex",
    "setex",
];
/// Commands that messages go by.
const MESSAGES: [&str; 5] = ["psubscribe", "publish", "pubsub", "spublish", "subscribe"];
/// Commands that wait for elements.
const WAITING: [&str; 8] = [
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
];

/// Words of `SET` that give a key an end.
const SET_ENDS: [&str; 4] = ["ex", "px", "exat", "pxat"];

/// What has the command that is refused.
const ELSEWHERE: &str = "a cluster begun with --redis-mode effects has it";

/// Why a call is not taken in command mode; `None` if it is. `name` is the command's, in small letters.
#[must_use]
pub fn refused(name: &str, args: &[Bytes]) -> Option<String> {
    let is_one_of = |names: &[&str]| names.contains(&name);
    let why = if is_one_of(&BY_CHANCE) || stores_any_order(name, args) {
        "has an outcome that every replica would choose for itself"
    } else if is_one_of(&BY_CLOCK) || ends_a_key(name, args) {
        "depends on the clock of each replica"
    } else if is_one_of(&MESSAGES) {
        "sends or takes messages, which command mode does not carry"
    } else if is_one_of(&WAITING) {
        "waits for elements, which command mode does not"
    } else {
        return None;
    };
    Some(format!("ERR '{name}' {why}; {ELSEWHERE}"))
}

/// Whether the words of a command that need not give a key an end do so.
fn ends_a_key(name: &str, args: &[Bytes]) -> bool {
    let is_word = |arg: &Bytes, words: &[&str]| {
        let mut words = words.iter();
        words.any(|word| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    match name {
        "set" => args.iter().skip(3).any(|arg| is_word(arg, &SET_ENDS)),
        "getex" => args.iter().skip(2).any(|arg| !is_word(arg, &["persist"])),
        _ => false,
    }
}

/// Whether what is stored may have any order: a set sorted by words of other keys, where some of those are equal.
fn stores_any_order(name: &str, args: &[Bytes]) -> bool {
    if name != "sort" {
        return false;
    }
    let (mut by_words, mut is_by_keys, mut stores) = (false, false, false);
    let mut options = args.iter().skip(2);
    while let Some(option) = options.next() {
        match &option.to_ascii_lowercase()[..] {
            b"alpha" => by_words = true,
            b"by" => {
                let pattern = options.next();
                is_by_keys = pattern.is_some_and(|pattern| pattern.contains(&b'*'));
            }
            b"store" => {
                options.next();
                stores = true;
            }
            b"get" => drop(options.next()),
            b"limit" => drop(options.nth(1)),
            _ => {}
        }
    }
    by_words && is_by_keys && stores
}

/// Why a command is not taken that the table does not have, though Redis has it.
#[must_use]
pub fn missing(name: &str) -> String {
    format!("ERR command mode has no '{name}'; {ELSEWHERE}")
}

/// Whether a call chooses a database.
pub(crate) fn is_select(args: &[Bytes]) -> bool {
    (args.first()).is_some_and(|name| name.eq_ignore_ascii_case(b"select"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(call: &str) -> Option<String> {
        let args: Vec<Bytes> = call
            .split(' ')
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect();
        let name = String::from_utf8_lossy(&args[0]).to_lowercase();
        refused(&name, &args)
    }

    #[test]
    fn what_servers_would_choose_for_themselves_is_refused() {
        for (call, says) in [
            (
                "SPOP s",
                "ERR 'spop' has an outcome that every replica would choose",
            ),
            (
                "SORT s LIMIT 0 1 BY w* GET alpha ALPHA store l",
                "ERR 'sort' has an outcome that every replica would choose",
            ),
            ("EXPIRE a 1", "ERR 'expire' depends on the clock"),
            ("SET a 1 NX PX 5", "ERR 'set' depends on the clock"),
            ("GETEX a EX 1", "ERR 'getex' depends on the clock"),
            ("PUBLISH c m", "ERR 'publish' sends or takes messages"),
            ("BLPOP l 0", "ERR 'blpop' waits for elements"),
        ] {
            let text = why(call).unwrap_or_default();
            assert!(
                text.starts_with(says) && text.ends_with("effects has it"),
                "{text}"
            );
        }
        for call in [
            "SET a EX",
            "SET a 1 NX",
            "GETEX a PERSIST",
            "INCR a",
            "SRANDMEMBER s",
            "SORT s BY w* ALPHA",
            "SORT s BY w* STORE l",
            "SORT s BY nosort ALPHA STORE l",
            "SORT s BY w* GET alpha STORE l",
        ] {
            assert_eq!(why(call), None, "{call}");
        }
    }
}
