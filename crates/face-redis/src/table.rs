//! The commands there are: those that the face answers by itself, and those of the store.

use bytes::Bytes;
use quorate_redis_store::{Command, categories};
use quorate_resp::parse_integer;
use std::collections::BTreeSet;

/// A command that concerns the connection or the replica, and not the store's data.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) name: &'static str,
    /// How many arguments it has, the name included; at least so many if it is negative.
    arity: i32,
    flags: &'static [&'static str],
    group: &'static str,
    since: &'static str,
    summary: &'static str,
    pub(crate) kind: Kind,
}

/// What a command of the face's own does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Acl,
    Auth,
    Blmove,
    Blmpop,
    Blpop,
    Brpop,
    Brpoplpush,
    Bzmpop,
    Bzpopmax,
    Bzpopmin,
    Client,
    Cluster,
    Command,
    Config,
    Discard,
    Echo,
    Exec,
    Hello,
    Info,
    Latency,
    Lolwut,
    Multi,
    Ping,
    Psubscribe,
    Pubsub,
    Punsubscribe,
    Quit,
    Readonly,
    Readwrite,
    Reset,
    Role,
    Select,
    Slowlog,
    Subscribe,
    Time,
    Unsubscribe,
    Unwatch,
    Wait,
    Watch,
}

impl Kind {
    /// Whether somebody may ask for it without having said who he is.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Kind::Auth | Kind::Hello | Kind::Quit | Kind::Reset)
    }

    /// Whether a subscriber may ask for it in the second version of the protocol.
    pub(crate) fn is_for_subscribers(self) -> bool {
        matches!(
            self,
            Kind::Subscribe
                | Kind::Unsubscribe
                | Kind::Psubscribe
                | Kind::Punsubscribe
                | Kind::Ping
                | Kind::Quit
                | Kind::Reset
        )
    }

    /// Whether it is carried out at once within a transaction.
    pub(crate) fn is_outside_transactions(self) -> bool {
        matches!(
            self,
            Kind::Exec | Kind::Discard | Kind::Multi | Kind::Watch | Kind::Quit | Kind::Reset
        )
    }

    /// Whether it takes elements, or waits for some.
    pub(crate) fn is_pop(self) -> bool {
        matches!(
            self,
            Kind::Blmove
                | Kind::Blmpop
                | Kind::Blpop
                | Kind::Brpop
                | Kind::Brpoplpush
                | Kind::Bzmpop
                | Kind::Bzpopmax
                | Kind::Bzpopmin
        )
    }

    /// Whether it may be queued in a transaction: the store knows it, too.
    pub(crate) fn is_in_transactions(self) -> bool {
        matches!(self, Kind::Ping | Kind::Echo | Kind::Select)
    }
}

macro_rules! own {
    ($($kind:ident $name:literal $arity:literal [$($flag:literal)*] $group:literal $since:literal
        $summary:literal;)*) => {
        &[$(Own {
            name: $name,
            arity: $arity,
            flags: &[$($flag),*],
            group: $group,
            since: $since,
            summary: $summary,
            kind: Kind::$kind,
        }),*]
    };
}

