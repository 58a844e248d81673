//! Answers that are not complete: large reads, which the store answers in slices, between which
//! others have their turn; and those whose values are kept apart.

use crate::face::{Face, failed, mismatch, refused};
use crate::gather::Missing;
use crate::reply::Reply;
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::ResponseHeader;
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_kv::{Answer, Applied, LargeRead, Query, Unfilled};
use quorate_server::{Consistency, Failure};
use std::time::Duration;
use tonic::{Response, Status};

/// How long to wait when the replica takes no more requests.
const RETRY: Duration = Duration::from_millis(2);

/// How often a read is asked again because values that it names were compacted.
const LOST_MAX: u32 = 16;

/// Keys in a response that is encoded on the thread that serves it.
const KVS_HERE_MAX: usize = 1000;

/// Bytes of values that are encoded or digested there.
const BYTES_HERE_MAX: usize = 1 << 20;

/// Whether so much is better done where nobody waits meanwhile.
pub(crate) fn is_long_work(bytes: usize) -> bool {
    bytes > BYTES_HERE_MAX
}

/// Whether it takes long to encode these.
pub(crate) fn are_many<'a>(kvs: impl IntoIterator<Item = &'a KeyValue>) -> bool {
    let (mut count, mut bytes) = (0, 0);
    kvs.into_iter().any(|kv| {
        count += 1;
        bytes += kv.value.len();
        count > KVS_HERE_MAX || is_long_work(bytes)
    })
}

/// Does something where nobody waits meanwhile.
pub(crate) async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(error.to_string()))
}

/// Encodes a large response, given without its header, where nobody waits meanwhile.
pub(crate) async fn encode_elsewhere<M: Message + 'static>(
    header: ResponseHeader,
    response: M,
) -> Result<Response<Reply<M>>, Status> {
    let encoded = elsewhere(move || response.encode_to_vec()).await?;
    Ok(Response::new(Reply::Encoded(header, encoded.into())))
}

impl Face {
    /// Reads on until an answer is whole. Every slice is read from this replica's own state, as of the
    /// revision that the first one fixed. What has lost a value to a compaction is asked again.
    pub(crate) async fn complete(
        &self,
        first: Answer,
        consistency: Consistency,
    ) -> Result<Answer, Status> {
        let mut answer = first;
        let mut lost = 0;
        loop {
            answer = match answer {
                Answer::Large(read) => self.read_large(read).await?,
                Answer::HashRest(rest) => self.slice(Query::HashRest(rest)).await?,
                Answer::Unfilled(unfilled) => {
                    let references = unfilled.references().map_err(refused)?;
                    match (self.gatherer.gather(references).await, unfilled.query()) {
                        (Ok(values), _) => unfilled.fill(values).map_err(refused)?,
                        (Err(Missing::Dead), Some(query)) if lost < LOST_MAX => {
                            lost += 1;
                            tokio::time::sleep(RETRY).await;
                            self.handle.read(query, consistency).await.map_err(failed)?
                        }
                        (Err(Missing::Dead), _) => return Err(compacted_again()),
                        (Err(Missing::Failed(status)), _) => return Err(status),
                    }
                }
                whole => return Ok(whole),
            };
        }
    }

    /// The whole of a command's response.
    pub(crate) async fn fill(&self, body: &Bytes, applied: Applied) -> Result<Applied, Status> {
        let unfilled = Unfilled::of_result(body, &applied).map_err(refused)?;
        let references = unfilled.references().map_err(refused)?;
        match self.gatherer.gather(references).await {
            Ok(values) => {
                let bytes = values.iter().map(Bytes::len).sum();
                let response = match is_long_work(bytes) {
                    true => elsewhere(move || unfilled.encode(values)).await?,
                    false => unfilled.encode(values),
                };
                Ok(Applied {
                    response,
                    is_unfilled: false,
                    ..applied
                })
            }
            Err(Missing::Dead) => Err(Status::unknown(
                "etcdserver: the request was carried out, and a value that it returns was \
                 compacted since",
            )),
            Err(Missing::Failed(status)) => Err(Status::unknown(format!(
                "{}; the request was carried out",
                status.message()
            ))),
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
        elsewhere(move || read.finish()).await
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

fn compacted_again() -> Status {
    Status::unavailable("etcdserver: the values to be read are compacted as fast as they are read")
}
