//! Rules, rights, changes of users, and what they are in bytes.

use super::ours::{load, snapshot};
use bytes::Bytes;
use quorate_core::{Admission, Application, At, Wire};
use quorate_fuzz::{Fuzz, Limits};
use quorate_redis_store::{
    Answer, Asker, Call, Change, DEFAULT_USER, Denied, Query, Request, RuleError, Store, User,
    UserRules, UserTable, UsersChange, find,
};
use quorate_resp::Resp;

fn words(text: &str) -> Vec<Bytes> {
    let words = text.split(' ').filter(|word| !word.is_empty());
    words
        .map(|word| Bytes::copy_from_slice(word.as_bytes()))
        .collect()
}

fn user(name: &'static str, rules: &str) -> User {
    let mut user = User::nothing(name.into());
    for rule in words(rules) {
        user.apply(&rule)
            .unwrap_or_else(|why| panic!("{rule:?}: {why}"));
    }
    user
}

fn rules(name: &'static str, rules: &str) -> UserRules {
    UserRules {
        name: name.into(),
        rules: words(rules),
    }
}

fn denied(user: &User, call: &str) -> Option<Denied> {
    let args = words(call);
    user.denies(find(&args[0]).expect("it is a command"), &args)
}

/// Scenario: commands of a log, one behind the other.
struct Log {
    store: Store,
    at: At,
}

impl Log {
    fn new() -> Log {
        Log {
            store: Store::new(),
            at: At::default(),
        }
    }

    fn apply(&mut self, body: &Bytes) -> String {
        self.at.slot.0 += 1;
        self.at.payload.entry.seq += 1;
        let result = self.store.apply(self.at, body, &[]);
        String::from_utf8_lossy(&result).into_owned()
    }

    fn change(&mut self, asker: Option<&Asker>, change: Change) -> String {
        let asker = asker.cloned();
        self.apply(&UsersChange { asker, change }.to_bytes())
    }

    fn call(&mut self, asker: Option<&Asker>, call: &str) -> String {
        self.apply(&request(asker, &[call]).to_bytes())
    }

    /// Who a user is that logs in now.
    fn log_in(&self, name: &'static str) -> Asker {
        let user = self
            .users()
            .get(name.as_bytes())
            .expect("there is the user")
            .clone();
        Asker {
            name: user.name.clone(),
            since: user.since,
        }
    }

    fn users(&self) -> &UserTable {
        self.store.users().expect("there are users")
    }
}

fn request(asker: Option<&Asker>, calls: &[&str]) -> Request {
    let calls = calls.iter().map(|call| Call { args: words(call) });
    Request {
        asker: asker.cloned(),
        calls: calls.collect(),
        ..Request::default()
    }
}

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";

#[test]
fn the_last_rule_about_a_command_decides() {
    let alice = user(
        "alice",
        "on ~app:* ~shared &news:* +@all -flushall -@list +lpush",
    );
    assert_eq!(denied(&alice, "set app:1 x"), None);
    assert_eq!(denied(&alice, "mset app:1 x other y"), Some(Denied::Key));
    assert_eq!(
        denied(&alice, "flushall"),
        Some(Denied::Command("flushall"))
    );
    assert_eq!(
        denied(&alice, "rpush shared x"),
        Some(Denied::Command("rpush"))
    );
    assert_eq!(denied(&alice, "lpush shared x"), None);
    assert_eq!(denied(&alice, "publish news:1 x"), None);
    assert_eq!(denied(&alice, "publish old x"), Some(Denied::Channel));
    let bob = user("bob", "on allkeys +object -object|freq");
    assert_eq!(denied(&bob, "object encoding a"), None);
    assert_eq!(
        denied(&bob, "object FREQ a"),
        Some(Denied::Command("object"))
    );
    let bob = user(
        "bob",
        "on allkeys +@read +object|freq -@all +object|encoding",
    );
    assert_eq!(denied(&bob, "object encoding a"), None);
    assert_eq!(
        denied(&bob, "object freq a"),
        Some(Denied::Command("object"))
    );
    assert_eq!(denied(&bob, "get a"), Some(Denied::Command("get")));
    let carol = user("carol", "on allkeys +blpop");
    assert_eq!(
        denied(&carol, "lmpop 1 a left"),
        None,
        "it is asked for BLPOP"
    );
    assert_eq!(denied(&carol, "lpop a"), Some(Denied::Command("lpop")));
}

