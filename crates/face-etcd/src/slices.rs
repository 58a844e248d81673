//! Answers that are not complete: large reads, which the store answers in slices, between which
//! others have their turn; and those whose values are kept as payloads.

use crate::face::{Face, RETRY, carried_out, failed, mismatch, no_room, refused};
use crate::gather::ValueMissing;
use crate::reply::Reply;
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::ResponseHeader;
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_store::{
    Applied, Asker, LargeRead, PendingResponse, Query, QueryAnswer, ValueRef,
};
use quorate_face_common::{REQUEST_BYTES, ROOM_PATIENCE, exhausted};
use quorate_server::{Charge, Consistency, Exhausted, Failure};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Response, Status};

/// How long a large read for which there was no room waits before it begins again, the first time.
const ROOM_RETRY: Duration = Duration::from_millis(50);

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

/// Encodes a large response, given without its header, where nobody waits meanwhile, once there is room for it.
pub(crate) async fn encode_elsewhere<M: Message + 'static>(
    header: ResponseHeader,
    response: M,
    mut charge: Charge,
) -> Result<Response<Reply<M>>, Status> {
    let more = response.encoded_len().saturating_sub(charge.bytes());
    (charge.add_by(more, Instant::now() + ROOM_PATIENCE).await).map_err(exhausted)?;
    let encoded = elsewhere(move || response.encode_to_vec()).await?;
    charge.resize_anyway(encoded.len());
    let encoded = charge.attach(encoded);
    Ok(Response::new(Reply::Encoded(header, encoded)))
}

impl Face {
    /// Reads on until an answer is whole. Every slice is read from this replica's own state, as of the
    /// revision that the first one fixed. What has lost a value to a compaction is asked again. The bytes of the
    /// answer are added to `charge`.
    pub(crate) async fn complete(
        &self,
        first: QueryAnswer,
        consistency: Consistency,
        charge: &mut Charge,
        asker: &Asker,
    ) -> Result<QueryAnswer, Status> {
        let deadline = Instant::now() + ROOM_PATIENCE;
        let mut answer = first;
        let (mut lost, mut pause) = (0, ROOM_RETRY);
        loop {
            answer = match answer {
                QueryAnswer::Large(read) => {
                    let query = read.query().by(asker);
                    match self.read_large(read, charge).await? {
                        Ok(answer) => answer,
                        // What was read is given up, so that reads which wait do not keep room from each other.
                        Err(_) if Instant::now() + pause > deadline => {
                            return Err(exhausted(charge.refuse()));
                        }
                        Err(_) => {
                            charge.give_back(charge.bytes());
                            tokio::time::sleep(pause).await;
                            pause *= 2;
                            self.handle.read(query, consistency).await.map_err(failed)?
                        }
                    }
                }
                QueryAnswer::HashRest(rest) => self.slice(Query::HashRest(rest)).await?,
                QueryAnswer::PendingResponse(unfilled) => {
                    let references = unfilled.references().map_err(refused)?;
                    let bytes = bytes(&references);
                    charge.add_by(bytes, deadline).await.map_err(exhausted)?;
                    let again = unfilled.query().map(|query| query.by(asker));
                    match (self.gatherer.gather(references).await, again) {
                        (Ok(values), _) => unfilled.fill(values).map_err(refused)?,
                        (Err(ValueMissing::Dead), Some(query)) if lost < LOST_MAX => {
                            lost += 1;
                            charge.give_back(charge.bytes());
                            tokio::time::sleep(RETRY).await;
                            self.handle.read(query, consistency).await.map_err(failed)?
                        }
                        (Err(ValueMissing::Dead), _) => return Err(compacted_again()),
                        (Err(ValueMissing::Failed(status)), _) => return Err(status),
                    }
                }
                whole => return Ok(whole),
            };
        }
    }

    /// The whole of a command's response. The command was carried out, and what goes wrong here says so.
    pub(crate) async fn fill(&self, body: &Bytes, applied: Applied) -> Result<Applied, Status> {
        let unreadable = |reason| carried_out(&refused(reason));
        let unfilled = PendingResponse::of_result(body, &applied).map_err(unreadable)?;
        let references = unfilled.references().map_err(unreadable)?;
        let mut charge = self.account.charge();
        let room = charge.add_by(bytes(&references), Instant::now() + ROOM_PATIENCE);
        room.await.map_err(no_room)?;
        match self.gatherer.gather(references).await {
            Ok(values) => {
                let bytes = values.iter().map(Bytes::len).sum();
                let response = match is_long_work(bytes) {
                    true => elsewhere(move || unfilled.encode(values))
                        .await
                        .map_err(|status| carried_out(&status))?,
                    false => unfilled.encode(values),
                };
                Ok(Applied {
                    response: charge.attach(response),
                    has_pending_values: false,
                    ..applied
                })
            }
            Err(ValueMissing::Dead) => Err(carried_out(&Status::data_loss(
                "etcdserver: a value to be returned was compacted since",
            ))),
            Err(ValueMissing::Failed(status)) => Err(carried_out(&status)),
        }
    }

    /// Charges a long response until its client has taken it; otherwise the result is as it was.
    pub(crate) fn charged(&self, applied: Applied) -> Result<Applied, Status> {
        if applied.response.len() < REQUEST_BYTES {
            return Ok(applied);
        }
        let mut charge = self.account.charge();
        charge.add(applied.response.len()).map_err(no_room)?;
        Ok(Applied {
            response: charge.attach(applied.response),
            ..applied
        })
    }

    /// Reads all slices of a large answer, unless there is no room for them.
    async fn read_large(
        &self,
        mut read: Box<LargeRead>,
        charge: &mut Charge,
    ) -> Result<Result<QueryAnswer, Exhausted>, Status> {
        while let Some(query) = read.next() {
            match self.slice(query).await? {
                QueryAnswer::RangePart(part) => {
                    if let Err(why) = charge.try_add(part.bytes()) {
                        return Ok(Err(why));
                    }
                    read.add(part);
                }
                QueryAnswer::Refused(reason) => return Err(refused(reason)),
                _ => return Err(mismatch()),
            }
        }
        // Sorting many keys takes long, and the core may share this thread.
        elsewhere(move || read.finish()).await.map(Ok)
    }

    /// Asks for one slice. Of all large reads one has its turn at a time, so that together they take
    /// no more of the replica's time than one.
    pub(crate) async fn slice(&self, query: Query) -> Result<QueryAnswer, Status> {
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

fn bytes(references: &[ValueRef]) -> usize {
    references.iter().map(|one| one.len as usize).sum()
}

fn compacted_again() -> Status {
    Status::unavailable("etcdserver: the values to be read are compacted as fast as they are read")
}
