//! Large reads: the store answers them in slices, between which others have their turn.

use crate::face::{Face, failed, mismatch, refused};
use crate::reply::Reply;
use prost::Message;
use quorate_etcd_api::etcdserverpb::ResponseHeader;
use quorate_kv::{Answer, LargeRead, Query};
use quorate_server::{Consistency, Failure};
use std::time::Duration;
use tonic::{Response, Status};

/// How long to wait when the replica takes no more requests.
const RETRY: Duration = Duration::from_millis(2);

/// Keys in a response that is encoded on the thread that serves it.
pub(crate) const KVS_ENCODED_HERE_MAX: usize = 1000;

/// Encodes a large response, given without its header, where nobody waits meanwhile.
pub(crate) async fn encode_elsewhere<M: Message + 'static>(
    header: ResponseHeader,
    response: M,
) -> Result<Response<Reply<M>>, Status> {
    let encoded = tokio::task::spawn_blocking(move || response.encode_to_vec());
    let encoded = (encoded.await).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(Reply::Encoded(header, encoded.into())))
}

impl Face {
    /// Reads on until an answer is whole. Every slice is read from this replica's own state, as of the
    /// revision that the first one fixed.
    pub(crate) async fn complete(&self, first: Answer) -> Result<Answer, Status> {
        let mut answer = first;
        loop {
            answer = match answer {
                Answer::Large(read) => self.read_large(read).await?,
                Answer::HashRest(rest) => self.slice(Query::HashRest(rest)).await?,
                Answer::Refused(reason) => return Err(refused(reason)),
                whole => return Ok(whole),
            };
        }
    }

    async fn read_large(&self, mut read: Box<LargeRead>) -> Result<Answer, Status> {
        while let Some(query) = read.next() {
            match self.slice(query).await? {
                Answer::RangePart(part) => read.add(part),
                Answer::Refused(reason) => return Err(refused(reason)),
                _ => return Err(mismatch()),
            }
        }
        // Sorting many keys takes long, and the core may share this thread.
        let whole = tokio::task::spawn_blocking(move || read.finish());
        whole
            .await
            .map_err(|error| Status::internal(error.to_string()))
    }

    /// Asks for one slice. Of all large reads one has its turn at a time, so that together they take
    /// no more of the replica's time than one.
    async fn slice(&self, query: Query) -> Result<Answer, Status> {
        let _turn = self.slices.acquire().await;
        loop {
            let asked = self.handle.read(query.clone(), Consistency::Serializable);
            match asked.await {
                Err(Failure::Overloaded) => tokio::time::sleep(RETRY).await,
                answered => return answered.map_err(failed),
            }
        }
    }
}
