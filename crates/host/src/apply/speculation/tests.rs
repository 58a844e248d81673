//! A list of words, some of them executed ahead.

use super::*;
use crate::api::{HostConfig, Limits};
use crate::epochs::GroupState;
use crate::version::SupportedVersions;
use quorate_core::{
    Boot, Catalogue, ClusterId, EntryBuilder, Epoch, Group, Incarnation, Numbers, Payload,
    Principal, ReplicaId, Seat, Unfit, WireError,
};

/// Every word, and of how many attempts.
#[derive(Debug, Default)]
struct Words {
    all: Vec<String>,
    attempts: usize,
}

impl Application for Words {
    type Query = ();
    type Answer = ();
    type Cut = ();

    fn apply(&mut self, _: At, body: &Bytes, _: &[Payload]) -> Bytes {
        self.all.push(String::from_utf8_lossy(body).into_owned());
        Bytes::from(self.all.concat())
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        body != "stay"
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.attempts += 1;
        self.apply(at, body, &[])
    }

    fn keep(&mut self) {
        self.attempts = self
            .attempts
            .checked_sub(1)
            .expect("something was attempted");
    }

    fn retract(&mut self) {
        self.keep();
        self.all.pop();
    }

    fn query(&self, (): &()) {}

    fn cut(&mut self) {}

    fn piece(&mut self, (): &mut (), _: usize) -> Option<Bytes> {
        None
    }

    fn release(&mut self, (): ()) {}

    fn empty(&self) -> Self {
        Words::default()
    }

    fn load(&mut self, _: Bytes) -> Result<(), String> {
        Ok(())
    }

    fn loaded(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Debug)]
struct Anything;

impl Catalogue for Anything {
    fn numbers(&self, _: u32, epoch: &Epoch) -> Result<Numbers, Unfit> {
        Ok(Numbers {
            n: epoch.n(),
            failures: 0,
            code: 1,
        })
    }

    fn entry_of(&self, _: &str, _: Bytes) -> Result<Option<Entry>, WireError> {
        Ok(None)
    }
}

const CLIENT: ClientId = ClientId(5);

fn applier() -> Applier<Words> {
    let epoch = crate::fuzz::epoch();
    let seat = Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me: ReplicaId(1),
        boot: Boot(1),
    };
    let config = HostConfig {
        cluster: ClusterId(1),
        incarnation: Incarnation(1),
        listed_as: Incarnation(1),
        genesis: epoch,
        catalogue: &Anything,
        seat,
        machine: (),
        supported: SupportedVersions::SHIPPED,
        limits: Limits::default(),
        jitter_seed: 1,
    };
    let mut applier = Applier::new(Words::default(), &config);
    let open = entry(1, &[(Class::OpenSession, 0, 0, "")]);
    applier.apply(Slot(0), Some(&open), |_, _| {});
    applier
}

