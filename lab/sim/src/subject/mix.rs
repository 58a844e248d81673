//! Requests of every kind etcd knows: transactions of several keys, ranges in all their forms,
//! deletions of ranges, keys that go with leases.
//!
//! They are drawn from a generator of their own, so that the rest of a seed does not depend on it.

use super::{Ask, Who};
use crate::judge::Request;
use crate::requests::{self, modified, name, part};
use bytes::Bytes;
use fastrand::Rng;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use std::rc::Rc;

/// How far back a read of the past goes at most, and how far ahead of what is known.
const PAST_MAX: i64 = 80;
const FUTURE_MAX: i64 = 40;

/// Draws requests of every kind.
pub(super) struct Mix {
    rng: Rng,
    keys: u8,
}

/// What is known when a request is drawn.
pub(super) struct Known<'a> {
    pub(super) who: &'a Who,
    /// The revision at which the client last saw each key modified.
    pub(super) modified: &'a [i64],
}

impl Mix {
    pub(super) fn new(rng: Rng, keys: u8) -> Mix {
        Mix { rng, keys }
    }

    /// A request, half of the time.
    pub(super) fn draw(&mut self, known: &Known<'_>, value: &mut u64) -> Option<Ask<Request>> {
        if self.rng.bool() {
            return None;
        }
        let change = match self.rng.u8(..12) {
            0..=4 => Request::Txn(self.txn(known, value)),
            5 | 6 => Request::Put(self.put(known, value)),
            7 => Request::Delete(self.delete_range()),
            8 => return Some(Ask::Read(Rc::new(Request::Txn(self.reads(known))))),
            9 => {
                let mut range = self.range(known);
                range.serializable = true;
                return Some(Ask::Peek(Rc::new(Request::Range(range))));
            }
            _ => return Some(Ask::Read(Rc::new(Request::Range(self.range(known))))),
        };
        let change = Rc::new(change);
        Some(match self.rng.bool() {
            true => Ask::Command(change),
            false => Ask::Write(change),
        })
    }

    /// Compares, then writes distinct keys and reads among them, in either branch.
    fn txn(&mut self, known: &Known<'_>, value: &mut u64) -> TxnRequest {
        let compares = self.rng.u8(..3);
        let mut txn = TxnRequest {
            compare: (0..compares).map(|_| self.compare(known)).collect(),
            success: self.writes(known, value),
            failure: Vec::new(),
        };
        txn.failure = match self.rng.u8(..3) {
            0 => self.writes(known, value),
            1 => vec![part(Part::RequestRange(self.range(known)))],
            _ => Vec::new(),
        };
        if self.rng.u8(..6) == 0 {
            let reads = self.reads(known);
            txn.success.push(part(Part::RequestTxn(reads)));
        }
        txn
    }

    /// A transaction that only reads.
    fn reads(&mut self, known: &Known<'_>) -> TxnRequest {
        let some = |mix: &mut Mix| {
            let count = mix.rng.u8(1..=2);
            let ranges = (0..count).map(|_| part(Part::RequestRange(mix.range(known))));
            ranges.collect::<Vec<_>>()
        };
        TxnRequest {
            success: some(self),
            failure: some(self),
            compare: vec![self.compare(known)],
        }
    }

    fn writes(&mut self, known: &Known<'_>, value: &mut u64) -> Vec<RequestOp> {
        if self.rng.u8(..6) == 0 {
            return vec![part(Part::RequestDeleteRange(self.delete_range()))];
        }
        let mut keys: Vec<u8> = (0..self.keys).collect();
        self.rng.shuffle(&mut keys);
        keys.truncate(self.rng.usize(1..=4));
        let mut ops = Vec::new();
        for key in keys {
            let write = match self.rng.u8(..4) {
                0 => Part::RequestDeleteRange(DeleteRangeRequest {
                    prev_kv: self.rng.bool(),
                    ..requests::delete(key)
                }),
                _ => Part::RequestPut(PutRequest {
                    key: name(key),
                    ..self.put(known, value)
                }),
            };
            ops.push(part(write));
            if self.rng.u8(..4) == 0 {
                // It sees what the operations before it did.
                ops.push(part(Part::RequestRange(self.range(known))));
            }
        }
        ops
    }

    fn put(&mut self, known: &Known<'_>, value: &mut u64) -> PutRequest {
        *value += 1;
        let lease = match self.rng.u8(..3) {
            0 => self.rng.choice(&known.who.leases).copied(),
            _ => None,
        };
        PutRequest {
            lease: lease.unwrap_or(0),
            prev_kv: self.rng.bool(),
            ..requests::put(self.rng.u8(..self.keys), *value - 1)
        }
    }

    fn delete_range(&mut self) -> DeleteRangeRequest {
        let (key, range_end) = self.span();
        DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.rng.bool(),
        }
    }

    fn range(&mut self, known: &Known<'_>) -> RangeRequest {
        let (key, range_end) = self.span();
        let revision = match self.rng.u8(..12) {
            0..=2 => (known.who.newest - self.rng.i64(0..PAST_MAX)).max(0),
            3 => known.who.newest + self.rng.i64(0..FUTURE_MAX),
            _ => 0,
        };
        RangeRequest {
            key,
            range_end,
            revision,
            limit: [0, 0, 1, 2][self.rng.usize(..4)],
            count_only: self.rng.u8(..6) == 0,
            keys_only: self.rng.u8(..6) == 0,
            sort_order: [0, 0, 1, 2][self.rng.usize(..4)],
            sort_target: [0, 0, 3][self.rng.usize(..3)],
            ..RangeRequest::default()
        }
    }

    /// One register, some, all of them and what comes after, or the keys that go with leases.
    fn span(&mut self) -> (Bytes, Bytes) {
        let key = self.rng.u8(..self.keys);
        match self.rng.u8(..8) {
            0 | 1 => (name(key), Bytes::new()),
            2..=4 => (name(key), name(self.rng.u8(key..=self.keys))),
            5 => requests::leased(),
            6 => (name(key), Bytes::from_static(b"\0")),
            _ => requests::registers(),
        }
    }

    fn compare(&mut self, known: &Known<'_>) -> Compare {
        let key = self.rng.u8(..self.keys);
        let mut compare = modified(key, known.modified[usize::from(key)]);
        let (target, union) = match self.rng.u8(..6) {
            0 => (
                CompareTarget::Version,
                TargetUnion::Version(self.rng.i64(0..4)),
            ),
            1 => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
            2 => (CompareTarget::Lease, TargetUnion::Lease(0)),
            _ => return compare,
        };
        let results = [
            CompareResult::Equal,
            CompareResult::Greater,
            CompareResult::NotEqual,
        ];
        compare.result = results[self.rng.usize(..3)] as i32;
        (compare.target, compare.target_union) = (target as i32, Some(union));
        if self.rng.bool() {
            compare.range_end = requests::registers().1;
        }
        compare
    }
}
