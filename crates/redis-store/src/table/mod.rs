//! The table of commands: names, numbers of arguments, flags, keys.

mod entries;

use entries::{COMMANDS, ELSEWHERE};

use crate::context::{Exec, View};
use crate::fault::Done;
use crate::reply::Reply;
use bytes::Bytes;
use std::collections::BTreeSet;

/// What a command belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Group {
    Bitmap,
    Connection,
    Generic,
    Hash,
    List,
    PubSub,
    Server,
    Set,
    SortedSet,
    String,
}

impl Group {
    /// The group's name in `COMMAND DOCS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Hash => "hash",
            Group::List => "list",
            Group::PubSub => "pubsub",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::String => "string",
        }
    }
}

const WRITE: u16 = 1;
const READONLY: u16 = 1 << 1;
const DENYOOM: u16 = 1 << 2;
const PUBSUB: u16 = 1 << 3;
const LOADING: u16 = 1 << 4;
const STALE: u16 = 1 << 5;
const FAST: u16 = 1 << 6;
const MOVABLE: u16 = 1 << 7;
/// The result may depend on when it is carried out. No flag of Redis.
const TIMED: u16 = 1 << 15;

const FLAG_NAMES: [(u16, &str); 8] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (PUBSUB, "pubsub"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (FAST, "fast"),
    (MOVABLE, "movablekeys"),
];

/// How a command runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Read(fn(&View<'_>, &[Bytes], &mut Reply) -> Done),
    Write(fn(&mut Exec<'_>, &[Bytes], &mut Reply) -> Done),
}

/// A command of the store.
#[derive(Debug)]
pub struct Command {
    /// The command's name, in lower case.
    pub name: &'static str,
    /// The number of arguments with the name; at least so many if negative.
    pub arity: i32,
    /// The position of the first key; 0 if there is none at a fixed place.
    pub first: i32,
    /// The position of the last key; from the end if negative.
    pub last: i32,
    /// Positions from one key to the next.
    pub step: i32,
    /// The group that the command belongs to.
    pub group: Group,
    /// The version of Redis that first had the command.
    pub since: &'static str,
    /// What the command does, in a few words.
    pub summary: &'static str,
    flags: u16,
    pub(crate) run: Run,
}

/// All commands of the store, by name.
#[must_use]
pub fn commands() -> &'static [Command] {
    &COMMANDS
}

/// Commands that can do harm beside what they are for.
const DANGEROUS: [&str; 9] = [
    "acl", "config", "flushall", "flushdb", "info", "keys", "role", "sort", "swapdb",
];

/// The categories of Redis's access control that a command with this name belongs to, without their sign.
#[must_use]
pub fn categories(name: &str, flags: &[&str], group: &'static str) -> BTreeSet<&'static str> {
    let has = |flag| flags.contains(&flag);
    let mut categories = BTreeSet::from([if has("fast") { "fast" } else { "slow" }]);
    let by_flag = [
        ("write", "write"),
        ("readonly", "read"),
        ("pubsub", "pubsub"),
        ("admin", "admin"),
        ("blocking", "blocking"),
    ];
    let flagged = by_flag.iter().filter(|(flag, _)| has(flag));
    categories.extend(flagged.map(|(_, category)| category));
    let by_group = match group {
        "sorted-set" => Some("sortedset"),
        "transactions" => Some("transaction"),
        "generic" => Some("keyspace"),
        "string" | "list" | "hash" | "set" | "bitmap" | "connection" => Some(group),
        _ => None,
    };
    categories.extend(by_group);
    if has("admin") || DANGEROUS.contains(&name) {
        categories.insert("dangerous");
    }
    categories
}

/// Bytes of a command's name, at most.
const NAME_BYTES_MAX: usize = 20;

/// Bytes at the beginning of a name that are compared at once.
const HEAD_BYTES: usize = 8;

/// The heads of the names of all commands, in their order.
static HEADS: [u64; COMMANDS.len()] = {
    let mut heads = [0; COMMANDS.len()];
    let mut at = 0;
    while at < COMMANDS.len() {
        heads[at] = head(COMMANDS[at].name.as_bytes());
        at += 1;
    }
    heads
};

/// The first bytes of a name as a number: numbers of names are in the order of the names, and few names share one.
const fn head(name: &[u8]) -> u64 {
    let (mut head, mut at) = (0, 0);
    while at < HEAD_BYTES {
        let byte = if at < name.len() { name[at] } else { 0 };
        head = head << 8 | byte as u64;
        at += 1;
    }
    head
}

/// The command of this name, in any case.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let head = head(lower);
    let first = HEADS.partition_point(|other| *other < head);
    let same = COMMANDS[first..].iter().zip(&HEADS[first..]);
    let mut same = same.take_while(|(_, other)| **other == head);
    same.find_map(|(command, _)| (command.name.as_bytes() == lower).then_some(command))
}

