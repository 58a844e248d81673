//! A transaction after its conditions are known.

use crate::refused::Refused;
use crate::slice::FirstSlice;
use crate::value_refs::{PayloadParts, ValueRef};
use crate::view::View;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};

/// The branch a transaction takes, and the branches its inner transactions take.
///
/// All conditions are evaluated against the state before the transaction; then every operation is
/// admitted against that state; after that none can fail, so a transaction never stops half-way.
pub(crate) struct Plan<'a> {
    pub(crate) succeeded: bool,
    pub(crate) steps: Vec<Step<'a>>,
}

/// One operation of the branch taken.
pub(crate) enum Step<'a> {
    Range(&'a RangeRequest),
    /// With the value, if that is kept as a payload.
    Put(&'a PutRequest, Option<ValueRef>),
    Delete(&'a DeleteRangeRequest),
    Txn(Plan<'a>),
}

impl<'a> Plan<'a> {
    /// Decides the branches of a checked transaction.
    pub(crate) fn new(
        view: View<'_>,
        txn: &'a TxnRequest,
        parts: &mut PayloadParts<'_>,
    ) -> Result<Self, Refused> {
        let succeeded = view.all_hold(&txn.compare)?;
        let steps = if succeeded {
            let steps = Plan::steps(view, &txn.success, parts)?;
            parts.skip(&txn.failure);
            steps
        } else {
            parts.skip(&txn.success);
            Plan::steps(view, &txn.failure, parts)?
        };
        Ok(Plan { succeeded, steps })
    }

    fn steps(
        view: View<'_>,
        taken: &'a [RequestOp],
        parts: &mut PayloadParts<'_>,
    ) -> Result<Vec<Step<'a>>, Refused> {
        let requests = taken.iter().filter_map(|op| op.request.as_ref());
        let step = |request: &'a Request| {
            Ok(match request {
                Request::RequestRange(range) => Step::Range(range),
                Request::RequestPut(put) => Step::Put(put, parts.next()),
                Request::RequestDeleteRange(delete) => Step::Delete(delete),
                Request::RequestTxn(inner) => Step::Txn(Plan::new(view, inner, parts)?),
            })
        };
        requests.map(step).collect()
    }

    /// Refuses the transaction if one of its operations cannot be done.
    pub(crate) fn admit(&self, view: View<'_>) -> Result<(), Refused> {
        self.steps.iter().try_for_each(|step| match step {
            Step::Range(range) => admit_range(view, range),
            Step::Put(put, _) => admit_put(view, put),
            Step::Delete(_) => Ok(()),
            Step::Txn(inner) => inner.admit(view),
        })
    }

    /// Answers an admitted transaction that only reads.
    pub(crate) fn read(
        &self,
        view: View<'_>,
        slice: &mut FirstSlice,
    ) -> Result<TxnResponse, Refused> {
        let responses = self.steps.iter().map(|step| {
            Ok(match step {
                Step::Range(range) => {
                    let revision = view.readable(range.revision)?;
                    Response::ResponseRange(slice.range(view, range, revision))
                }
                Step::Txn(inner) => Response::ResponseTxn(inner.read(view, slice)?),
                Step::Put(..) | Step::Delete(_) => return Err(Refused::Malformed),
            }
            .into())
        });
        Ok(TxnResponse {
            // Only the outermost transaction's header says something.
            header: Some(crate::view::header(0)),
            succeeded: self.succeeded,
            responses: responses.collect::<Result<_, _>>()?,
        })
    }
}

/// In a transaction a negative revision is a compacted one, unlike in a range request of its own.
fn admit_range(view: View<'_>, request: &RangeRequest) -> Result<(), Refused> {
    match request.revision {
        0 => Ok(()),
        wanted if wanted > view.revision => Err(Refused::FutureRevision),
        wanted if wanted < view.store.compacted => Err(Refused::Compacted),
        _ => Ok(()),
    }
}

/// A lease has to exist, and a put that keeps something needs something to keep.
pub(crate) fn admit_put(view: View<'_>, request: &PutRequest) -> Result<(), Refused> {
    if request.lease != 0 && !view.store.leases.exists(request.lease) {
        return Err(Refused::LeaseNotFound);
    }
    if (request.ignore_value || request.ignore_lease) && view.get(&request.key).is_none() {
        return Err(Refused::KeyNotFound);
    }
    Ok(())
}
