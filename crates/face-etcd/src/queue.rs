//! What locks and elections have in common: keys under one name, the first of which to be created has its turn.
//!
//! It is etcd's recipe, which its client libraries follow, too, so that callers of these services and users of such a
//! library may stand in one queue. A key is the name, `/`, and its lease in hexadecimal digits; it ends with the lease.

use crate::codec::decode;
use crate::face::{Face, mismatch, refused};
use crate::watch::Follower;
use bytes::Bytes;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseGrantResponse, PutRequest, RangeRequest,
    RangeResponse, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{EventType, KeyValue};
use quorate_etcd_store::{Asker, Query, QueryAnswer, check, command};
use quorate_server::Consistency;
use tokio::sync::oneshot;
use tonic::{Code, Status};

/// How long the lease of a client that names none lives. As in etcd nobody renews it.
const LEASE_S: i64 = 60;

/// Who stands in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The key that is the place.
    pub(crate) key: Bytes,
    /// The revision at which the key was created.
    pub(crate) created: i64,
    /// The lease that the key ends with.
    pub(crate) lease: i64,
    /// The store's revision when the place was taken, or found to be taken already.
    pub(crate) revision: i64,
    /// Whether an earlier call had taken it.
    was_there: bool,
}

/// A place whose turn has come.
pub(crate) struct Turn {
    /// The place at the head of the queue.
    pub(crate) place: Place,
    /// Whether others were before it.
    pub(crate) has_waited: bool,
}

impl Face {
    /// Takes a place in the queue of a name and waits for its turn. A value is announced from then on, even if the
    /// place was taken before. If whoever asks leaves before the turn is told, the place is given up.
    pub(crate) async fn wait_in_queue(
        &self,
        name: &Bytes,
        value: Option<Bytes>,
        lease: i64,
        asker: Asker,
    ) -> Result<Turn, Status> {
        let (mut answer, answered) = oneshot::channel();
        let (face, prefix) = (self.clone(), prefix(name));
        // On a task of its own, for whoever leaves drops this future, and a key may be there by then.
        tokio::spawn(async move {
            let place = match face.take_place(&prefix, value, lease, &asker).await {
                Ok(place) => place,
                Err(status) => return drop(answer.send(Err(status))),
            };
            let came = tokio::select! {
                came = face.wait_for_turn(&prefix, &place, &asker) => came,
                () = answer.closed() => Err(Status::cancelled("the client left")),
            };
            let is_given_up = came.is_err();
            // One that was there before may have been told to its client by an earlier call.
            let is_own = !place.was_there || came.as_ref().is_ok_and(|waited| *waited);
            let turn = came.map(|has_waited| Turn {
                place: place.clone(),
                has_waited,
            });
            let is_told = answer.send(turn).is_ok();
            if is_given_up || (!is_told && is_own) {
                // What fails here ends with its lease.
                let _ = face.give_up(&place.key, place.created, &asker).await;
            }
        });
        let ended = || Status::internal("the task that waits in the queue ended");
        answered.await.map_err(|_| ended())?
    }

    /// The lease that a client names, or one that it gets.
    pub(crate) async fn lease_or_new(&self, named: i64, asker: &Asker) -> Result<i64, Status> {
        if named != 0 {
            return Ok(named);
        }
        let request = LeaseGrantRequest {
            ttl: LEASE_S,
            id: 0,
        };
        let body = command::encode_lease_grant(&request);
        let granted = self
            .apply(body, Vec::new(), asker)
            .await?
            .map_err(refused)?;
        Ok(decode::<LeaseGrantResponse>(granted.response)?.id)
    }

    /// The first in the queue of a name, and the store's revision when it was looked for.
    pub(crate) async fn first_in_queue(
        &self,
        name: &Bytes,
        asker: &Asker,
    ) -> Result<(i64, Option<KeyValue>), Status> {
        let first = RangeRequest {
            sort_order: SortOrder::Ascend as i32,
            ..queue_of(&prefix(name))
        };
        self.find_one(first, asker).await
    }