/// The commands that the face answers by itself.
const OWN: &[Own] = own! {
    Acl "acl" -2 ["noscript" "loading" "stale"] "server" "6.0.0" "Tells and changes who may do what";
    Auth "auth" -2 ["noscript" "loading" "stale" "fast" "no_auth"] "connection" "1.0.0" "Says who the client is";
    Blmove "blmove" 6 ["write" "denyoom" "noscript" "blocking"] "list" "6.2.0" "Moves an element, or waits for one";
    Blmpop "blmpop" -5 ["write" "blocking" "movablekeys"] "list" "7.0.0" "Takes elements, or waits for one";
    Blpop "blpop" -3 ["write" "noscript" "blocking"] "list" "2.0.0" "Takes the first element, or waits for one";
    Brpop "brpop" -3 ["write" "noscript" "blocking"] "list" "2.0.0" "Takes the last element, or waits for one";
    Brpoplpush "brpoplpush" 4 ["write" "denyoom" "noscript" "blocking"] "list" "2.2.0" "Moves the last element";
    Bzmpop "bzmpop" -5 ["write" "blocking" "movablekeys"] "sorted-set" "7.0.0" "Takes members, or waits for one";
    Bzpopmax "bzpopmax" -3 ["write" "noscript" "fast" "blocking"] "sorted-set" "5.0.0" "Takes the highest member";
    Bzpopmin "bzpopmin" -3 ["write" "noscript" "fast" "blocking"] "sorted-set" "5.0.0" "Takes the lowest member";
    Client "client" -2 ["noscript" "loading" "stale"] "connection" "2.4.0" "Shows and names connections";
    Cluster "cluster" -2 ["stale"] "cluster" "3.0.0" "Is refused: one group has all keys";
    Command "command" -1 ["loading" "stale"] "server" "2.8.13" "Describes commands";
    Config "config" -2 ["admin" "noscript" "loading" "stale"] "server" "2.0.0" "Shows settings";
    Discard "discard" 1 ["noscript" "loading" "stale" "fast"] "transactions" "2.0.0" "Forgets a transaction";
    Echo "echo" 2 ["loading" "stale" "fast"] "connection" "1.0.0" "Returns a text";
    Exec "exec" 1 ["noscript" "loading" "stale"] "transactions" "1.2.0" "Carries a transaction out";
    Hello "hello" -1 ["noscript" "loading" "stale" "fast" "no_auth"] "connection" "6.0.0" "Chooses a version of RESP";
    Info "info" -1 ["loading" "stale"] "server" "1.0.0" "Shows figures of the replica";
    Latency "latency" -2 ["admin" "noscript" "loading" "stale"] "server" "2.8.13" "Shows no events";
    Lolwut "lolwut" -1 ["readonly" "fast"] "server" "5.0.0" "Shows the version";
    Multi "multi" 1 ["noscript" "loading" "stale" "fast"] "transactions" "1.2.0" "Begins a transaction";
    Ping "ping" -1 ["fast"] "connection" "1.0.0" "Asks for a sign of life";
    Psubscribe "psubscribe" -2 ["pubsub" "noscript" "loading" "stale"] "pubsub" "2.0.0" "Subscribes to patterns";
    Pubsub "pubsub" -2 ["pubsub" "loading" "stale"] "pubsub" "2.8.0" "Shows subscriptions of this replica";
    Punsubscribe "punsubscribe" -1 ["pubsub" "noscript" "loading" "stale"] "pubsub" "2.0.0" "Ends those to patterns";
    Quit "quit" -1 ["noscript" "loading" "stale" "fast" "no_auth"] "connection" "1.0.0" "Closes the connection";
    Readonly "readonly" 1 ["loading" "stale" "fast"] "cluster" "3.0.0" "Lets reads be old";
    Readwrite "readwrite" 1 ["loading" "stale" "fast"] "cluster" "3.0.0" "Has reads see all that was answered before";
    Reset "reset" 1 ["noscript" "loading" "stale" "fast" "no_auth"] "connection" "6.2.0" "Begins the connection anew";
    Role "role" 1 ["noscript" "loading" "stale" "fast"] "server" "2.8.12" "Shows the part of the replica";
    Select "select" 2 ["loading" "stale" "fast"] "connection" "1.0.0" "Chooses a database";
    Slowlog "slowlog" -2 ["admin" "loading" "stale"] "server" "2.2.12" "Shows no slow commands";
    Subscribe "subscribe" -2 ["pubsub" "noscript" "loading" "stale"] "pubsub" "2.0.0" "Subscribes to channels";
    Time "time" 1 ["loading" "stale" "fast"] "server" "2.6.0" "Tells the clock of the replica";
    Unsubscribe "unsubscribe" -1 ["pubsub" "noscript" "loading" "stale"] "pubsub" "2.0.0" "Ends those to channels";
    Unwatch "unwatch" 1 ["noscript" "loading" "stale" "fast"] "transactions" "2.2.0" "Forgets watched keys";
    Wait "wait" 3 ["noscript"] "generic" "3.0.0" "Tells how many other replicas have all writes";
    Watch "watch" -2 ["noscript" "loading" "stale" "fast"] "transactions" "2.2.0" "Makes a transaction depend on keys";
};

