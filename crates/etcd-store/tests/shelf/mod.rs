//! A store whose values are kept as payloads, and a shelf in memory that keeps them: what a host and a
//! face do together, without either.

use bytes::Bytes;
use prost::Message;
use quorate_core::{Application, At, EntryId, Payload, PayloadId};
use quorate_etcd_api::etcdserverpb::{PutRequest, TxnRequest, TxnResponse};
use quorate_etcd_store::command::{self, Command};
use quorate_etcd_store::{
    Applied, PendingResponse, Query, QueryAnswer, Refused, Store, ValueRef, decode_result,
    event_value_refs, fill_events, ordering,
};
use std::collections::BTreeMap;

/// The first payload of every command is not the first of its entry.
const PART: u32 = 3;

pub(crate) struct Shelved {
    pub(crate) store: Store,
    /// Values of this length and more are kept on the shelf.
    bytes_min: Option<usize>,
    shelf: BTreeMap<PayloadId, Bytes>,
    /// Entries applied so far: each command is one.
    entries: u64,
    /// Conditions that had to be decided outside the store.
    pub(crate) decided: u64,
    /// Payloads that were dead.
    pub(crate) died: usize,
}

impl Shelved {
    /// A store that keeps values of so many bytes and more on the shelf, and answers reads of more
    /// than so many keys in slices.
    pub(crate) fn new(bytes_min: Option<usize>, slices_of: usize) -> Self {
        Shelved {
            store: Store::new().with_slices_of(slices_of),
            bytes_min,
            shelf: BTreeMap::new(),
            entries: 0,
            decided: 0,
            died: 0,
        }
    }

    /// Applies a command, given in the form without payloads, and gives its whole result.
    pub(crate) fn apply(&mut self, body: &Bytes) -> Result<Applied, Refused> {
        match Command::decode(body) {
            Ok(Command::Put(put)) => self.put(put),
            Ok(Command::Txn(txn)) => self.txn(txn),
            _ => self.order(body, &[]),
        }
    }

    pub(crate) fn put(&mut self, put: PutRequest) -> Result<Applied, Refused> {
        let (body, payloads) = command::split_put(put, self.bytes_min);
        self.order(&body, &payloads)
    }

    /// Applies a transaction, whose conditions are decided here if the store cannot.
    pub(crate) fn txn(&mut self, txn: TxnRequest) -> Result<Applied, Refused> {
        let (body, payloads) = command::split_txn(txn.clone(), self.bytes_min);
        match self.order(&body, &payloads) {
            Err(Refused::NeedsValue) => {}
            applied => return applied,
        }
        let decided = self.decide(txn);
        let (body, payloads) = command::split_txn(decided, self.bytes_min);
        let applied = self.order(&body, &payloads)?;
        let outer = TxnResponse::decode(applied.response).expect("the store encodes it");
        let inner = ordering::answer(outer).expect("nothing changed in between");
        let response = inner.encode_to_vec().into();
        Ok(Applied {
            response,
            ..applied
        })
    }

    pub(crate) fn query(&mut self, query: &Query) -> QueryAnswer {
        let answer = self.filled(self.store.query(query));
        match (query, answer) {
            (Query::Txn(txn), QueryAnswer::Refused(Refused::NeedsValue)) => {
                let decided = Query::Txn(self.decide(txn.clone()));
                match self.filled(self.store.query(&decided)) {
                    QueryAnswer::Txn(outer) => {
                        let inner = ordering::answer(outer);
                        QueryAnswer::Txn(inner.expect("nothing changed in between"))
                    }
                    other => other,
                }
            }
            (_, answer) => answer,
        }
    }

    pub(crate) fn tidy(&mut self) -> bool {
        let more = self.store.tidy();
        self.clear();
        more
    }

    /// The values of these.
    pub(crate) fn values(&self, references: &[ValueRef]) -> Vec<Bytes> {
        let value = |reference: &ValueRef| {
            let value = self
                .shelf
                .get(&reference.id)
                .expect("it can be read, so it lives");
            assert!(reference.payload().is(value), "another's value");
            value.clone()
        };
        references.iter().map(value).collect()
    }

    fn decide(&mut self, txn: TxnRequest) -> TxnRequest {
        self.decided += 1;
        let question = self.store.query(&Query::Txn(ordering::question(&txn)));
        let QueryAnswer::Txn(read) = self.filled(question) else {
            panic!("what is there can be read");
        };
        ordering::decided(txn, &read)
    }

    fn order(&mut self, body: &Bytes, payloads: &[Payload]) -> Result<Applied, Refused> {
        self.entries += 1;
        let first = PayloadId {
            entry: EntryId {
                seq: self.entries,
                ..EntryId::default()
            },
            part: PART,
        };
        let at = At {
            payload: first,
            ..At::default()
        };
        let mut id = first;
        for payload in payloads {
            let bytes = payload.bytes.clone().expect("it was just split off");
            self.shelf.insert(id, bytes);
            id.part += 1;
        }
        let result = self.store.apply(at, body, payloads);
        let applied = decode_result(&result);
        // As it was when the command was applied: what it says may be compacted right after.
        let applied = applied.map(|applied| self.whole(body, applied));
        self.clear();
        applied
    }

    fn whole(&self, body: &Bytes, applied: Applied) -> Applied {
        if !applied.has_pending_values {
            return applied;
        }
        let unfilled =
            PendingResponse::of_result(body, &applied).expect("it is the command's result");
        let references = unfilled.references().expect("the store encodes them");
        assert!(!references.is_empty());
        let response = unfilled.encode(self.values(&references));
        Applied {
            response,
            has_pending_values: false,
            ..applied
        }
    }

    pub(crate) fn filled(&self, answer: QueryAnswer) -> QueryAnswer {
        match answer {
            QueryAnswer::Large(mut read) => {
                while let Some(rest) = read.next() {
                    match self.store.query(&rest) {
                        QueryAnswer::RangePart(part) => read.add(part),
                        other => return other,
                    }
                }
                self.filled(read.finish())
            }
            QueryAnswer::PendingResponse(unfilled) => {
                let references = unfilled.references().expect("the store encodes them");
                assert!(!references.is_empty());
                let filled = unfilled.fill(self.values(&references));
                filled.expect("it is the answer to a read")
            }
            QueryAnswer::Events(mut found) => {
                let references = event_value_refs(&found.events);
                let references = references.expect("the store encodes them");
                fill_events(&mut found.events, self.values(&references));
                QueryAnswer::Events(found)
            }
            answer => answer,
        }
    }

    /// Takes from the shelf what is dead: every payload dies once, and the rest is what lives.
    fn clear(&mut self) {
        for id in self.store.take_dead() {
            assert!(!self.store.is_live(id));
            assert!(self.shelf.remove(&id).is_some(), "{id:?} died twice");
            self.died += 1;
        }
        let live = self.store.live(None, usize::MAX);
        assert!(live.iter().map(|(id, _)| id).eq(self.shelf.keys()));
        for ((id, payload), value) in live.iter().zip(self.shelf.values()) {
            assert!(self.store.is_live(*id) && payload.is(value));
        }
    }
}
