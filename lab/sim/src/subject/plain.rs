//! The plain store as the application under test: writes of one value under a few keys, some on the
//! condition that nothing has changed, and reads of a few keys at one time.

use super::etcd_load::take;
use super::{Ask, Asked, Subject, Who, Workload};
use crate::judge::{self, Journal};
use crate::plan::Load;
use crate::requests::name;
use crate::values::Values;
use crate::versions::{self, Op, Seen, What};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Payload, Wire};
use quorate_etcd_store::Flaw;
use quorate_plain_store::{Item, Outcome, Query, QueryAnswer, Store, Version, Write};
use quorate_tooling::keys::Keys;
use std::rc::Rc;

/// What a client asks of the plain store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Stores one value under some keys.
    Write(Write),
    /// Reads keys at one time.
    Get(Vec<Bytes>),
}

/// An answer of the plain store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Returned {
    /// When it arrived.
    pub(super) stamp: u64,
    pub(super) told: Told,
}

/// What an answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// What a write came to.
    Outcome(Outcome),
    /// What the keys of a read have.
    Items(Vec<Option<Item>>),
}

impl Subject for Store {
    type Request = Request;
    type Returned = Returned;
    type Workload = PlainLoad;

    fn fresh(_: Option<Flaw>) -> Store {
        Store::new()
    }

    /// Leaves out leases, watchers, compactions and users; some requests name two keys.
    fn limit(load: &mut Load) {
        (load.tenants, load.watchers, load.compact_every_ns) = (0, 0, None);
        load.users = false;
        load.keys = load.keys.max(2);
    }

    fn put(key: u8, value: u64, bytes: usize) -> Request {
        let mut text = value.to_string().into_bytes();
        text.resize(bytes.max(text.len()), b'.');
        Request::Write(Write::put(name(key), text.into()))
    }

    fn get(key: u8) -> Request {
        Request::Get(vec![name(key)])
    }

    fn command(request: &Request, _: Option<usize>) -> (Bytes, Vec<Payload>) {
        match request {
            Request::Write(write) => (write.to_bytes(), Vec::new()),
            Request::Get(_) => unreachable!("reads are not commands"),
        }
    }

    fn read(request: &Request) -> Query {
        match request {
            Request::Get(keys) => Query::Get(keys.clone()),
            Request::Write(_) => unreachable!("writes are not queries"),
        }
    }

    fn response(
        request: &Request,
        result: &Bytes,
        _: &Values,
        stamp: u64,
    ) -> Result<Returned, String> {
        let outcome = Outcome::decode(result);
        let outcome = outcome.map_err(|why| format!("{request:?} was refused: {why:?}"))?;
        let told = Told::Outcome(outcome);
        Ok(Returned { stamp, told })
    }

    fn got(answer: &QueryAnswer, _: &Values, stamp: u64) -> Result<Returned, String> {
        let QueryAnswer::Got(items) = answer else {
            return Err(format!("a read gave {answer:?}"));
        };
        let told = Told::Items(items.clone());
        Ok(Returned { stamp, told })
    }

    fn judge(
        history: Vec<Asked<Store>>,
        _: Vec<judge::Op>,
        _: &[judge::Sight],
        _: &Journal,
    ) -> Result<(), String> {
        let ops: Result<Vec<Op>, String> = history.into_iter().map(op).collect();
        versions::check(&ops?)
    }
}

/// A request as its judge wants it.
pub(super) fn op<A>(asked: Asked<A>) -> Result<Op, String>
where
    A: Subject<Request = Request, Returned = Returned>,
{
    let (ended, told) = match asked.returned {
        Some(Returned { stamp, told }) => (Some(stamp), Some(told)),
        None => (None, None),
    };
    let what = match (asked.request, told) {
        (Request::Write(write), Some(Told::Outcome(Outcome::Unmet(versions)))) => {
            let seen = write.conditions.into_iter().zip(versions);
            let seen = seen.map(|(condition, version)| Seen {
                key: condition.key,
                item: version.map(|version| (version, None)),
            });
            What::Saw(seen.collect())
        }
        (Request::Write(write), Some(Told::Outcome(Outcome::Done(versions)))) => {
            let versions: Option<Vec<Version>> = versions.into_iter().collect();
            let versions = versions.ok_or("a value that was stored has no version")?;
            wrote(write, Some(versions))
        }
        (Request::Write(write), None) => wrote(write, None),
        (Request::Get(keys), Some(Told::Items(items))) => {
            let seen = keys.into_iter().zip(items).map(|(key, item)| Seen {
                key,
                item: item.map(|item| (item.version, Some(item.value))),
            });
            What::Saw(seen.collect())
        }
        (request, told) => return Err(format!("{request:?} was told {told:?}")),
    };
    Ok(Op {
        began: asked.invoked,
        ended,
        what,
    })
}