/// Whether Redis 7.0 has a command of this name, in any case, that the store has not.
#[must_use]
pub fn is_of_redis(name: &[u8]) -> bool {
    ELSEWHERE
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

impl Command {
    /// The names of its flags.
    #[must_use]
    pub fn flag_names(&self) -> Vec<&'static str> {
        let set = FLAG_NAMES.iter().filter(|(flag, _)| self.has(*flag));
        set.map(|(_, name)| *name).collect()
    }

    /// The categories of Redis's access control that it belongs to, without their sign.
    #[must_use]
    pub fn categories(&self) -> BTreeSet<&'static str> {
        categories(self.name, &self.flag_names(), self.group.name())
    }

    /// Whether it may change the state, or does what is for the log alone to order.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.run, Run::Write(_))
    }

    /// Whether its work does not grow with what it works on.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.has(FAST)
    }

    /// Whether it may make the state larger.
    #[must_use]
    pub fn is_denyoom(&self) -> bool {
        self.has(DENYOOM)
    }

    /// Whether what it comes to may depend on when it is carried out, whatever the key holds.
    pub(crate) fn is_timed(&self) -> bool {
        self.has(TIMED)
    }

    /// Whether it sends a message.
    pub(crate) fn is_message(&self) -> bool {
        self.has(PUBSUB)
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether a call may have so many arguments, with the name.
    #[must_use]
    pub fn check_arity(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        match self.arity < 0 {
            true => count >= wanted,
            false => count == wanted,
        }
    }

    /// The positions of the keys in a call; none that are not among its arguments.
    #[must_use]
    pub fn keys(&self, args: &[Bytes]) -> Vec<usize> {
        let count = args.len();
        let mut keys = Vec::new();
        if self.first > 0 {
            let last = match self.last < 0 {
                true => count.saturating_sub(self.last.unsigned_abs() as usize),
                false => self.last.unsigned_abs() as usize,
            };
            let last = last.min(count.saturating_sub(1));
            let step = self.step.unsigned_abs().max(1) as usize;
            keys.extend((self.first.unsigned_abs() as usize..=last).step_by(step));
        }
        if !self.has(MOVABLE) {
            return keys;
        }
        if let "sort" | "sort_ro" = self.name {
            let store = |word: &&Bytes| word.eq_ignore_ascii_case(b"STORE");
            let stores = args.iter().rposition(|word| store(&word)).map(|at| at + 1);
            keys.extend(stores.filter(|at| *at > 2 && *at < count));
            return keys;
        }
        // Behind what has a fixed place: a number, and as many keys.
        let at = self.first.unsigned_abs() as usize + 1;
        let number = args
            .get(at)
            .and_then(|number| quorate_resp::parse_integer(number));
        let number = number
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0);
        keys.extend((at + 1..count).take(number));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_their_names() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in commands() {
            let upper = command.name.to_uppercase();
            assert_eq!(
                find(upper.as_bytes()).map(|found| found.name),
                Some(command.name)
            );
            assert!(
                !is_of_redis(command.name.as_bytes()),
                "{} is here",
                command.name
            );
        }
        for strange in [
            &b""[..],
            b"se",
            b"sets",
            b"set\0",
            b"zrangeby",
            b"zrangebylexx",
        ] {
            assert!(find(strange).is_none(), "{strange:?}");
        }
        assert!(find(b"xadd").is_none() && is_of_redis(b"XADD"));
        assert!(find(&[b'a'; 100]).is_none());
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |words: &str| {
            let words = words
                .split(' ')
                .map(|word| Bytes::copy_from_slice(word.as_bytes()));
            let args: Vec<Bytes> = words.collect();
            find(&args[0]).expect("it is in the table").keys(&args)
        };
        assert_eq!(keys("get a"), [1]);
        assert_eq!(keys("mset a 1 b 2"), [1, 3]);
        assert_eq!(keys("del a b c"), [1, 2, 3]);
        assert_eq!(keys("dbsize"), []);
        assert_eq!(keys("zunionstore d 2 a b weights 1 2"), [1, 3, 4]);
        assert_eq!(keys("lmpop 2 a b left"), [2, 3]);
        assert_eq!(keys("sintercard 9 a b"), [2, 3]);
        assert_eq!(keys("sort a by w_* store b"), [1, 5]);
        assert_eq!(keys("object encoding a"), [2]);
        assert_eq!(keys("rename a b"), [1, 2]);
    }
}
