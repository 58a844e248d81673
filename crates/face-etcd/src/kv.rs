//! The KV service.

use crate::face::{Face, failed, mismatch, refused};
use crate::range_stream::{self, RangeMessages};
use crate::reply::Reply;
use crate::server::Kv;
use crate::slices::{are_many, elsewhere, encode_elsewhere, is_long_work};
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::response_op::Response as OpResponse;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use quorate_etcd_store::{Applied, Asker, Query, QueryAnswer, Refused, check, command, ordering};
use quorate_server::{Account, Consistency, Failure};
use std::time::Duration;
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

#[async_trait]
impl Kv for Face {
    async fn range(&self, request: Request<RangeRequest>) -> Answered<Reply<RangeResponse>> {
        check::range(request.get_ref()).map_err(refused)?;
        let asker = self.asker(&request).await?;
        let request = request.into_inner();
        let consistency = consistency(request.serializable);
        let mut charge = self.account.charge();
        let query = Query::Range(request);
        let mut response = match self.ask(query, consistency, &mut charge, &asker).await? {
            QueryAnswer::Range(response) => response,
            QueryAnswer::Refused(reason) => return Err(refused(reason)),
            _ => return Err(mismatch()),
        };
        let revision = response.header.take().map_or(0, |header| header.revision);
        let header = self.header(revision).await?;
        if are_many(&response.kvs) {
            return encode_elsewhere(header, response, charge).await;
        }
        response.header = Some(header);
        Ok(Response::new(Reply::Message(response)))
    }

    type RangeStreamStream = RangeMessages;

    async fn range_stream(
        &self,
        request: Request<RangeRequest>,
    ) -> Answered<Self::RangeStreamStream> {
        check::range(request.get_ref()).map_err(refused)?;
        range_stream::check(request.get_ref())?;
        let asker = self.asker(&request).await?;
        let account = request.extensions().get::<Account>();
        let account = account.unwrap_or(&self.account).clone();
        Ok(Response::new(self.stream_range(
            request.into_inner(),
            asker,
            &account,
        )))
    }

    async fn put(&self, request: Request<PutRequest>) -> Answered<Reply<PutResponse>> {
        check::put(request.get_ref()).map_err(refused)?;
        let asker = self.asker(&request).await?;
        let request = request.into_inner();
        let returns_value = request.prev_kv;
        // The receive buffer of a small request does not wait for the log.
        let payload_min = self.handle.payload_min();
        let (body, payloads) = match is_long_work(request.value.len()) {
            true => elsewhere(move || command::split_put(request, payload_min)).await?,
            false => command::split_put(request, payload_min),
        };
        let applied = match returns_value {
            false => self.apply(body, payloads, &asker).await?,
            true => self.apply_whole(body, payloads, &asker).await?,
        };
        self.reply(applied.map_err(refused)?).await
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Answered<Reply<DeleteRangeResponse>> {
        check::delete_range(request.get_ref()).map_err(refused)?;
        let asker = self.asker(&request).await?;
        let request = request.into_inner();
        let body = command::encode_delete_range(&request);
        drop(request);
        let applied = self.apply_whole(body, Vec::new(), &asker).await?;
        self.reply(applied.map_err(refused)?).await
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Answered<Reply<TxnResponse>> {
        check::txn(request.get_ref(), self.limits.txn_ops_max).map_err(refused)?;
        let asker = self.asker(&request).await?;
        let request = request.into_inner();
        if check::is_read_only(&request) {
            return self.read_txn(request, &asker).await;
        }
        let again = ordering::orders_values(&request).then(|| request.clone());
        match (self.apply_txn(request, &asker).await?, again) {
            (Err(Refused::NeedsValue), Some(request)) => self.txn_decided(request, &asker).await,
            (applied, _) => self.reply(applied.map_err(refused)?).await,
        }
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Answered<Reply<CompactionResponse>> {
        let asker = self.asker(&request).await?;
        let request = request.into_inner();
        let body = command::encode_compact(&request);
        let response = self.order(body, &asker).await?;
        if request.physical {
            self.wait_until_tidy().await?;
        }
        Ok(response)
    }
}

impl Face {
    /// Orders a command and passes its response on as the store encoded it.
    pub(crate) async fn order<M>(&self, body: Bytes, asker: &Asker) -> Answered<Reply<M>> {
        let applied = self.apply(body, Vec::new(), asker).await?;
        self.reply(applied.map_err(refused)?).await
    }

    /// Applies a transaction.
    pub(crate) async fn apply_txn(
        &self,
        request: TxnRequest,
        asker: &Asker,
    ) -> Result<Result<Applied, Refused>, Status> {
        let payload_min = self.handle.payload_min();
        let (body, payloads) = match is_long_work(request.encoded_len()) {
            true => elsewhere(move || command::split_txn(request, payload_min)).await?,
            false => command::split_txn(request, payload_min),
        };
        self.apply_whole(body, payloads, asker).await
    }

    /// Passes a response on as the store encoded it.
    pub(crate) async fn reply<M>(&self, applied: Applied) -> Answered<Reply<M>> {
        let header = self.header(applied.revision).await?;
        Ok(Response::new(Reply::Encoded(header, applied.response)))
    }

    /// Waits until this member has freed what was compacted.
    pub(crate) async fn wait_until_tidy(&self) -> Result<(), Status> {
        loop {
            let asked = self.handle.read(Query::Status, Consistency::Serializable);
            match asked.await {
                Ok(QueryAnswer::Status(figures)) if figures.tidy => return Ok(()),
                // The compaction is done: that no more requests are taken now must not be told as its refusal.
                Ok(_) | Err(Failure::Overloaded) => tokio::time::sleep(TIDY_POLL).await,
                Err(failure) => return Err(failed(failure)),
            }
        }
    }

    /// A transaction that changes nothing needs no place in the log.
    async fn read_txn(&self, request: TxnRequest, asker: &Asker) -> Answered<Reply<TxnResponse>> {
        let consistency = consistency(check::is_serializable(&request));
        let again = ordering::orders_values(&request).then(|| request.clone());
        let mut charge = self.account.charge();
        let query = Query::Txn(request);
        let answer = self.ask(query, consistency, &mut charge, asker).await?;
        let mut response = match (answer, again) {
            (QueryAnswer::Txn(response), _) => response,
            (QueryAnswer::Refused(Refused::NeedsValue), Some(request)) => {
                self.read_txn_decided(request, consistency, &mut charge, asker)
                    .await?
            }
            (QueryAnswer::Refused(reason), _) => return Err(refused(reason)),
            _ => return Err(mismatch()),
        };
        let revision = response.header.take().map_or(0, |header| header.revision);
        let header = self.header(revision).await?;
        let kvs = response.responses.iter().map(|op| match &op.response {
            Some(OpResponse::ResponseRange(range)) => &range.kvs[..],
            _ => &[],
        });
        if are_many(kvs.flatten()) {
            return encode_elsewhere(header, response, charge).await;
        }
        response.header = Some(header);
        Ok(Response::new(Reply::Message(response)))
    }
}

/// How often to look whether memory is free.
const TIDY_POLL: Duration = Duration::from_millis(5);

fn consistency(serializable: bool) -> Consistency {
    if serializable {
        Consistency::Serializable
    } else {
        Consistency::Linearizable
    }
}
