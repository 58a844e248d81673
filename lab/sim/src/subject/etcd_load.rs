//! What clients of the key-value store ask: changes and reads of single keys, and richer requests.

use super::administrator::Administrator;
use super::mix::{Known, Mix};
use super::{ADMINISTRATOR, Ask, Subject, Who, Workload};
use crate::judge::{Request, Response, Returned};
use crate::plan::Load;
use crate::requests;
use fastrand::Rng;
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_etcd_store::Store;
use std::rc::Rc;

/// Draws the requests of all clients.
pub(crate) struct EtcdLoad {
    keys: u8,
    /// By client and key, the revision at which the key was last seen modified.
    known: Vec<Vec<i64>>,
    /// Requests of more kinds, if there are to be any.
    mix: Option<Mix>,
    /// Changes users, if there are to be any.
    administrator: Option<Administrator>,
}

impl Workload<Store> for EtcdLoad {
    fn new(load: &Load, mut rng: Rng) -> EtcdLoad {
        let own = load.users.then(|| rng.fork());
        EtcdLoad {
            administrator: own.map(|rng| Administrator::new(rng, load.keys)),
            keys: load.keys,
            known: vec![vec![0; usize::from(load.keys)]; load.clients],
            mix: load.rich.then(|| Mix::new(rng, load.keys)),
        }
    }

    fn draw(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Ask<Request> {
        if let Some(administrator) = self.administrator_of(who.client) {
            return administrator.draw();
        }
        let call = self.change(rng, who, next_value);
        let read = || Rc::new(Store::get(who.key));
        let ask = match rng.u8(..20) {
            0..=5 => Ask::Read(read()),
            6 => Ask::Peek(peek(who.key)),
            7..=9 => Ask::Write(Rc::new(call)),
            _ => Ask::Command(Rc::new(call)),
        };
        // Now and then something richer in its place.
        let known = Known {
            who,
            modified: &self.known[who.client],
        };
        let mix = self.mix.as_mut();
        mix.and_then(|mix| mix.draw(&known, next_value))
            .unwrap_or(ask)
    }

    /// A change of one key.
    fn change(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Request {
        let value = take(next_value);
        match rng.u8(..10) {
            0 => Request::Delete(requests::delete(who.key)),
            1..=3 => {
                let expected = self.known[who.client][usize::from(who.key)];
                Request::Txn(requests::cas(who.key, expected, value))
            }
            _ => Store::put(who.key, value, 0),
        }
    }

    fn arrive(&mut self, rng: &mut Rng, next_value: &mut u64) -> (u8, Request) {
        let key = rng.u8(..self.keys);
        (key, Store::put(key, take(next_value), 0))
    }

    fn learn(&mut self, client: usize, key: u8, asked: &Request, returned: &Returned) {
        if let Some(administrator) = self.administrator_of(client) {
            administrator.learn(asked, returned);
        }
        if let Some(modified) = modified(asked, returned) {
            self.known[client][usize::from(key)] = modified;
        }
    }
}

impl EtcdLoad {
    fn administrator_of(&mut self, client: usize) -> Option<&mut Administrator> {
        let administrator = self.administrator.as_mut();
        administrator.filter(|_| client == ADMINISTRATOR)
    }
}

/// The next of these numbers.
pub(super) fn take(next: &mut u64) -> u64 {
    *next += 1;
    *next - 1
}

/// The revision at which the key asked about was last modified, as the answer tells it; after a
/// deletion, its revision.
fn modified(asked: &Request, returned: &Returned) -> Option<i64> {
    let seen = match &returned.response {
        Response::Range(range) => range.kvs.first(),
        Response::Txn(txn) => match txn.responses.first().and_then(|op| op.response.as_ref()) {
            Some(PartAnswer::ResponseRange(range)) => range.kvs.first(),
            _ => None,
        },
        _ => None,
    };
    let is_about_one = !matches!(asked, Request::Range(range) if !range.range_end.is_empty());
    let seen = seen.filter(|_| is_about_one).map(|kv| kv.mod_revision);
    seen.or(returned.response.changed().then_some(returned.revision))
}

/// A read of a key as the replica has it.
fn peek(key: u8) -> Rc<Request> {
    let mut range = requests::range(key);
    range.serializable = true;
    Rc::new(Request::Range(range))
}
