//! The Redis store as the application under test: what clients ask of the plain store, in Redis's commands.
//!
//! A value is stored together with a count of the writes of its key, in one transaction (`INCR n:KEY`, `SET KEY`), and
//! both are read at one time: so the versions of the plain store are these counts, and its judge is that of both.

use super::plain::{PlainLoad, Request, Returned, Told, op};
use super::{Ask, Asked, Subject, Who, Workload};
use crate::judge::{self, Journal};
use crate::plan::Load;
use crate::values::Values;
use crate::versions;
use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use quorate_core::{Payload, Wire};
use quorate_etcd_store::Flaw;
use quorate_plain_store::{Item, Outcome, Store as PlainStore, Version};
use quorate_redis_store::{Answer, Call, Query, Request as Body, Store};
use quorate_resp::{Reply, Resp};

impl Subject for Store {
    type Request = Request;
    type Returned = Returned;
    type Workload = RedisLoad;

    fn fresh(_: Option<Flaw>) -> Store {
        Store::new()
    }

    fn limit(load: &mut Load) {
        PlainStore::limit(load);
    }

    fn put(key: u8, value: u64, bytes: usize) -> Request {
        PlainStore::put(key, value, bytes)
    }

    fn get(key: u8) -> Request {
        PlainStore::get(key)
    }

    fn command(request: &Request, _: Option<usize>) -> (Bytes, Vec<Payload>) {
        let Request::Write(write) = request else {
            unreachable!("reads are not commands");
        };
        let calls = write.changes.iter().flat_map(|change| {
            let value = change.value.clone().unwrap_or_default();
            let set = vec![Bytes::from_static(b"SET"), change.key.clone(), value];
            [call("INCR", count_of(&change.key)), Call { args: set }]
        });
        let body = Body {
            atomic: true,
            calls: calls.collect(),
            ..Body::default()
        };
        (body.to_bytes(), Vec::new())
    }

    fn read(request: &Request) -> Query {
        let Request::Get(keys) = request else {
            unreachable!("writes are not queries");
        };
        let calls = keys
            .iter()
            .flat_map(|key| [call("GET", count_of(key)), call("GET", key.clone())]);
        Query::Calls {
            resp: Resp::Two,
            db: 0,
            clock_ns: 0,
            calls: calls.collect(),
            asker: None,
        }
    }

    fn response(
        request: &Request,
        result: &Bytes,
        _: &Values,
        stamp: u64,
    ) -> Result<Returned, String> {
        let told = replies(result)?;
        let [Reply::Array(told)] = &told[..] else {
            return Err(format!("{request:?} was answered {told:?}"));
        };
        let versions = told.chunks(2).map(|pair| match pair {
            [Reply::Integer(count), Reply::Simple(_)] => Ok(Some(Version(count.unsigned_abs()))),
            other => Err(format!("{request:?} was answered {other:?}")),
        });
        let outcome = Outcome::Done(versions.collect::<Result<_, String>>()?);
        let told = Told::Outcome(outcome);
        Ok(Returned { stamp, told })
    }

    fn got(answer: &Answer, _: &Values, stamp: u64) -> Result<Returned, String> {
        let Answer::Replies(answer) = answer else {
            return Err(format!("a read gave {answer:?}"));
        };
        let told = replies(answer)?;
        let items = told.chunks(2).map(|pair| match pair {
            [Reply::Null, Reply::Null] => Ok(None),
            [Reply::Bulk(count), Reply::Bulk(value)] => {
                let count = quorate_resp::parse_integer(count).ok_or("a count is no number")?;
                let (version, value) = (Version(count.unsigned_abs()), value.clone());
                Ok(Some(Item { version, value }))
            }
            other => Err(format!("a read gave {other:?}")),
        });
        let told = Told::Items(items.collect::<Result<_, String>>()?);
        Ok(Returned { stamp, told })
    }

    fn judge(
        history: Vec<Asked<Store>>,
        _: Vec<judge::Op>,
        _: &[judge::Sight],
        _: &Journal,
    ) -> Result<(), String> {
        let ops: Result<Vec<versions::Op>, String> = history.into_iter().map(op).collect();
        versions::check(&ops?)
    }
}

fn call(name: &'static str, key: Bytes) -> Call {
    let args = vec![Bytes::from_static(name.as_bytes()), key];
    Call { args }
}

/// The key with the number of writes of another one.
fn count_of(key: &[u8]) -> Bytes {
    [b"n:", key].concat().into()
}

/// The replies that stand one behind the other.
fn replies(bytes: &[u8]) -> Result<Vec<Reply>, String> {
    let mut input = BytesMut::from(bytes);
    let mut replies = Vec::new();
    while !input.is_empty() {
        let reply = Reply::take(&mut input).map_err(|error| error.to_string())?;
        replies.push(reply.ok_or("a reply is cut off")?);
    }
    Ok(replies)
}

/// Draws what the plain store is asked, without conditions: clients learn no versions.
pub(crate) struct RedisLoad(PlainLoad);

impl Workload<Store> for RedisLoad {
    fn new(load: &Load, rng: Rng) -> RedisLoad {
        RedisLoad(<PlainLoad as Workload<PlainStore>>::new(load, rng))
    }

    fn draw(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Ask<Request> {
        Workload::<PlainStore>::draw(&mut self.0, rng, who, next_value)
    }

    fn change(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Request {
        Workload::<PlainStore>::change(&mut self.0, rng, who, next_value)
    }

    fn arrive(&mut self, rng: &mut Rng, next_value: &mut u64) -> (u8, Request) {
        Workload::<PlainStore>::arrive(&mut self.0, rng, next_value)
    }

    fn learn(&mut self, _: usize, _: u8, _: &Request, _: &Returned) {}
}
