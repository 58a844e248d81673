//! Another server is followed: its stream is carried out, clients wait for the cutover.

use super::generate;
use super::laws::equal_for;
use super::ours::{Ours, at, load, snapshot};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Application, Wire};
use quorate_redis_effects::{
    Command, Flavour, Follows, Import, Outcome, REPLICATION_ID_BYTES, ServerVersion,
};
use quorate_redis_store::{Answer, Call, Query, Request, Standing, Store};
use quorate_resp::encode_request;

const VERSION: ServerVersion = ServerVersion {
    flavour: Flavour::Redis,
    number: (7, 0, 0),
};

/// A store, and the stream that goes into it.
struct Following {
    ours: Ours,
    entries: u64,
}

fn stream(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        encode_request(&words, &mut out);
    }
    out
}

impl Following {
    /// One that has begun.
    fn new() -> Following {
        let mut following = Following {
            ours: Ours::new(),
            entries: 1 << 20,
        };
        let begun = following.begin();
        assert_eq!(begun, Outcome::Claimed { epoch: 1, len: 0 });
        following
    }

    fn order(&mut self, command: &Command) -> Outcome {
        self.entries += 1;
        let at = at(self.entries, self.ours.now_ms);
        let outcome = self.ours.store.apply(at, &command.to_bytes(), &[]);
        Outcome::from_bytes(outcome).unwrap()
    }

    fn standing(&self) -> Standing {
        standing(&self.ours.store)
    }

    fn begin(&mut self) -> Outcome {
        let standing = self.standing();
        self.order(&Command::Import {
            over: standing.epoch,
            at: Some(standing.len),
            is_anew: true,
            version: VERSION,
        })
    }

    /// A piece of the stream, behind what is there.
    fn piece(&mut self, start: u64, bytes: &[u8], last: bool) -> Outcome {
        let epoch = self.standing().epoch;
        self.order(&Command::Effects {
            epoch,
            start,
            bytes: Bytes::copy_from_slice(bytes),
            last,
        })
    }

    /// Carries out whole units, behind what is there.
    fn push(&mut self, lines: &[&str]) -> Outcome {
        let start = self.standing().len;
        self.piece(start, &stream(lines), true)
    }

    /// All that the other server had is there.
    fn have_all(&mut self) -> Outcome {
        let Standing { epoch, len, .. } = self.standing();
        let follows = Follows {
            id: [b'a'; REPLICATION_ID_BYTES],
            source: 1000,
            len,
        };
        self.order(&Command::Imported { epoch, follows })
    }

    fn cut_over(&mut self) -> Outcome {
        let Standing { epoch, len, .. } = self.standing();
        self.order(&Command::Cutover {
            epoch,
            len_min: len,
        })
    }
}