    /// Writes a place's value, if it still exists. Gives the store's revision.
    pub(crate) async fn write_place(
        &self,
        key: &Bytes,
        created: i64,
        value: Bytes,
        lease: i64,
        asker: &Asker,
    ) -> Result<Option<i64>, Status> {
        let put = Request::RequestPut(PutRequest {
            key: key.clone(),
            value,
            lease,
            ..PutRequest::default()
        });
        let written = self.change_place(key, created, put, None, asker).await?;
        Ok(written.0.succeeded.then_some(written.1))
    }

    /// Gives a place up, if it still exists. Gives the store's revision.
    pub(crate) async fn give_up(
        &self,
        key: &Bytes,
        created: i64,
        asker: &Asker,
    ) -> Result<i64, Status> {
        let delete = Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.clone(),
            ..DeleteRangeRequest::default()
        });
        let given_up = self.change_place(key, created, delete, None, asker).await?;
        Ok(given_up.1)
    }

    /// The store's revision, if the key exists.
    pub(crate) async fn revision_if_exists(
        &self,
        key: &Bytes,
        asker: &Asker,
    ) -> Result<Option<i64>, Status> {
        let (revision, found) = self.find_one(one(key), asker).await?;
        Ok(found.map(|_| revision))
    }

    async fn take_place(
        &self,
        prefix: &Bytes,
        value: Option<Bytes>,
        lease: i64,
        asker: &Asker,
    ) -> Result<Place, Status> {
        let lease = self.lease_or_new(lease, asker).await?;
        let key = key(prefix, lease);
        let put = Request::RequestPut(PutRequest {
            key: key.clone(),
            value: value.clone().unwrap_or_default(),
            lease,
            ..PutRequest::default()
        });
        let otherwise = Request::RequestRange(one(&key));
        let taken = self
            .change_place(&key, 0, put, Some(otherwise), asker)
            .await?;
        let (response, revision) = taken;
        let (created, before) = match (response.succeeded, found_in(response)) {
            (true, _) => (revision, None),
            (false, Some(kv)) => (kv.create_revision, Some(kv.value)),
            (false, None) => return Err(mismatch()),
        };
        let place = Place {
            key,
            created,
            lease,
            revision,
            was_there: before.is_some(),
        };
        if let (Some(value), Some(before)) = (value, before)
            && value != before
        {
            self.announce(&place, value, asker).await?;
        }
        Ok(place)
    }

    /// Announces another value for a place that was taken before.
    async fn announce(&self, place: &Place, value: Bytes, asker: &Asker) -> Result<(), Status> {
        let written = self.write_place(&place.key, place.created, value, place.lease, asker);
        let announced = written
            .await
            .and_then(|written| written.ok_or_else(not_leader));
        if announced.is_err() {
            // As in etcd; what fails here ends with its lease.
            let _ = self.give_up(&place.key, place.created, asker).await;
        }
        announced.map(drop)
    }

    /// Waits until no key is there that was created before. Says whether there was one.
    async fn wait_for_turn(
        &self,
        prefix: &Bytes,
        place: &Place,
        asker: &Asker,
    ) -> Result<bool, Status> {
        let mut has_waited = false;
        loop {
            let last_before = RangeRequest {
                sort_order: SortOrder::Descend as i32,
                max_create_revision: place.created - 1,
                ..queue_of(prefix)
            };
            let (revision, before) = self.find_one(last_before, asker).await?;
            let Some(before) = before else {
                return Ok(has_waited);
            };
            has_waited = true;
            self.wait_until_deleted(before.key, revision + 1).await?;
        }
    }

    /// Waits until a key is deleted, or what became of it is compacted.
    async fn wait_until_deleted(&self, key: Bytes, from: i64) -> Result<(), Status> {
        let mut follower = Follower::new(self, key, Bytes::new(), from);
        while let Some(events) = follower.next().await? {
            let mut kinds = events.iter().map(|event| event.r#type);
            if kinds.any(|kind| kind == EventType::Delete as i32) {
                break;
            }
        }
        Ok(())
    }

    /// Does something if a key was created at this revision, 0 for a key that does not exist; otherwise something
    /// else. Gives the store's revision, too.
    async fn change_place(
        &self,
        key: &Bytes,
        created: i64,
        change: Request,
        otherwise: Option<Request>,
        asker: &Asker,
    ) -> Result<(TxnResponse, i64), Status> {
        let request = TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal as i32,
                target: CompareTarget::Create as i32,
                key: key.clone(),
                target_union: Some(TargetUnion::CreateRevision(created)),
                ..Compare::default()
            }],
            success: vec![change.into()],
            failure: otherwise.map(Into::into).into_iter().collect(),
        };
        check::txn(&request, self.limits.txn_ops_max).map_err(refused)?;
        let applied = self.apply_txn(request, asker).await?.map_err(refused)?;
        Ok((decode(applied.response)?, applied.revision))
    }

    /// The first key of a range, and the store's revision.
    async fn find_one(
        &self,
        request: RangeRequest,
        asker: &Asker,
    ) -> Result<(i64, Option<KeyValue>), Status> {
        let query = Query::Range(request);
        match self.read(query, Consistency::Linearizable, asker).await? {
            QueryAnswer::Range(RangeResponse { header, kvs, .. }) => {
                let revision = header.map_or(0, |header| header.revision);
                Ok((revision, kvs.into_iter().next()))
            }
            _ => Err(mismatch()),
        }
    }
}

