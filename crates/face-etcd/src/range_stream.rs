//! Ranges of any length, in as many messages as they take.
//!
//! A task reads one chunk at a time from this replica's own state, as of the revision that the first one fixed, and
//! goes on when the client has taken what was sent. So a range of any length takes a few chunks of memory.

use crate::face::{Face, mismatch, refused};
use crate::gather::ValueMissing;
use quorate_etcd_api::etcdserverpb::{
    RangeRequest, RangeResponse, RangeStreamResponse, SortOrder, SortTarget,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_store::{
    Asker, PendingResponse, Query, QueryAnswer, RangeChunk, RangeCursor, Refused, response_bytes,
};
use quorate_face_common::{ROOM_PATIENCE, exhausted};
use quorate_server::{Account, Charge, Consistency};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The messages of one range.
pub(crate) type RangeMessages = ReceiverStream<Result<RangeStreamResponse, Status>>;

/// Messages between the task that reads and the connection.
const MESSAGES_WAITING_MAX: usize = 1;
/// How many keys the first chunk looks at, as in etcd.
const FIRST_KEYS: usize = 10;
/// How many keys a chunk looks at, at most.
const KEYS_MAX: usize = 1000;
/// Bytes that a message holds, unless it is of one key.
const MESSAGE_BYTES: usize = 3 << 19;

/// Refuses what only a range that is in memory as a whole can do, in etcd's words.
pub(crate) fn check(request: &RangeRequest) -> Result<(), Status> {
    let is_by_key = request.sort_target == SortTarget::Key as i32;
    let is_sorted = match SortOrder::try_from(request.sort_order) {
        Ok(SortOrder::None) => false,
        Ok(SortOrder::Ascend) => !is_by_key,
        Ok(SortOrder::Descend) | Err(_) => true,
    };
    if is_sorted {
        let why = "RangeStream does not support custom sort orders";
        return Err(Status::unimplemented(why));
    }
    let bounds = [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ];
    if bounds.iter().any(|bound| *bound != 0) {
        let why = "RangeStream does not support revision filters";
        return Err(Status::unimplemented(why));
    }
    Ok(())
}

impl Face {
    /// Begins to answer a range that was checked.
    pub(crate) fn stream_range(
        &self,
        request: RangeRequest,
        asker: Asker,
        account: &Account,
    ) -> RangeMessages {
        let (messages, taken) = mpsc::channel(MESSAGES_WAITING_MAX);
        let consistency = match request.serializable {
            true => Consistency::Serializable,
            false => Consistency::Linearizable,
        };
        let keys_max = match request.count_only {
            true => KEYS_MAX,
            false => FIRST_KEYS,
        };
        let stream = RangeStream {
            face: self.clone(),
            cursor: RangeCursor::new(request, keys_max),
            asker,
            keys_max,
            charge: account.charge(),
            messages,
        };
        tokio::spawn(stream.run(consistency));
        ReceiverStream::new(taken)
    }
}

/// A range on its way to its client.
struct RangeStream {
    face: Face,
    cursor: RangeCursor,
    asker: Asker,
    keys_max: usize,
    /// The keys that were read and not sent.
    charge: Charge,
    messages: mpsc::Sender<Result<RangeStreamResponse, Status>>,
}

/// Why a stream ends before its range.
enum End {
    ClientGone,
    Failed(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        End::Failed(status)
    }
}

impl RangeStream {
    async fn run(mut self, consistency: Consistency) {
        if let Err(End::Failed(status)) = self.send_all(consistency).await {
            // A client that is gone needs no reason.
            let _ = self.messages.send(Err(status)).await;
        }
    }

    async fn send_all(&mut self, consistency: Consistency) -> Result<(), End> {
        let mut charge = self.face.account.charge();
        let first = self
            .face
            .ask(self.next(), consistency, &mut charge, &self.asker);
        let mut answer = first.await?;
        loop {
            let chunk = match answer {
                QueryAnswer::RangeChunk(chunk) => chunk,
                QueryAnswer::Refused(reason) => return Err(refused(reason).into()),
                _ => return Err(mismatch().into()),
            };
            self.send_chunk(chunk).await?;
            if self.cursor.has_ended() {
                return Ok(());
            }
            answer = tokio::select! {
                answer = self.face.slice(self.next().by(&self.asker)) => answer?,
                () = self.messages.closed() => return Err(End::ClientGone),
            };
        }
    }

    /// What to ask for the next chunk.
    fn next(&self) -> Query {
        Query::RangeChunk(Box::new(self.cursor.clone()))
    }

    /// Sends a chunk in messages of bounded size; behind the last one comes what is known of the whole.
    async fn send_chunk(&mut self, chunk: RangeChunk) -> Result<(), End> {
        let kvs = self.cursor.take(chunk);
        let sizes: Vec<usize> = kvs.iter().map(response_bytes).collect();
        let bytes = sizes.iter().sum();
        self.adapt(bytes);
        let room = self.charge.add_by(bytes, Instant::now() + ROOM_PATIENCE);
        room.await.map_err(exhausted)?;
        let (mut message, mut message_bytes) = (Vec::new(), 0);
        for (kv, size) in kvs.into_iter().zip(sizes) {
            if message_bytes + size > MESSAGE_BYTES && !message.is_empty() {
                let full = std::mem::take(&mut message);
                let response = self.response(full).await?;
                self.send(response).await?;
                message_bytes = 0;
            }
            message_bytes += size;
            message.push(kv);
        }
        if self.cursor.has_ended() {
            let mut last = self.response(message).await?;
            let (revision, summary) = self.cursor.summary();
            last.header = Some(self.face.header(revision).await?);
            (last.count, last.more) = (summary.count, summary.more);
            self.send(last).await?;
        } else if !message.is_empty() {
            let response = self.response(message).await?;
            self.send(response).await?;
        }
        self.charge.give_back(self.charge.bytes());
        Ok(())
    }

    /// Looks at more keys in the next chunk where this one was small, at fewer where it was large.
    fn adapt(&mut self, bytes: usize) {
        if bytes < MESSAGE_BYTES / 2 {
            self.keys_max = (self.keys_max * 2).min(KEYS_MAX);
        } else if bytes > MESSAGE_BYTES * 2 {
            self.keys_max = (self.keys_max / 2).max(1);
        }
        self.cursor.set_keys_max(self.keys_max);
    }

    /// A message with these keys and the values that are kept as payloads.
    async fn response(&self, kvs: Vec<KeyValue>) -> Result<RangeResponse, Status> {
        let response = RangeResponse {
            kvs,
            ..RangeResponse::default()
        };
        let pending = match PendingResponse::range(self.cursor.request(), response) {
            QueryAnswer::Range(response) => return Ok(response),
            QueryAnswer::PendingResponse(pending) => pending,
            _ => return Err(mismatch()),
        };
        let references = pending.references().map_err(refused)?;
        let values = match self.face.gatherer.gather(references).await {
            Ok(values) => values,
            // The value was compacted, and with it the revision that is read.
            Err(ValueMissing::Dead) => return Err(refused(Refused::Compacted)),
            Err(ValueMissing::Failed(status)) => return Err(status),
        };
        match pending.fill(values).map_err(refused)? {
            QueryAnswer::Range(response) => Ok(response),
            _ => Err(mismatch()),
        }
    }

    async fn send(&self, response: RangeResponse) -> Result<(), End> {
        let message = RangeStreamResponse {
            range_response: Some(response),
        };
        let sent = self.messages.send(Ok(message)).await;
        sent.map_err(|_| End::ClientGone)
    }
}
