//! Clients of a cluster with the plain store: each asks one thing after the other, of any replica.

use super::history::{Op, Seen, What};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::Wire;
use quorate_host::{Answer, Request};
use quorate_plain_store::{Item, Outcome, Query, QueryAnswer, Version, Write};

/// Keys there are: few, so that some writes conflict.
const KEYS: u8 = 6;

/// The name of a key.
pub(super) fn key(number: u64) -> Bytes {
    Bytes::from(format!("key-{number}"))
}

/// The names of all keys.
pub(super) fn keys() -> Vec<Bytes> {
    (0..KEYS.into()).map(key).collect()
}

/// A client of the cluster.
#[derive(Default)]
pub(super) struct Client {
    /// The question without an answer, and how its request is known.
    pub(super) waits: Option<(u64, Asked)>,
    /// The versions of keys last read, for a write on the condition that nothing has changed.
    pub(super) read: Versions,
}

/// Keys, and the versions that a read has seen of them.
type Versions = Vec<(Bytes, Option<Version>)>;

/// What a client asks.
pub(super) struct Question {
    pub(super) asked: Asked,
    /// How a replica or gateway is asked.
    pub(super) request: Request<Query>,
}

/// What an answer tells a client.
#[derive(Default)]
pub(super) struct Learned {
    /// What happened, if the answer says so.
    pub(super) op: Option<Op>,
    /// The versions that a read has seen.
    pub(super) read: Versions,
}

/// What a client asked.
pub(super) struct Asked {
    pub(super) began_ns: u64,
    what: Wanted,
}

enum Wanted {
    Write { write: Write, value: Bytes },
    Read(Vec<Bytes>),
}

impl Client {
    /// The next question; `value` is one that nobody else writes.
    pub(super) fn ask(&mut self, rng: &mut Rng, now_ns: u64, value: u64) -> Question {
        let value = Bytes::from(value.to_string());
        let [one, two] = two_keys(rng);
        let write = match rng.u8(..10) {
            0..5 => Write::put(one, value.clone()),
            5 | 6 => Write::put(one, value.clone()).and_put(two, value.clone()),
            7 if !self.read.is_empty() => {
                let read = std::mem::take(&mut self.read).into_iter();
                read.fold(Write::default(), |write, (key, version)| {
                    write
                        .and_put(key.clone(), value.clone())
                        .given(key, version)
                })
            }
            _ => return read(vec![one, two], now_ns),
        };
        let request = Request::Write {
            body: write.to_bytes(),
            payloads: Vec::new(),
            principal: quorate_core::Principal::default(),
        };
        let what = Wanted::Write { write, value };
        let began_ns = now_ns;
        let asked = Asked { began_ns, what };
        Question { asked, request }
    }
}

/// A read of these keys.
pub(super) fn read(keys: Vec<Bytes>, now_ns: u64) -> Question {
    let request = Request::Read(Query::Get(keys.clone()));
    let (began_ns, what) = (now_ns, Wanted::Read(keys));
    let asked = Asked { began_ns, what };
    Question { asked, request }
}

impl Asked {
    /// What its answer says.
    pub(super) fn answered(
        self,
        answer: &Answer<QueryAnswer>,
        now_ns: u64,
    ) -> Result<Learned, String> {
        let began_ns = self.began_ns;
        let op = |what| {
            let ended_ns = Some(now_ns);
            Some(Op {
                began_ns,
                ended_ns,
                what,
            })
        };
        match (self.what, answer) {
            (Wanted::Write { write, value }, Answer::Applied(_, result)) => {
                let outcome = Outcome::decode(result);
                let outcome = outcome.map_err(|_| "a write was taken for none".to_owned())?;
                Ok(Learned {
                    op: op(told(write, value, outcome)?),
                    read: Versions::new(),
                })
            }
            (Wanted::Read(keys), Answer::Read(_, QueryAnswer::Got(items))) => {
                let version = |item: &Option<Item>| item.as_ref().map(|item| item.version);
                let read = keys
                    .iter()
                    .cloned()
                    .zip(items.iter().map(version))
                    .collect();
                let seen = keys.into_iter().zip(items.iter().cloned());
                let seen = seen.map(|(key, item)| Seen {
                    key,
                    item: item.map(|item| (item.version, Some(item.value))),
                });
                Ok(Learned {
                    op: op(What::Saw(seen.collect())),
                    read,
                })
            }
            (what, Answer::Refused(_)) => Ok(Learned {
                op: Asked { began_ns, what }.unanswered(),
                read: Versions::new(),
            }),
            (_, other) => Err(format!("a request was answered with {other:?}")),
        }
    }

    /// Nobody waits for its answer any more: a write may be done, at any time.
    pub(super) fn unanswered(self) -> Option<Op> {
        let Wanted::Write { write, value } = self.what else {
            return None;
        };
        Some(Op {
            began_ns: self.began_ns,
            ended_ns: None,
            what: What::Wrote {
                keys: write.changes.into_iter().map(|change| change.key).collect(),
                value,
                versions: None,
            },
        })
    }
}

/// What a write came to.
fn told(write: Write, value: Bytes, outcome: Outcome) -> Result<What, String> {
    match outcome {
        Outcome::Done(versions) => {
            let versions: Option<Vec<Version>> = versions.into_iter().collect();
            Ok(What::Wrote {
                keys: write.changes.into_iter().map(|change| change.key).collect(),
                value,
                versions: Some(versions.ok_or("a value that was stored has no version")?),
            })
        }
        Outcome::Unmet(versions) => {
            let seen = write.conditions.into_iter().zip(versions);
            let seen = seen.map(|(condition, version)| Seen {
                key: condition.key,
                item: version.map(|version| (version, None)),
            });
            Ok(What::Saw(seen.collect()))
        }
    }
}

/// Two that differ.
fn two_keys(rng: &mut Rng) -> [Bytes; 2] {
    let one = rng.u8(..KEYS);
    let two = (one + rng.u8(1..KEYS)) % KEYS;
    [key(one.into()), key(two.into())]
}