/// Why the store refuses something, as etcd's services for queues tell it: they are clients of the store themselves,
/// and pass its words on without the code.
pub(crate) fn in_words(refusal: Status) -> Status {
    let message = refusal.message();
    let is_of_store = match refusal.code() {
        Code::NotFound
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::OutOfRange => true,
        Code::ResourceExhausted => message == errors::NO_SPACE.text,
        Code::DataLoss => message == errors::CORRUPT.text,
        _ => false,
    };
    match is_of_store {
        true => Status::unknown(message),
        false => refusal,
    }
}

/// A leadership that is over, or was none.
pub(crate) fn not_leader() -> Status {
    Status::unknown("election: not leader")
}

/// What every key of a queue begins with.
pub(crate) fn prefix(name: &Bytes) -> Bytes {
    [name, &b"/"[..]].concat().into()
}

/// The first key that is behind all keys with this prefix.
pub(crate) fn prefix_end(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    // It ends with a slash.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

/// The key of a lease. Numbers are written as etcd writes them: negative ones with a sign.
fn key(prefix: &Bytes, lease: i64) -> Bytes {
    let sign = if lease < 0 { "-" } else { "" };
    let digits = format!("{sign}{:x}", lease.unsigned_abs());
    [prefix, digits.as_bytes()].concat().into()
}

/// Asks for one key of a queue, by when they were created.
fn queue_of(prefix: &Bytes) -> RangeRequest {
    RangeRequest {
        key: prefix.clone(),
        range_end: prefix_end(prefix),
        limit: 1,
        sort_target: SortTarget::Create as i32,
        ..RangeRequest::default()
    }
}

/// Asks for a key.
fn one(key: &Bytes) -> RangeRequest {
    RangeRequest {
        key: key.clone(),
        ..RangeRequest::default()
    }
}

/// The key that a transaction's only operation read.
fn found_in(response: TxnResponse) -> Option<KeyValue> {
    let op = response.responses.into_iter().next()?;
    match op.response {
        Some(Response::ResponseRange(range)) => range.kvs.into_iter().next(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_etcds_client_libraries_name_them() {
        let prefix = prefix(&Bytes::from_static(b"lock"));
        assert_eq!(prefix_end(&prefix), "lock0");
        assert_eq!(key(&prefix, 0x1f), "lock/1f");
        assert_eq!(key(&prefix, -0x1f), "lock/-1f");
        assert_eq!(key(&prefix, i64::MIN), "lock/-8000000000000000");
    }
}