fn standing(store: &Store) -> Standing {
    match store.query(&Query::Standing) {
        Answer::Standing(standing) => standing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_are_refused_until_the_cutover() {
    let mut following = Following::new();
    following.push(&[
        "SELECT 3",
        "SET a 1",
        "MULTI",
        "INCR a",
        "RPUSH l x y",
        "EXEC",
    ]);
    assert!(
        following
            .ours
            .text("get a")
            .starts_with("-LOADING Quorate follows")
    );
    assert!(
        following
            .ours
            .text("set a 2")
            .starts_with("-LOADING Quorate follows")
    );
    assert!(
        matches!(following.cut_over(), Outcome::Elsewhere { .. }),
        "it is not all there"
    );
    assert!(matches!(following.have_all(), Outcome::Accepted { .. }));
    // The database stays chosen from piece to piece.
    following.push(&["INCR a"]);
    assert!(matches!(
        following.cut_over(),
        Outcome::Claimed { epoch: 2, .. }
    ));
    assert_eq!(following.ours.text("get a"), r"$-1\r\n");
    following.ours.text("swapdb 0 3");
    assert_eq!(following.ours.text("get a"), r"$1\r\n3\r\n");
    assert_eq!(
        following.ours.text("lrange l 0 -1"),
        r"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"
    );
}

/// Scenario: what the other server did is carried out here long after. A key whose end was moved in time is there.
#[test]
fn keys_stay_beyond_their_ends_until_the_other_server_says_so() {
    let mut following = Following::new();
    let end = following.ours.now_ms + 10;
    let until = |key: &str| format!("PEXPIREAT {key} {end}");
    for key in ["kept", "ended", "deleted", "left"] {
        following.push(&[&format!("SET {key} 1"), &until(key)]);
    }
    following.ours.now_ms += 60_000;
    // Ends that are over when they are carried out, too.
    following.push(&["SET late 1", &until("late")]);
    following.push(&["INCR kept", "PERSIST kept", "PERSIST late", "DEL deleted"]);
    // Before Redis 7.0, times were told from the moment of the command on.
    following.push(&["SET brief 1", "EXPIRE brief 10"]);
    while following.ours.store.tidy() {}
    following.have_all();
    following.cut_over();
    assert_eq!(following.ours.text("get kept"), r"$1\r\n2\r\n");
    assert_eq!(following.ours.text("ttl late"), r":-1\r\n");
    assert_eq!(following.ours.text("exists ended deleted left"), r":0\r\n");
    assert_eq!(following.ours.text("ttl brief"), r":10\r\n");
}

#[test]
fn what_fails_here_is_named_and_ends_the_following() {
    let mut following = Following::new();
    following.push(&["SET a 1"]);
    following.have_all();
    following.push(&["SET b 1", "XADD orders * f v", "SET c 1"]);
    let standing = following.standing();
    let why = standing.failure.unwrap();
    assert!(
        why.contains("\"XADD orders\"") && why.contains("has no command 'xadd'"),
        "{why}"
    );
    assert_eq!(
        (standing.epoch, standing.import),
        (2, Some(Import::Loading))
    );
    assert!(matches!(following.have_all(), Outcome::Elsewhere { .. }));
    assert!(matches!(
        following.push(&["SET d 1"]),
        Outcome::Elsewhere { .. }
    ));
    following.begin();
    following.push(&["LPUSH l 1", "INCR l"]);
    let why = following.standing().failure.unwrap();
    assert!(why.contains("WRONGTYPE"), "{why}");
    following.begin();
    assert_eq!(following.standing().failure, None);
    following.push(&["INCR l"]);
    following.have_all();
    following.cut_over();
    assert_eq!(
        following.ours.text("get l"),
        r"$1\r\n1\r\n",
        "everything went"
    );
}

#[test]
fn nobody_begins_where_clients_have_written() {
    let mut following = Following {
        ours: Ours::new(),
        entries: 1 << 20,
    };
    following.ours.text("set mine 1 px 5");
    assert_eq!(following.begin(), Outcome::Elsewhere { epoch: 0, len: 0 });
    assert_eq!(following.ours.text("get mine"), r"$1\r\n1\r\n");
    following.ours.now_ms += 6;
    following.ours.text("get mine");
    assert!(
        matches!(following.begin(), Outcome::Claimed { .. }),
        "its time is over"
    );
}

#[test]
fn what_is_too_long_for_the_store_is_named() {
    let mut following = Following::new();
    let long = "x".repeat((64 << 20) + 1);
    following.push(&[&format!("SET long {long}")]);
    let why = following.standing().failure.unwrap();
    assert!(why.contains("SET long") && why.contains("exceeds"), "{why}");
    following.begin();
    let part = stream(&["MULTI", &format!("SET long {long}")]);
    let start = following.standing().len;
    following.piece(start, &part, false);
    assert_eq!(following.standing().failure, None, "there may be an end");
    following.piece(start + part.len() as u64, &part, false);
    let why = following.standing().failure.unwrap();
    assert!(
        why.contains("MULTI") && why.contains("longer than"),
        "{why}"
    );
}

/// Scenario: streams and clients' calls are carried out by two stores, of which one frees keys at other times, and the
/// other one is replaced by snapshots of itself.
#[test]
fn equal_streams_give_equal_states() {
    let templates = generate::templates();
    let mut served = 0;
    for seed in 0..40 {
        let next = |rng: &mut Rng, store: &Store, now_ms: u64| {
            random_body(rng, &templates, &standing(store), now_ms)
        };
        equal_for(seed, next, |result, store| {
            let outcome = Outcome::from_bytes(result.clone());
            let is_claimed = matches!(outcome, Ok(Outcome::Claimed { .. }));
            served += u64::from(is_claimed && standing(store).import.is_none());
        });
    }
    assert!(served > 40, "cutovers: {served}");
}

/// What is ordered next: a client's call, or a step of an import.
fn random_body(
    rng: &mut Rng,
    templates: &[&'static str],
    standing: &Standing,
    now_ms: u64,
) -> Bytes {
    let (epoch, len) = (standing.epoch, standing.len);
    let call = |args| Request {
        calls: vec![Call { args }],
        ..Request::default()
    };
    let import = |is_anew| Command::Import {
        over: epoch,
        at: Some(len),
        is_anew,
        version: VERSION,
    };
    let command = match (standing.import, rng.u8(..16)) {
        (None, 0) => return call(vec![Bytes::from_static(b"FLUSHALL")]).to_bytes(),
        (None, 1..4) => import(true),
        (None, _) | (Some(_), 0) => return call(generate::call(rng, templates)).to_bytes(),
        (Some(_), 1) => Command::Imported {
            epoch,
            follows: Follows {
                id: [b'b'; REPLICATION_ID_BYTES],
                source: 7,
                len,
            },
        },
        (Some(_), 2) => Command::Cutover {
            epoch,
            len_min: len,
        },
        (Some(_), 3) => import(standing.failure.is_some() || rng.bool()),
        (Some(_), _) => {
            let mut bytes = Vec::new();
            let key = rng.u8(..6);
            let end = (now_ms + rng.u64(..20)).to_string();
            let lines = match rng.u8(..4) {
                0 => vec![format!("SELECT {}", rng.u8(..3))],
                1 => vec![
                    format!("SET k{key} {key}"),
                    format!("PEXPIREAT k{key} {end}"),
                ],
                2 => vec![format!("PERSIST k{key}"), format!("APPEND k{key} x")],
                _ => vec![format!("DEL k{key}"), "RPUSH list a b".to_owned()],
            };
            for line in &lines {
                encode_request(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
            }
            if rng.u8(..16) == 0 {
                encode_request(&generate::call(rng, templates), &mut bytes);
            }
            Command::Effects {
                epoch,
                start: len,
                bytes: bytes.into(),
                last: true,
            }
        }
    };
    command.to_bytes()
}

/// Scenario: a replica is replaced by a snapshot of another one that was cut within a unit.
#[test]
fn snapshots_hold_what_is_followed() {
    let mut following = Following::new();
    let end = following.ours.now_ms + 10;
    following.push(&["SELECT 2", "SET a 1", &format!("PEXPIREAT a {end}")]);
    following.ours.now_ms += 1000;
    let unit = stream(&["MULTI", "INCR a", "SET b 2", "EXEC"]);
    let start = following.standing().len;
    let half = unit.len() / 2;
    following.piece(start, &unit[..half], false);
    let ahead = following.piece(start + unit.len() as u64, &stream(&["INCR a"]), true);
    assert!(matches!(ahead, Outcome::Beyond { .. }), "{ahead:?}");
    let store = load(&snapshot(&mut following.ours.store, 7)).unwrap();
    assert_eq!(standing(&store), following.standing());
    let mut other = Following {
        ours: Ours::new(),
        entries: following.entries,
    };
    other.ours.store = store;
    other.ours.now_ms = following.ours.now_ms;
    for one in [&mut following, &mut other] {
        one.piece(start + half as u64, &unit[half..], true);
        one.push(&["INCR a", "PERSIST a"]);
        one.have_all();
        one.cut_over();
        one.ours.text("swapdb 0 2");
        assert_eq!(one.ours.text("get a"), r"$1\r\n3\r\n");
    }
    let [one, other] =
        [&mut following, &mut other].map(|one| snapshot(&mut one.ours.store, 99).concat());
    assert_eq!(one, other);
}