/// A command, of the face or of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A command that the face answers by itself.
    Own(&'static Own),
    /// A command that the store carries out.
    Stored(&'static Command),
}

/// The command with a name, in capitals or not.
pub(crate) fn find(name: &[u8]) -> Option<Found> {
    let own = OWN
        .iter()
        .find(|own| own.name.as_bytes().eq_ignore_ascii_case(name));
    own.map(Found::Own)
        .or_else(|| quorate_redis_store::find(name).map(Found::Stored))
}

/// All commands: those of the face, and then those of the store.
pub(crate) fn all() -> impl Iterator<Item = Found> {
    let own = OWN.iter().map(Found::Own);
    let is_own = |name: &str| OWN.iter().any(|own| own.name == name);
    let stored = quorate_redis_store::commands().iter();
    let stored = stored.filter(move |command| !is_own(command.name));
    own.chain(stored.map(Found::Stored))
}

/// The keys behind a timeout and their number.
pub(crate) fn counted_keys(args: &[Bytes]) -> Vec<Bytes> {
    let count = args.get(2).and_then(|count| parse_integer(count));
    let count = count.and_then(|count| usize::try_from(count).ok());
    let keys = args.iter().skip(3).take(count.unwrap_or(0));
    keys.cloned().collect()
}

/// The text about a command with too many arguments, or too few.
pub(crate) fn wrong_arguments(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

impl Found {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Found::Own(own) => own.name,
            Found::Stored(command) => command.name,
        }
    }

    /// How many arguments it has, the name included; at least so many if it is negative.
    pub(crate) fn arity(self) -> i32 {
        match self {
            Found::Own(own) => own.arity,
            Found::Stored(command) => command.arity,
        }
    }

    /// Whether it may have so many arguments, the name included.
    pub(crate) fn takes(self, count: usize) -> bool {
        let (arity, count) = (self.arity(), i32::try_from(count).unwrap_or(i32::MAX));
        match arity < 0 {
            true => count >= -arity,
            false => count == arity,
        }
    }

    pub(crate) fn flags(self) -> Vec<&'static str> {
        match self {
            Found::Own(own) => own.flags.to_vec(),
            Found::Stored(command) => command.flag_names(),
        }
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Found::Own(own) => own.group,
            Found::Stored(command) => command.group.name(),
        }
    }

    pub(crate) fn since(self) -> &'static str {
        match self {
            Found::Own(own) => own.since,
            Found::Stored(command) => command.since,
        }
    }

    pub(crate) fn summary(self) -> &'static str {
        match self {
            Found::Own(own) => own.summary,
            Found::Stored(command) => command.summary,
        }
    }

    /// The first key, the last one, and the step from one to the next.
    pub(crate) fn key_range(self) -> [i32; 3] {
        match self {
            Found::Own(own) if own.kind == Kind::Watch => [1, -1, 1],
            Found::Own(own) => match own.kind {
                Kind::Blmove | Kind::Brpoplpush => [1, 2, 1],
                Kind::Blpop | Kind::Brpop | Kind::Bzpopmax | Kind::Bzpopmin => [1, -2, 1],
                _ => [0; 3],
            },
            Found::Stored(command) => [command.first, command.last, command.step],
        }
    }

    /// The places of keys among these arguments.
    pub(crate) fn keys(self, args: &[Bytes]) -> Vec<usize> {
        match self {
            Found::Own(own) if own.kind == Kind::Watch => (1..args.len()).collect(),
            Found::Own(own) => match own.kind {
                Kind::Blmpop | Kind::Bzmpop => (3..3 + counted_keys(args).len()).collect(),
                Kind::Blmove | Kind::Brpoplpush => vec![1, 2],
                kind if kind.is_pop() => (1..args.len() - 1).collect(),
                _ => Vec::new(),
            },
            Found::Stored(command) => command.keys(args),
        }
    }

    /// The categories of Redis's access control that it belongs to, without their sign.
    pub(crate) fn categories(self) -> BTreeSet<&'static str> {
        categories(self.name(), &self.flags(), self.group())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_whatever_their_letters_and_counted_with_their_name() {
        let get = find(b"GeT").expect("the store has it");
        assert_eq!(
            (get.name(), get.takes(2), get.takes(3)),
            ("get", true, false)
        );
        let client = find(b"CLIENT").expect("the face has it");
        assert!(client.takes(2) && client.takes(5) && !client.takes(1));
        assert!(find(b"gets").is_none());
    }

    #[test]
    fn no_command_is_there_twice_and_each_says_what_it_does() {
        let mut names = BTreeSet::new();
        for command in all() {
            let name = command.name();
            assert!(names.insert(name), "{name}");
            assert!(
                !command.summary().is_empty() && !command.since().is_empty(),
                "{name}"
            );
            assert_eq!(find(name.as_bytes()).expect("it is there").name(), name);
        }
    }

    #[test]
    fn categories_follow_from_flags_and_groups() {
        let of = |name: &str| find(name.as_bytes()).expect("it is there").categories();
        assert!(of("get").is_superset(&BTreeSet::from(["read", "string", "fast"])));
        assert!(of("config").is_superset(&BTreeSet::from(["admin", "dangerous", "slow"])));
        assert!(of("del").is_superset(&BTreeSet::from(["write", "keyspace"])));
    }
}
