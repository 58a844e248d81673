//! What the client of a stream asks for: watches, their end, and progress.

use super::{End, NO_WATCH, OpenWatch, WatchStream};
use crate::watch::respond::EventOptions;
use bytes::Bytes;
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest};
use quorate_face_common::exhausted;
use quorate_server::Charge;
use std::future::ready;
use tonic::{Status, Streaming};

/// What a watch takes besides its keys.
const WATCH_BYTES: usize = 1 << 10;

/// Requests for which the store is asked once for its revision.
const REQUESTS_MAX: usize = 64;

/// The next request, if it is there already.
async fn next_at_once(
    requests: &mut Streaming<WatchRequest>,
) -> Option<Result<Option<WatchRequest>, Status>> {
    tokio::select! {
        biased;
        next = requests.message() => Some(next),
        () = ready(()) => None,
    }
}

impl WatchStream {
    /// Does what the client asks with one request and with those that are there behind it. Says whether it may ask for
    /// more.
    pub(super) async fn requests(
        &mut self,
        first: WatchRequest,
        requests: &mut Streaming<WatchRequest>,
    ) -> Result<bool, End> {
        let mut taken = vec![first];
        let mut open = true;
        while open
            && taken.len() < REQUESTS_MAX
            && let Some(next) = next_at_once(requests).await
        {
            match next? {
                Some(request) => taken.push(request),
                None => open = false,
            }
        }
        // All of them came before this is known, as each would have if it were alone.
        let revision = self.figures().await?.revision;
        for request in taken {
            self.request(request, revision).await?;
        }
        Ok(open)
    }

    /// Does what the client asks, at a revision that the store has reached since.
    async fn request(&mut self, request: WatchRequest, revision: i64) -> Result<(), End> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.create(request, revision).await,
            Some(RequestUnion::CancelRequest(request)) => {
                self.cancel(request.watch_id, revision).await
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                // Of a watch that waits for the future there is no progress to tell.
                let future = self.watches.values().any(|w| w.next > revision + 1);
                if !self.watches.is_empty() && !future {
                    self.progress_wanted = Some(revision);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, mut request: WatchCreateRequest, revision: i64) -> Result<(), End> {
        if request.key.is_empty() {
            // The least key there can be.
            request.key = Bytes::from_static(b"\0");
        }
        let asker = match self.admit(&request).await {
            Ok(asker) => asker,
            Err(why) => return self.refuse(revision, why).await,
        };
        let judged = self.judge(&request).map_err(str::to_owned);
        let (id, charge) = match judged.and_then(|id| Ok((id, self.room_for(&request)?))) {
            Ok(admitted) => admitted,
            Err(why) => return self.refuse(revision, why).await,
        };
        let mut response = self.response(id, revision);
        response.created = true;
        self.send(response).await?;
        let watching = OpenWatch {
            serial: self.next_serial,
            asker,
            wishes: EventOptions::new(&request, self.fragment_bytes),
            key: request.key,
            range_end: request.range_end,
            notify_progress: request.progress_notify,
            busy: false,
            next: match request.start_revision {
                0 => revision + 1,
                start => start,
            },
            member: None,
            waits: false,
            _charge: charge,
        };
        self.next_serial += 1;
        let is_new = watching.next > revision;
        self.notified += usize::from(watching.notify_progress);
        self.watches.insert(id, watching);
        self.sort_in(id);
        if is_new {
            self.join(id, revision);
        }
        Ok(())
    }

    /// Tells why there is no watch.
    async fn refuse(&self, revision: i64, why: String) -> Result<(), End> {
        let mut response = self.response(NO_WATCH, revision);
        (response.created, response.canceled) = (true, true);
        response.cancel_reason = why;
        self.send(response).await
    }

    /// The number of a new watch, or why there cannot be one.
    fn judge(&mut self, request: &WatchCreateRequest) -> Result<i64, &'static str> {
        if request.start_revision < 0 {
            return Err(errors::COMPACTED.text);
        }
        let one = request.range_end.is_empty() || &request.range_end[..] == b"\0";
        if !one && request.range_end <= request.key {
            return Err("mvcc: watcher range is empty");
        }
        if request.watch_id != 0 {
            let taken = self.watches.contains_key(&request.watch_id);
            return if taken {
                Err("mvcc: duplicate watch ID provided on the WatchStream")
            } else {
                Ok(request.watch_id)
            };
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    /// Charges a new watch to its connection, or says that there is no room for it.
    fn room_for(&self, request: &WatchCreateRequest) -> Result<Charge, String> {
        // The index has the keys, too.
        let keys = 2 * (request.key.len() + request.range_end.len());
        let mut charge = self.account.charge();
        let added = charge.add(WATCH_BYTES + keys);
        added.map_err(|why| exhausted(why).message().to_owned())?;
        Ok(charge)
    }

    async fn cancel(&mut self, id: i64, revision: i64) -> Result<(), End> {
        if !self.remove(id) {
            return Ok(());
        }
        let mut response = self.response(id, revision);
        response.canceled = true;
        self.send(response).await
    }

    /// Forgets a watch, if there is one of this number.
    pub(super) fn remove(&mut self, id: i64) -> bool {
        let Some(watching) = self.watches.remove(&id) else {
            return false;
        };
        if let Some(member) = watching.member {
            self.hub.leave(member);
        }
        self.notified -= usize::from(watching.notify_progress);
        self.sort_in(id);
        true
    }
}
