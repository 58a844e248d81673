//! Leases whose number the server chose: every system has its own, so sequences and answers call
//! them by the order in which they were granted.

use quorate_etcd_api::etcdserverpb::compare::TargetUnion;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeResponse, PutResponse, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, KeyValue};

/// The name of the first lease whose number was chosen; the others follow.
pub(crate) const CHOSEN: i64 = 1 << 40;

/// The numbers one system has chosen.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    chosen: Vec<i64>,
}

impl Leases {
    /// Names a number that was just chosen.
    pub(crate) fn name(&mut self, id: i64) -> i64 {
        self.chosen.push(id);
        self.shown(id)
    }

    /// The number behind a name; any other number is its own.
    pub(crate) fn real(&self, name: i64) -> i64 {
        let index = usize::try_from(name.wrapping_sub(CHOSEN)).ok();
        let chosen = index.and_then(|index| self.chosen.get(index));
        chosen.copied().unwrap_or(name)
    }

    /// The name of a number.
    pub(crate) fn shown(&self, id: i64) -> i64 {
        let index = self.chosen.iter().position(|chosen| *chosen == id);
        index.map_or(id, |index| CHOSEN + index as i64)
    }

    /// Puts numbers for names.
    pub(crate) fn translate(&self, txn: &mut TxnRequest) {
        for compare in &mut txn.compare {
            if let Some(TargetUnion::Lease(id)) = &mut compare.target_union {
                *id = self.real(*id);
            }
        }
        for op in txn.success.iter_mut().chain(&mut txn.failure) {
            self.translate_op(op);
        }
    }

    fn translate_op(&self, op: &mut RequestOp) {
        match &mut op.request {
            Some(Request::RequestPut(put)) => put.lease = self.real(put.lease),
            Some(Request::RequestTxn(inner)) => self.translate(inner),
            _ => {}
        }
    }

    /// Puts names for numbers.
    pub(crate) fn show_range(&self, response: &mut RangeResponse) {
        self.show(&mut response.kvs);
    }

    /// Puts names for numbers.
    pub(crate) fn show_put(&self, response: &mut PutResponse) {
        self.show(&mut response.prev_kv);
    }

    /// Puts names for numbers.
    pub(crate) fn show_delete(&self, response: &mut DeleteRangeResponse) {
        self.show(&mut response.prev_kvs);
    }

    /// Puts names for numbers.
    pub(crate) fn show_txn(&self, response: &mut TxnResponse) {
        for op in &mut response.responses {
            match &mut op.response {
                Some(Response::ResponseRange(range)) => self.show_range(range),
                Some(Response::ResponsePut(put)) => self.show_put(put),
                Some(Response::ResponseDeleteRange(delete)) => self.show_delete(delete),
                Some(Response::ResponseTxn(inner)) => self.show_txn(inner),
                None => {}
            }
        }
    }

    /// Puts names for numbers.
    pub(crate) fn show_event(&self, event: &mut Event) {
        self.show(&mut event.kv);
        self.show(&mut event.prev_kv);
    }

    fn show<'a>(&self, kvs: impl IntoIterator<Item = &'a mut KeyValue>) {
        for kv in kvs {
            kv.lease = self.shown(kv.lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_numbers_go_by_name_and_given_ones_stay() {
        let mut leases = Leases::default();
        assert_eq!(leases.name(777), CHOSEN);
        assert_eq!(leases.name(-3), CHOSEN + 1);
        for id in [777, -3, 5, i64::MIN] {
            assert_eq!(leases.real(leases.shown(id)), id);
        }
        // Nobody has chosen it: every system is asked for the same number.
        assert_eq!(leases.real(CHOSEN + 2), CHOSEN + 2);
    }
}