#[test]
fn a_user_is_made_again_of_its_rules() {
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    for given in [
        "off",
        "on nopass allkeys ~x allchannels +@all -get -@write +set +config -config|set",
        &format!("on #{hash} ~a* ~b &c -@all +@read -get +get|x"),
    ] {
        let one = user("one", given);
        let rules = one.rules();
        let mut again = User::nothing("one".into());
        rules
            .iter()
            .for_each(|rule| again.apply(rule).expect("it is a rule"));
        assert_eq!((&again, again.rules()), (&one, rules), "{given}");
        assert!(!format!("{one:?}").contains("2bb8"));
    }
}

#[test]
fn what_is_no_rule_is_told() {
    let long = format!("~{}", "x".repeat(2000));
    for (rule, why) in [
        ("x", RuleError::Sign),
        (">secret", RuleError::Plain),
        ("#12", RuleError::Hash),
        (&format!("!{}", "0".repeat(64)), RuleError::NoPassword),
        ("+", RuleError::Name),
        ("(+get", RuleError::Selector),
        ("%R~x", RuleError::ReadOrWrite),
        (&long, RuleError::Length),
    ] {
        let mut nobody = User::nothing("x".into());
        assert_eq!(nobody.apply(rule.as_bytes()), Err(why), "{rule}");
        assert_eq!(nobody, User::nothing("x".into()));
    }
}

/// Scenario: a right goes while a command is on its way that needs it.
#[test]
fn rights_are_those_at_the_place_of_the_command_in_the_log() {
    let mut log = Log::new();
    assert_eq!(log.call(None, "set a 1"), "+OK\r\n");
    let made = Change::Set(rules("alice", "on nopass ~a +@all"));
    assert_eq!(log.change(None, made), "+OK\r\n");
    let alice = log.log_in("alice");
    assert_eq!(log.call(Some(&alice), "set a 2"), "+OK\r\n");
    assert_eq!(
        log.change(None, Change::Set(rules("alice", "-set"))),
        "+OK\r\n"
    );
    let denied = "-NOPERM this user has no permissions to run the 'set' command\r\n";
    assert_eq!(log.call(Some(&alice), "set a 3"), denied);
    let mut body = request(Some(&alice), &["get a", "set a 3", "get b"]);
    body.atomic = true;
    let replies = log.apply(&body.to_bytes());
    let key =
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
    assert_eq!(replies, format!("*3\r\n$1\r\n2\r\n{denied}{key}"));
    assert_eq!(
        log.change(Some(&alice), Change::Delete(vec!["bob".into()])),
        ":0\r\n"
    );
    let admin = Change::Set(rules("alice", "-@admin"));
    assert_eq!(log.change(None, admin), "+OK\r\n");
    let own = Change::Set(rules("alice", "+@all"));
    assert!(log.change(Some(&alice), own).contains("'acl|setuser'"));
}

/// Scenario: passwords come and go, and users, while their clients stay connected.
#[test]
fn who_logged_in_by_what_is_gone_is_nobody() {
    let (one, other) = ("1".repeat(64), "2".repeat(64));
    let mut log = Log::new();
    log.change(
        None,
        Change::Set(rules("alice", &format!("on #{one} allkeys +@all"))),
    );
    let alice = log.log_in("alice");
    log.change(None, Change::Set(rules("alice", &format!("#{other}"))));
    assert_eq!(
        log.call(Some(&alice), "incr a"),
        ":1\r\n",
        "one more password"
    );
    log.change(None, Change::Set(rules("alice", &format!("!{one}"))));
    assert_eq!(log.call(Some(&alice), "incr a"), NOAUTH);
    let again = log.log_in("alice");
    assert_eq!(log.call(Some(&again), "incr a"), ":2\r\n");
    assert_eq!(
        log.change(None, Change::Delete(vec!["alice".into(), "x".into()])),
        ":1\r\n"
    );
    assert_eq!(log.call(Some(&again), "incr a"), NOAUTH);
    log.change(None, Change::Set(rules("alice", "on nopass allkeys +@all")));
    assert_eq!(
        log.call(Some(&again), "incr a"),
        NOAUTH,
        "another one of that name"
    );
    // The default user's clients need not say who they are, until it gets a password.
    assert_eq!(log.call(None, "incr a"), ":3\r\n");
    log.change(None, Change::Set(rules("default", &format!("#{one}"))));
    assert_eq!(log.call(None, "incr a"), NOAUTH);
    let default = log.log_in("default");
    assert_eq!(log.call(Some(&default), "incr a"), ":4\r\n");
    log.change(Some(&default), Change::Set(rules("default", "off")));
    assert_eq!(log.call(Some(&default), "incr a"), NOAUTH);
}