/// Of commands of one client: class, number, acknowledged, word.
fn entry(number: u64, commands: &[(Class, u64, u64, &'static str)]) -> Entry {
    let mut builder = EntryBuilder::default();
    for (class, seq, acked, word) in commands {
        builder.push(&Command {
            id: RequestId {
                client: CLIENT,
                seq: *seq,
            },
            acked: *acked,
            class: *class,
            principal: Principal(0),
            body: Bytes::from_static(word.as_bytes()),
            payloads: Vec::new(),
        });
    }
    let id = EntryId {
        origin: ReplicaId(1),
        boot: Boot(1),
        seq: number,
    };
    builder.finish(id, number)
}

fn write(number: u64, word: &'static str) -> Entry {
    entry(number, &[(Class::Write, number, 0, word)])
}

/// What the next entry comes to, if it can be executed ahead.
fn ahead(applier: &mut Applier<Words>) -> Option<String> {
    let (_, _, results) = applier.execute_ahead()?;
    let results: Vec<_> = results.iter().map(|r| String::from_utf8_lossy(r)).collect();
    Some(results.join(","))
}

fn decide(applier: &mut Applier<Words>, slot: u64, entry: &Entry) -> String {
    let mut answers = String::new();
    applier.apply(Slot(slot), Some(entry), |_, applied| match applied {
        crate::apply::Applied::Result(_, result) => {
            answers += &String::from_utf8_lossy(&result);
        }
        crate::apply::Applied::Refused(refusal) => answers += &format!("{refusal:?}"),
    });
    answers
}

#[test]
fn what_is_decided_as_expected_is_executed_once() {
    let mut applier = applier();
    let (a, b) = (write(2, "a"), write(3, "b"));
    applier.speculation.ask(Slot(1), a.clone());
    applier.speculation.ask(Slot(2), b.clone());
    assert_eq!(ahead(&mut applier).as_deref(), Some("a"));
    assert_eq!(ahead(&mut applier).as_deref(), Some("ab"));
    assert_eq!(ahead(&mut applier), None);
    assert_eq!(
        (decide(&mut applier, 1, &a), decide(&mut applier, 2, &b)),
        ("a".into(), "ab".into())
    );
    assert_eq!((applier.app().all.len(), applier.app().attempts), (2, 0));
    assert!(!applier.speculation.is_any() && applier.speculation.clients.is_empty());
}

#[test]
fn what_is_decided_otherwise_is_taken_back() {
    let mut applier = applier();
    let (a, b, c) = (write(2, "a"), write(3, "b"), write(4, "c"));
    for (slot, entry) in [(1, &a), (2, &b)] {
        applier.speculation.ask(Slot(slot), entry.clone());
        ahead(&mut applier);
    }
    assert_eq!(decide(&mut applier, 1, &c), "c");
    assert_eq!(decide(&mut applier, 2, &b), "cb");
    assert_eq!((applier.app().all.len(), applier.app().attempts), (2, 0));
}

#[test]
fn who_looks_sees_what_is_decided_and_nothing_is_told_twice() {
    let mut applier = applier();
    let (a, b) = (write(2, "a"), write(3, "b"));
    applier.speculation.ask(Slot(1), a.clone());
    assert_eq!(ahead(&mut applier).as_deref(), Some("a"));
    applier.take_back();
    assert!(applier.app().all.is_empty() && !applier.speculation.is_any());
    applier.speculation.ask(Slot(2), b.clone());
    assert_eq!(ahead(&mut applier).as_deref(), Some("ab"));
    assert_eq!(decide(&mut applier, 1, &a), "a");
    applier.retract_from(Slot(2));
    assert_eq!(applier.app().all, ["a"]);
    assert_eq!(
        ahead(&mut applier),
        None,
        "it is not to be executed any more"
    );
    assert_eq!(decide(&mut applier, 2, &b), "ab");
}

/// What might change sessions or epochs, might not be executed, or cannot be taken back, and all that is
/// behind it.
#[test]
fn what_is_not_sure_waits_until_it_is_decided() {
    let order = entry(9, &[(Class::Order, 9, 0, "")]);
    let again = entry(9, &[(Class::Write, 2, 0, "a")]);
    let twice = entry(9, &[(Class::Write, 7, 0, "a"), (Class::Write, 7, 0, "a")]);
    let acked = entry(9, &[(Class::Write, 8, 7, "x"), (Class::Write, 6, 0, "y")]);
    let stay = entry(
        9,
        &[(Class::Write, 9, 0, "x"), (Class::Write, 10, 0, "stay")],
    );
    let end = entry(9, &[(Class::EndSession, 0, 0, "")]);
    for unsure in [order, again, twice, acked, stay, end] {
        let mut applier = applier();
        let (a, b) = (write(2, "a"), write(5, "b"));
        applier.speculation.ask(Slot(1), a.clone());
        applier.speculation.ask(Slot(2), unsure.clone());
        applier.speculation.ask(Slot(3), b.clone());
        assert_eq!(ahead(&mut applier).as_deref(), Some("a"));
        assert_eq!(ahead(&mut applier), None);
        decide(&mut applier, 1, &a);
        assert_eq!(ahead(&mut applier), None);
        decide(&mut applier, 2, &unsure);
        let is_open = applier.sessions().known(RequestId {
            client: CLIENT,
            seq: 5,
        }) == crate::sessions::Known::Open;
        assert_eq!(ahead(&mut applier).is_some(), is_open);
        decide(&mut applier, 3, &b);
        assert_eq!(applier.app().attempts, 0);
    }
}

#[test]
fn a_snapshot_of_another_state_leaves_nothing_ahead() {
    let mut applier = applier();
    applier.speculation.ask(Slot(1), write(2, "a"));
    ahead(&mut applier);
    let state = applier.state();
    let sessions = applier.sessions().clone();
    let replaced = applier.replaced(Slot(7), state, sessions, Words::default());
    assert!(!replaced.speculation.is_any());
    let _: &GroupState = replaced.epochs();
}
