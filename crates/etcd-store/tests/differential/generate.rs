//! Random requests over few keys and few values, so that they meet.

use bytes::Bytes;
use fastrand::Rng;
use quorate_etcd_api::etcdserverpb::compare::TargetUnion;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

pub(crate) struct Generator {
    pub(crate) rng: Rng,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator {
            rng: Rng::with_seed(seed),
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    fn key(&mut self) -> Bytes {
        let length = self.rng.usize(1..3);
        (0..length).map(|_| self.rng.u8(b'a'..=b'd')).collect()
    }

    fn end(&mut self) -> Bytes {
        match self.rng.u8(..4) {
            0 => Bytes::new(),
            1 => Bytes::from_static(b"\0"),
            _ => self.key(),
        }
    }

    fn value(&mut self) -> Bytes {
        let length = self.rng.usize(..3);
        (0..length).map(|_| self.rng.u8(b'0'..=b'2')).collect()
    }

    pub(crate) fn put(&mut self) -> PutRequest {
        let ignore_value = self.one_in(6);
        PutRequest {
            key: self.key(),
            value: if ignore_value {
                Bytes::new()
            } else {
                self.value()
            },
            lease: if self.one_in(4) { self.lease() } else { 0 },
            prev_kv: self.rng.bool(),
            ignore_value,
            ignore_lease: self.one_in(8),
        }
    }

    pub(crate) fn lease(&mut self) -> i64 {
        self.rng.i64(1..4)
    }

    pub(crate) fn delete(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest {
            key: self.key(),
            range_end: self.end(),
            prev_kv: self.rng.bool(),
        }
    }

    pub(crate) fn range(&mut self, revision: i64) -> RangeRequest {
        let mut request = RangeRequest {
            key: self.key(),
            range_end: self.end(),
            limit: self.rng.i64(-1..6),
            sort_order: self.rng.i32(0..3),
            sort_target: self.rng.i32(0..5),
            keys_only: self.one_in(6),
            count_only: self.one_in(8),
            ..RangeRequest::default()
        };
        if self.rng.bool() {
            request.revision = self.rng.i64(-3..revision + 2);
        }
        if self.one_in(3) {
            let mut bound = || self.rng.i64(0..revision + 2);
            request.min_mod_revision = bound() / 2;
            request.max_mod_revision = bound();
            request.min_create_revision = bound() / 3;
            request.max_create_revision = bound();
        }
        request
    }

    pub(crate) fn compaction(&mut self, revision: i64, compacted: i64) -> CompactionRequest {
        let near = (compacted + 12).clamp(compacted + 1, revision + 1);
        CompactionRequest {
            revision: self.rng.i64(compacted..=near),
            physical: self.rng.bool(),
        }
    }

    fn compare(&mut self, revision: i64) -> Compare {
        let number = self.rng.i64(0..revision + 1);
        Compare {
            result: self.rng.i32(0..5),
            target: self.rng.i32(0..6),
            key: self.key(),
            range_end: if self.one_in(3) {
                self.end()
            } else {
                Bytes::new()
            },
            target_union: match self.rng.u8(..7) {
                0 => Some(TargetUnion::Version(number.min(3))),
                1 => Some(TargetUnion::CreateRevision(number)),
                2 => Some(TargetUnion::ModRevision(number)),
                3 | 4 => Some(TargetUnion::Value(self.value())),
                5 => Some(TargetUnion::Lease(self.rng.i64(0..4))),
                _ => None,
            },
        }
    }

    pub(crate) fn txn(&mut self, depth: u32, revision: i64) -> TxnRequest {
        TxnRequest {
            compare: (0..self.rng.usize(..3))
                .map(|_| self.compare(revision))
                .collect(),
            success: self.ops(depth, revision),
            failure: self.ops(depth, revision),
        }
    }

    fn ops(&mut self, depth: u32, revision: i64) -> Vec<RequestOp> {
        (0..self.rng.usize(..4))
            .map(|_| {
                let request = match self.rng.u8(..8) {
                    0..=2 => Request::RequestPut(self.put()),
                    3 => Request::RequestDeleteRange(self.delete()),
                    4 if depth > 0 => Request::RequestTxn(self.txn(depth - 1, revision)),
                    _ => Request::RequestRange(self.range(revision - 1)),
                };
                request.into()
            })
            .collect()
    }
}

/// Leaves only the reads of a transaction.
pub(crate) fn keep_reads(txn: &mut TxnRequest) {
    for ops in [&mut txn.success, &mut txn.failure] {
        ops.retain_mut(|op| match &mut op.request {
            Some(Request::RequestRange(_)) => true,
            Some(Request::RequestTxn(inner)) => {
                keep_reads(inner);
                true
            }
            _ => false,
        });
    }
}