#[test]
fn queries_are_judged_too() {
    let mut log = Log::new();
    log.call(None, "set a 1");
    log.change(None, Change::Set(rules("alice", "on nopass ~b +get")));
    let ask = |asker: Option<Asker>| {
        let query = Query::Calls {
            resp: Resp::Two,
            db: 0,
            clock_ns: 0,
            calls: vec![Call {
                args: words("get a"),
            }],
            asker,
        };
        match log.store.query(&query) {
            Answer::Replies(replies) => String::from_utf8_lossy(&replies).into_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(None), "$1\r\n1\r\n");
    assert!(ask(Some(log.log_in("alice"))).starts_with("-NOPERM"));
    let stranger = Asker {
        name: "bob".into(),
        since: 0,
    };
    assert_eq!(ask(Some(stranger)), NOAUTH);
}

#[test]
fn users_of_a_file_are_the_first_ones_only_once() {
    let mut log = Log::new();
    let begin = |rule: &str| Change::Begin(vec![rules("default", "off"), rules("bob", rule)]);
    assert_eq!(log.change(None, begin("on nopass +get allkeys")), "+OK\r\n");
    assert_eq!(log.call(None, "get a"), NOAUTH);
    assert_eq!(
        log.change(None, begin("on nopass +@all allkeys")),
        "+OK\r\n"
    );
    let bob = log.log_in("bob");
    assert!(log.call(Some(&bob), "set a 1").starts_with("-NOPERM"));
    assert!(
        log.change(Some(&bob), Change::Replace(Vec::new()))
            .starts_with("-NOPERM")
    );
    log.at.admission = Admission::Nothing;
    assert!(log.change(None, begin("")).starts_with("-MISCONF"));
}

#[test]
fn users_have_bounds_and_the_default_user_stays() {
    let mut log = Log::new();
    let name = |number: usize| Bytes::from(format!("u{number}"));
    let many = (0..=UserTable::LEN_MAX).map(|number| UserRules {
        name: name(number),
        rules: Vec::new(),
    });
    let replaced = log.change(None, Change::Replace(many.collect()));
    assert!(
        replaced.starts_with("-ERR there are too many users"),
        "{replaced}"
    );
    let default = Change::Delete(vec![DEFAULT_USER.into()]);
    assert!(log.change(None, default).contains("cannot be removed"));
    let spaces = UserRules {
        name: "a b".into(),
        rules: Vec::new(),
    };
    assert!(log.change(None, Change::Set(spaces)).contains("Usernames"));
    assert!(log.store.users().is_none(), "nothing was changed");
}

#[test]
fn snapshots_have_users_and_those_without_are_as_before() {
    let mut log = Log::new();
    log.call(None, "set a 1");
    let without = snapshot(&mut log.store, 20).concat();
    assert_eq!(without[..3], [1, 1, 0], "a database follows the head");
    assert_eq!(without[3], 2);
    log.change(
        None,
        Change::Set(rules("alice", "on nopass ~a +@all -@admin")),
    );
    let pieces = snapshot(&mut log.store, 20);
    let mut loaded = load(&pieces).expect("it is whole");
    assert_eq!(loaded.users(), log.store.users());
    assert_eq!(snapshot(&mut loaded, 20).concat(), pieces.concat());
}

#[test]
fn changes_decode_within_bounds_and_have_one_encoding() {
    let asker = Some(Asker {
        name: "alice".into(),
        since: 9,
    });
    let one = || rules("bob", "on +get");
    let changes = [
        (None, Change::Begin(vec![one(), one()])),
        (asker.clone(), Change::Set(one())),
        (asker, Change::Delete(vec!["bob".into()])),
        (None, Change::Replace(vec![one()])),
    ];
    let seeds = changes.map(|(asker, change)| UsersChange { asker, change }.to_bytes());
    let limits = Limits {
        // A rule of one byte becomes a slice of four words.
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "users");
    fuzz.seeds(seeds).limits(limits).run_wire::<UsersChange>();
    let body = Log::new().change(None, Change::Set(one()));
    assert_eq!(body, "+OK\r\n");
}
