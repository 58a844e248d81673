//! Transactions with conditions that order values which are kept as payloads; see
//! [`quorate_etcd_store::ordering`].

use crate::codec::decode;
use crate::face::{Face, mismatch, refused};
use crate::reply::Reply;
use prost::Message;
use quorate_etcd_api::etcdserverpb::{TxnRequest, TxnResponse};
use quorate_etcd_store::{Asker, Query, QueryAnswer, Refused, ordering};
use quorate_server::{Charge, Consistency};
use tonic::{Response, Status};

/// How often such a transaction is tried before its client is asked to.
const TRIES_MAX: u32 = 16;

impl Face {
    /// Applies such a transaction.
    pub(crate) async fn txn_decided(
        &self,
        request: TxnRequest,
        asker: &Asker,
    ) -> Result<Response<Reply<TxnResponse>>, Status> {
        for _ in 0..TRIES_MAX {
            let decided = self
                .decide(&request, Consistency::Linearizable, asker)
                .await?;
            let applied = self.apply_txn(decided, asker).await?.map_err(refused)?;
            let outer = decode::<TxnResponse>(applied.response)?;
            if let Some(inner) = ordering::answer(outer) {
                let header = self.header(applied.revision).await?;
                let encoded = TxnResponse {
                    header: None,
                    ..inner
                };
                let encoded = encoded.encode_to_vec().into();
                return Ok(Response::new(Reply::Encoded(header, encoded)));
            }
        }
        Err(keeps_changing())
    }

    /// Answers one that only reads.
    pub(crate) async fn read_txn_decided(
        &self,
        request: TxnRequest,
        consistency: Consistency,
        charge: &mut Charge,
        asker: &Asker,
    ) -> Result<TxnResponse, Status> {
        for _ in 0..TRIES_MAX {
            let decided = self.decide(&request, consistency, asker).await?;
            let query = Query::Txn(decided);
            match self.ask(query, consistency, charge, asker).await? {
                QueryAnswer::Txn(outer) => {
                    if let Some(inner) = ordering::answer(outer) {
                        return Ok(inner);
                    }
                }
                QueryAnswer::Refused(reason) => return Err(refused(reason)),
                _ => return Err(mismatch()),
            }
        }
        Err(keeps_changing())
    }

    /// Reads what its conditions compare, and decides them.
    async fn decide(
        &self,
        request: &TxnRequest,
        consistency: Consistency,
        asker: &Asker,
    ) -> Result<TxnRequest, Status> {
        let question = Query::Txn(ordering::question(request));
        match self.read(question, consistency, asker).await? {
            QueryAnswer::Txn(read) => Ok(ordering::decided(request.clone(), &read)),
            _ => Err(mismatch()),
        }
    }
}

fn keeps_changing() -> Status {
    let text = Refused::NeedsValue.error().text;
    Status::unavailable(format!("{text}: it changes faster than it is read"))
}