fn wrote(write: Write, versions: Option<Vec<Version>>) -> What {
    let mut changes = write.changes.into_iter();
    let first = changes.next();
    let value = first.as_ref().and_then(|change| change.value.clone());
    let keys = first.into_iter().chain(changes).map(|change| change.key);
    What::Wrote {
        keys: keys.collect(),
        value: value.unwrap_or_default(),
        versions,
    }
}

/// Keys, and the versions that a read has seen of them.
type Versions = Vec<(Bytes, Option<Version>)>;

/// Draws the requests of all clients.
pub(crate) struct PlainLoad {
    keys: u8,
    /// By client, what it read last, for a write on the condition that nothing has changed.
    read: Vec<Versions>,
    /// The keys of writes that come by themselves, how many of them each names, and the least bytes of a value.
    spread: Option<(Keys, usize, usize)>,
}

impl Workload<Store> for PlainLoad {
    fn new(load: &Load, _: Rng) -> PlainLoad {
        PlainLoad {
            keys: load.keys,
            read: vec![Versions::new(); load.clients],
            spread: load.spread.map(|spread| {
                let keys = Keys::new(spread.keys, spread.skew);
                (keys, spread.keys_each, spread.value_bytes)
            }),
        }
    }

    fn draw(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Ask<Request> {
        if rng.u8(..10) < 3 {
            let [one, two] = self.two_keys(rng, who.key);
            return Ask::Read(Rc::new(Request::Get(vec![one, two])));
        }
        let change = Rc::new(self.change(rng, who, next_value));
        match rng.bool() {
            true => Ask::Command(change),
            false => Ask::Write(change),
        }
    }

    /// One value under one key or two, or under those that the client read last.
    fn change(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Request {
        let value = Bytes::from(take(next_value).to_string());
        let [one, two] = self.two_keys(rng, who.key);
        let read = &mut self.read[who.client];
        Request::Write(match rng.u8(..8) {
            0..=4 => Write::put(one, value),
            5 | 6 => Write::put(one, value.clone()).and_put(two, value),
            _ if read.is_empty() => Write::put(two, value),
            _ => {
                let read = std::mem::take(read).into_iter();
                read.fold(Write::default(), |write, (key, version)| {
                    write
                        .and_put(key.clone(), value.clone())
                        .given(key, version)
                })
            }
        })
    }

    fn arrive(&mut self, rng: &mut Rng, next_value: &mut u64) -> (u8, Request) {
        let number = take(next_value);
        let Some((keys, keys_each, value_bytes)) = &self.spread else {
            let (key, value) = (rng.u8(..self.keys), Bytes::from(number.to_string()));
            return (key, Request::Write(Write::put(name(key), value)));
        };
        let value = Bytes::from(format!("{number:0>value_bytes$}"));
        // As many draws for one as for two.
        let drawn = [(); 2].map(|()| keys.choose(rng));
        let mut write = Write::default();
        for (at, number) in drawn[..*keys_each].iter().enumerate() {
            // Twice the same is one.
            if !drawn[..at].contains(number) {
                write = write.and_put(name(*number), value.clone());
            }
        }
        (0, Request::Write(write))
    }

    fn learn(&mut self, client: usize, _: u8, asked: &Request, returned: &Returned) {
        if let (Request::Get(keys), Told::Items(items)) = (asked, &returned.told) {
            let versions = items
                .iter()
                .map(|item| item.as_ref().map(|item| item.version));
            self.read[client] = keys.iter().cloned().zip(versions).collect();
        }
    }
}

impl PlainLoad {
    /// A key, and another one.
    fn two_keys(&self, rng: &mut Rng, one: u8) -> [Bytes; 2] {
        let two = (one + rng.u8(1..self.keys)) % self.keys;
        [name(one), name(two)]
    }
}
