//! Random steps over few keys, leases and watches, so that they meet.
//!
//! A step is drawn from the seed, its own number, and what is known of the system: so a step can be
//! left out of a sequence and the others keep their meaning.

mod users;
mod watches;

use bytes::Bytes;
use fastrand::Rng;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest,
    RequestOp, SortOrder, SortTarget, TxnRequest,
};

use super::leases::CHOSEN;
use super::step::{Action, Step};
use super::world::World;

/// The step with this number.
pub(crate) fn step(seed: u64, number: u64, world: &World) -> Step {
    let mut draw = Draw {
        // Neighbours must not resemble each other.
        rng: Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.rotate_left(32)),
        world,
    };
    draw.rng.u64(..);
    let action = draw.action();
    Step {
        endpoint: draw.rng.usize(..64),
        in_json: draw.one_in(4),
        caller: draw.caller(&action),
        action,
    }
}

struct Draw<'a> {
    rng: Rng,
    world: &'a World,
}

impl Draw<'_> {
    fn action(&mut self) -> Action {
        if self.world.is_full && self.one_in(8) {
            return Action::Disarm;
        }
        if self.world.accounts.enabled && self.one_in(14) {
            return Action::Users(self.user_action());
        }
        match self.rng.u8(..100) {
            0..20 => Action::Put(self.put()),
            20..23 => Action::Users(self.user_action()),
            23 => self.alarm_action(),
            24..30 => Action::DeleteRange(self.delete()),
            30..42 => Action::Range(self.range()),
            42..46 => Action::RangeStream(self.streamed_range()),
            46..64 => {
                let mut txn = self.txn(2);
                if ops(&txn).any(deletes_from_a_key) {
                    keep_nothing(&mut txn);
                }
                Action::Txn(txn)
            }
            64..67 => Action::Compact(self.compaction()),
            67..80 => self.lease_action(),
            80..92 => self.watch_action(),
            92..94 => Action::Settle,
            _ => self.maintenance(),
        }
    }

    fn alarm_action(&mut self) -> Action {
        match self.rng.u8(..5) {
            // Every member of a cluster raises one of its own.
            0..2 if !self.world.is_full => Action::PutTooMuch {
                key: Bytes::from_static(b"too much"),
            },
            0..4 => Action::RaiseNoSpace,
            _ => Action::WhileCorrupt(vec![
                Action::Put(self.put()),
                Action::DeleteRange(self.delete()),
                Action::Revoke { id: self.lease() },
            ]),
        }
    }

    fn lease_action(&mut self) -> Action {
        match self.rng.u8(..16) {
            0..4 => Action::Grant(LeaseGrantRequest {
                // Long enough not to expire while a sequence runs, or refused.
                ttl: match self.rng.u8(..10) {
                    0 => 9_000_000_000,
                    1 => 9_000_000_001,
                    2 => i64::MAX,
                    _ => self.rng.i64(500..100_000),
                },
                id: match self.rng.u8(..3) {
                    0 => 0,
                    _ => self.given_lease(),
                },
            }),
            4 => Action::GrantBriefly(LeaseGrantRequest {
                ttl: self.rng.i64(-1..4),
                id: self.rng.i64(0..3) * 100,
            }),
            5..7 => Action::Revoke { id: self.lease() },
            7..9 => {
                let count = self.rng.usize(1..4);
                Action::KeepAlive((0..count).map(|_| self.lease()).collect())
            }
            9..12 => Action::TimeToLive {
                id: self.lease(),
                keys: self.rng.bool(),
            },
            12 => Action::Leases,
            13..15 => Action::Lock {
                lease: self.held_lease(),
            },
            _ => Action::Elect {
                lease: self.held_lease(),
                value: self.value(),
            },
        }
    }

    /// A lease under which a queue is stood in: its number is part of keys, so that both systems must have the same.
    fn held_lease(&mut self) -> i64 {
        match self.given_lease() {
            0 => 1,
            lease => lease,
        }
    }

    fn maintenance(&mut self) -> Action {
        match self.rng.u8(..12) {
            0..2 => Action::Status,
            2..6 => Action::HashKv {
                // etcd keeps the digests it takes while it compacts, and answers with one of those.
                revision: match self.revision() {
                    known if self.world.compactions.contains(&known) => -1,
                    revision => revision,
                },
            },
            6 => Action::Hash,
            7 => Action::Alarms,
            8 => Action::Defragment,
            9 => Action::MoveLeader { target_id: 99 },
            _ => Action::Members {
                linearizable: self.rng.bool(),
            },
        }
    }

    /// A range as it may be read in several messages, most of the time.
    fn streamed_range(&mut self) -> RangeRequest {
        let mut drawn = self.range();
        if drawn.sort_order == SortOrder::None as i32 {
            // etcd sorts every message for itself.
            drawn.sort_target = SortTarget::Key as i32;
        }
        if self.one_in(4) {
            return drawn;
        }
        RangeRequest {
            key: drawn.key,
            range_end: drawn.range_end,
            limit: drawn.limit,
            revision: drawn.revision,
            serializable: drawn.serializable,
            keys_only: drawn.keys_only,
            count_only: drawn.count_only,
            ..RangeRequest::default()
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    fn key(&mut self) -> Bytes {
        // Go's way to sort keeps the order of equals up to a dozen of them, and not beyond.
        const KEYS: [&[u8]; 12] = [
            b"a",
            b"a",
            b"aa",
            b"b",
            b"b/",
            b"b/1",
            b"b/2",
            b"c",
            b"\0",
            b"a\0",
            b"\xff",
            b"\xff\xff",
        ];
        if self.one_in(40) {
            return Bytes::new();
        }
        Bytes::from_static(KEYS[self.rng.usize(..KEYS.len())])
    }

    /// The end of a range that begins with `key`.
    fn end(&mut self, key: &Bytes) -> Bytes {
        match self.rng.u8(..8) {
            0..3 => Bytes::new(),
            3 => Bytes::from_static(b"\0"),
            4 => [key, &b"\0"[..]].concat().into(),
            5 => prefix_end(key),
            _ => self.key(),
        }
    }

    fn value(&mut self) -> Bytes {
        let length = self.rng.usize(..3);
        (0..length)
            .map(|_| self.rng.choice([b'0', b'1', 0, 0xff]).unwrap_or_default())
            .collect()
    }

    /// A lease with a number of the client's choice.
    fn given_lease(&mut self) -> i64 {
        match self.rng.u8(..12) {
            0 => -7,
            1 => i64::MAX,
            _ => self.rng.i64(1..5),
        }
    }

    /// Some lease, which may exist.
    fn lease(&mut self) -> i64 {
        match self.world.chosen_leases {
            0 => self.given_lease(),
            chosen if self.rng.bool() => CHOSEN + self.rng.i64(0..=chosen),
            _ => self.given_lease(),
        }
    }

    /// A revision of any kind: readable, compacted, to come, none.
    fn revision(&mut self) -> i64 {
        let (revision, compacted) = (self.world.revision, self.world.compacted.max(1));
        match self.rng.u8(..14) {
            0..5 => 0,
            5 => compacted - self.rng.i64(0..3),
            6 => revision + self.rng.i64(-1..4),
            7 => -self.rng.i64(1..3),
            8 => self.rng.choice([i64::MAX, i64::MIN, 1]).unwrap_or_default(),
            _ => self.rng.i64(compacted..=revision.max(compacted)),
        }
    }

    fn put(&mut self) -> PutRequest {
        let ignore_value = self.one_in(6);
        let ignore_lease = self.one_in(8);
        PutRequest {
            key: self.key(),
            value: if ignore_value && !self.one_in(8) {
                Bytes::new()
            } else {
                self.value()
            },
            lease: if self.one_in(3) && (!ignore_lease || self.one_in(8)) {
                self.lease()
            } else {
                0
            },
            prev_kv: self.rng.bool(),
            ignore_value,
            ignore_lease,
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let key = self.key();
        DeleteRangeRequest {
            range_end: self.end(&key),
            key,
            prev_kv: self.rng.bool(),
        }
    }

    fn range(&mut self) -> RangeRequest {
        let key = self.key();
        let mut request = RangeRequest {
            range_end: self.end(&key),
            key,
            limit: match self.rng.u8(..4) {
                0 => self.rng.i64(-1..4),
                _ => 0,
            },
            revision: self.revision(),
            sort_order: self.enumeration(3),
            sort_target: self.enumeration(5),
            serializable: self.one_in(6),
            keys_only: self.one_in(6),
            count_only: self.one_in(8),
            ..RangeRequest::default()
        };
        if self.one_in(3) {
            let highest = self.world.revision + 2;
            let mut bound = || match self.rng.u8(..3) {
                0 => self.rng.i64(-1..highest),
                _ => 0,
            };
            request.min_mod_revision = bound();
            request.max_mod_revision = bound();
            request.min_create_revision = bound();
            request.max_create_revision = bound();
        }
        request
    }

    /// A value of an enumeration, seldom one that is none.
    fn enumeration(&mut self, variants: i32) -> i32 {
        if self.one_in(30) {
            return self.rng.choice([variants, -1]).unwrap_or_default();
        }
        self.rng.i32(0..variants)
    }

    fn compaction(&mut self) -> CompactionRequest {
        let compacted = self.world.compacted;
        let near = (compacted + 30).min(self.world.revision + 1);
        CompactionRequest {
            revision: match self.rng.u8(..8) {
                0 => self.revision(),
                _ => self.rng.i64(compacted..=near.max(compacted)),
            },
            physical: self.rng.bool(),
        }
    }

    fn compare(&mut self) -> Compare {
        let revision = self.world.revision;
        let number = self.rng.i64(0..=revision);
        let key = self.key();
        let mut compare = Compare {
            result: self.enumeration(4),
            target: self.enumeration(5),
            range_end: if self.one_in(3) {
                self.end(&key)
            } else {
                Bytes::new()
            },
            key,
            target_union: match self.rng.u8(..8) {
                0 => Some(TargetUnion::Version(number.min(3))),
                1 => Some(TargetUnion::CreateRevision(number)),
                2 => Some(TargetUnion::ModRevision(number)),
                3 | 4 => Some(TargetUnion::Value(self.value())),
                5 | 6 => Some(TargetUnion::Lease(self.lease())),
                _ => None,
            },
        };
        if let Some(TargetUnion::Lease(lease)) = compare.target_union {
            // Which of two chosen numbers is the greater is every system's own affair.
            let ordered = [CompareResult::Greater, CompareResult::Less];
            if lease >= CHOSEN && ordered.iter().any(|o| *o as i32 == compare.result) {
                compare.result = CompareResult::NotEqual as i32;
            }
        }
        compare
    }

    fn txn(&mut self, depth: u32) -> TxnRequest {
        let mut txn = TxnRequest {
            compare: (0..self.rng.usize(..3)).map(|_| self.compare()).collect(),
            success: self.ops(depth),
            failure: self.ops(depth),
        };
        if self.one_in(60) {
            // One operation more than allowed, or just as many.
            let count = self.rng.usize(128..130);
            let read = self.range();
            txn.success = vec![Request::RequestRange(read).into(); count];
        }
        txn
    }

    fn ops(&mut self, depth: u32) -> Vec<RequestOp> {
        (0..self.rng.usize(..4)).map(|_| self.op(depth)).collect()
    }

    fn op(&mut self, depth: u32) -> RequestOp {
        let request = match self.rng.u8(..48) {
            0..20 => Request::RequestPut(self.put()),
            20..27 => Request::RequestDeleteRange(self.delete()),
            27..34 if depth > 0 => Request::RequestTxn(self.txn(depth - 1)),
            47 => return RequestOp::default(),
            _ => Request::RequestRange(RangeRequest {
                // A transaction is as linearizable as its least linearizable read.
                serializable: false,
                ..self.range()
            }),
        };
        request.into()
    }
}

fn ops(txn: &TxnRequest) -> impl Iterator<Item = &RequestOp> {
    txn.success.iter().chain(&txn.failure)
}

/// Whether an operation deletes every key from one on.
fn deletes_from_a_key(op: &RequestOp) -> bool {
    match &op.request {
        Some(Request::RequestDeleteRange(delete)) => delete.range_end[..] == [0],
        Some(Request::RequestTxn(inner)) => ops(inner).any(deletes_from_a_key),
        _ => false,
    }
}

/// Makes every put bring value and lease. Keeping those of a key that the same transaction has
/// deleted ends an etcd 3.7 with a panic.
fn keep_nothing(txn: &mut TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match &mut op.request {
            Some(Request::RequestPut(put)) => {
                (put.ignore_value, put.ignore_lease) = (false, false);
            }
            Some(Request::RequestTxn(inner)) => keep_nothing(inner),
            _ => {}
        }
    }
}

/// The end of the range of all keys with this prefix; everything from it on when there is none.
fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(b"\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_depends_on_nothing_but_seed_number_and_world() {
        let world = World::default();
        let all = |seed| (0..300).map(move |number| step(seed, number, &World::default()));
        assert!(all(3).eq(all(3)));
        assert!(!all(3).eq(all(4)));
        assert_eq!(step(3, 17, &world), all(3).nth(17).expect("so many"));
    }

    #[test]
    fn the_end_of_a_prefix_is_the_least_key_after_it() {
        assert_eq!(&prefix_end(b"ab")[..], b"ac");
        assert_eq!(&prefix_end(b"a\xff")[..], b"b");
        assert_eq!(&prefix_end(b"\xff")[..], b"\0");
    }
}
