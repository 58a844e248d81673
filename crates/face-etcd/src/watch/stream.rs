//! One watch stream: its client's requests, its watches, and what is sent.

mod requests;
mod rights;

use super::hub::{Delivery, FromInbox, Hub, Inbox, Member, Tag, read_history};
use super::index::MemberId;
use super::outgoing::{ClientGone, Outgoing};
use super::respond::EventOptions;
use super::waiting::{WaitingResponses, Whole};
use crate::auth::Credentials;
use crate::face::{Face, failed, mismatch, refused};
use crate::leader::LeaderWatch;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{ResponseHeader, WatchRequest, WatchResponse};
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::{
    Asker, EventsQuery, Keys, Query, QueryAnswer, Status as Figures, Store, event_value_refs,
};
use quorate_server::{Account, Charge, Consistency, Handle};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Status, Streaming};

/// A stream and everything its task knows.
pub(crate) struct WatchStream {
    face: Face,
    credentials: Credentials,
    /// When the rights of all watches were checked last.
    checked: (u64, bool),
    hub: Arc<Hub>,
    handle: Handle<Store>,
    /// Says who answers.
    header: ResponseHeader,
    outgoing: Outgoing,
    inbox: Arc<Inbox>,
    watches: BTreeMap<i64, OpenWatch>,
    /// Watches that have to read history.
    behind: BTreeSet<i64>,
    /// How many watches want to be told progress.
    notified: usize,
    /// Responses that wait for values.
    waiting: WaitingResponses,
    /// Where to look for a number that is free.
    next_id: i64,
    next_serial: u64,
    /// The client waits to be told that everything up to this revision was sent.
    progress_wanted: Option<i64>,
    progress_interval: Duration,
    fragment_bytes: usize,
    /// What watches are charged to.
    account: Account,
}

/// One watch of a stream.
struct OpenWatch {
    serial: u64,
    asker: Asker,
    key: Bytes,
    range_end: Bytes,
    wishes: EventOptions,
    notify_progress: bool,
    /// Something was sent since progress was last told.
    busy: bool,
    /// The first revision that was not sent.
    next: i64,
    /// The watch's membership of the hub; `None` while it is behind.
    member: Option<MemberId>,
    /// A response waits for values, and whatever comes after it waits in the store.
    waits: bool,
    _charge: Charge,
}

impl OpenWatch {
    /// Whether it has to read history: it is not told of what happens, and waits for nothing.
    fn is_behind(&self) -> bool {
        self.member.is_none() && !self.waits
    }
}

/// Why a stream ends.
enum End {
    /// The client is gone.
    ClientGone,
    /// The watch ends with this status, which its client is told.
    Failed(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        End::Failed(status)
    }
}

/// What a response about no watch in particular names.
const NO_WATCH: i64 = -1;

impl WatchStream {
    /// A stream without watches.
    pub(crate) fn new(
        face: &Face,
        (header, credentials): (ResponseHeader, Credentials),
        outgoing: Outgoing,
        account: Account,
    ) -> Self {
        WatchStream {
            face: face.clone(),
            credentials,
            checked: face.auth.stamp(),
            inbox: face.hub.inbox(),
            hub: Arc::clone(&face.hub),
            handle: face.handle.clone(),
            header,
            outgoing,
            watches: BTreeMap::new(),
            behind: BTreeSet::new(),
            notified: 0,
            waiting: WaitingResponses::new(face.gatherer.clone()),
            next_id: 0,
            next_serial: 0,
            progress_wanted: None,
            progress_interval: face.limits.watch_progress_interval,
            fragment_bytes: face.limits.watch_fragment_bytes,
            account,
        }
    }

    /// Serves until the client is gone, or the leader that it requires.
    pub(crate) async fn run(mut self, requests: Streaming<WatchRequest>, mut leader: LeaderWatch) {
        let ended = tokio::select! {
            ended = self.serve(requests) => ended,
            status = leader.lost() => Err(End::Failed(status)),
        };
        if let Err(End::Failed(status)) = ended {
            self.outgoing.end(status);
        }
    }

    async fn serve(&mut self, mut requests: Streaming<WatchRequest>) -> Result<(), End> {
        let mut told = self.hub.told();
        let mut rights = self.face.auth.changes();
        let mut tick = tokio::time::interval(self.progress_interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.reset();
        let mut open = true;
        loop {
            // Read before the inbox is emptied: everything up to here is in it by now.
            let through = *told.borrow_and_update();
            self.empty_inbox().await?;
            let behind = self.catch_up().await?;
            if !behind && self.waiting.is_empty() {
                self.answer_progress(through).await?;
            }
            let notify = self.notified > 0;
            let (inbox, outgoing) = (Arc::clone(&self.inbox), self.outgoing.clone());
            tokio::select! {
                request = requests.message(), if open => match request? {
                    Some(request) => open = self.requests(request, &mut requests).await?,
                    // The client has nothing more to ask; it may still listen.
                    None => open = false,
                },
                () = inbox.arrived() => {}
                Ok(()) = rights.changed() => self.recheck().await?,
                (tag, whole) = self.waiting.next() => self.go_on(tag, whole).await?,
                changed = told.changed(), if self.progress_wanted.is_some() => {
                    changed.map_err(|_| End::ClientGone)?;
                }
                _ = tick.tick(), if notify => self.notify_progress(through).await?,
                () = tokio::task::yield_now(), if behind => {}
                () = outgoing.closed() => return Err(End::ClientGone),
            }
        }
    }

    /// Makes a watch that has everything up to `known` a member, unless the hub is further.
    fn join(&mut self, id: i64, known: i64) {
        if let Some(watching) = self.watches.get_mut(&id) {
            let member = Member {
                key: watching.key.clone(),
                range_end: watching.range_end.clone(),
                from: watching.next,
                inbox: Arc::clone(&self.inbox),
                tag: Tag {
                    watch_id: id,
                    serial: watching.serial,
                },
            };
            watching.member = self.hub.join(member, known);
            self.sort_in(id);
        }
    }

    /// Sends what has arrived.
    async fn empty_inbox(&mut self) -> Result<(), End> {
        loop {
            match self.inbox.take() {
                FromInbox::Delivery(delivery) => self.pass_on(delivery).await?,
                FromInbox::Lagging(lagging) => {
                    for (tag, from) in lagging {
                        if let Some(watching) = self.find(tag) {
                            (watching.member, watching.next) = (None, from);
                            self.sort_in(tag.watch_id);
                        }
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn pass_on(&mut self, delivery: Delivery) -> Result<(), End> {
        let Delivery {
            tag,
            events,
            through,
            ..
        } = delivery;
        let Some(watching) = self.find(tag) else {
            return Ok(());
        };
        watching.next = through + 1;
        self.tell(tag.watch_id, through, events).await
    }

    fn find(&mut self, tag: Tag) -> Option<&mut OpenWatch> {
        let watching = self.watches.get_mut(&tag.watch_id);
        watching.filter(|watching| watching.serial == tag.serial)
    }

    /// Reads a piece of history for each watch that is behind. Says whether one still is.
    async fn catch_up(&mut self) -> Result<bool, End> {
        let ids: Vec<i64> = self.behind.iter().copied().collect();
        for id in ids {
            self.read_on(id).await?;
        }
        Ok(!self.behind.is_empty())
    }

    /// Notes whether a watch has to read history by now.
    fn sort_in(&mut self, id: i64) {
        match self.watches.get(&id).is_some_and(OpenWatch::is_behind) {
            true => self.behind.insert(id),
            false => self.behind.remove(&id),
        };
    }

    async fn read_on(&mut self, id: i64) -> Result<(), End> {
        let Some(watching) = self.watches.get(&id) else {
            return Ok(());
        };
        let keys = Keys::Span {
            key: watching.key.clone(),
            range_end: watching.range_end.clone(),
        };
        let from = watching.next;
        let watched = EventsQuery { keys, from };
        let Some(found) = read_history(&self.hub, &self.handle, watched).await? else {
            return self.cancel_compacted(id).await;
        };
        if let Some(watching) = self.watches.get_mut(&id) {
            watching.next = found.next;
        }
        self.tell(id, found.revision, found.events).await?;
        let waits = self.watches.get(&id).is_some_and(|watch| watch.waits);
        if found.next > found.revision && !waits {
            self.join(id, found.revision);
        }
        Ok(())
    }

    async fn cancel_compacted(&mut self, id: i64) -> Result<(), End> {
        self.remove(id);
        // No revision: there is nothing the client could count on.
        let mut response = self.response(id, 0);
        response.canceled = true;
        response.compact_revision = self.figures().await?.compacted;
        self.send(response).await
    }

    /// Sends events to a watch, as it wants them.
    async fn tell(
        &mut self,
        id: i64,
        revision: i64,
        events: Vec<impl Borrow<Event>>,
    ) -> Result<(), End> {
        self.recheck().await?;
        let mut response = self.response(id, revision);
        let Some(watching) = self.watches.get_mut(&id) else {
            return Ok(());
        };
        let wishes = watching.wishes;
        let wanted = events.iter().filter_map(|e| wishes.select(e.borrow()));
        response.events = wanted.collect();
        if response.events.is_empty() {
            return Ok(());
        }
        watching.busy = true;
        if event_value_refs(&response.events).is_ok_and(|references| references.is_empty()) {
            return self.send_parts(wishes, response).await;
        }
        self.wait_for_values(id, response);
        Ok(())
    }

    /// Lets a watch wait for the values of a response. It leaves the hub, so that nothing has to be
    /// kept for it meanwhile: it goes on from history.
    fn wait_for_values(&mut self, id: i64, response: WatchResponse) {
        let Some(watching) = self.watches.get_mut(&id) else {
            return;
        };
        watching.waits = true;
        // What the inbox has for it already will be read again.
        watching.serial = self.next_serial;
        self.next_serial += 1;
        if let Some(member) = watching.member.take() {
            self.hub.leave(member);
        }
        let serial = watching.serial;
        let watch_id = id;
        self.sort_in(id);
        self.waiting.push(Tag { watch_id, serial }, response);
    }

    /// The values of a response have come, or it cannot be had as it was: then its events are read
    /// again.
    async fn go_on(&mut self, tag: Tag, whole: Whole) -> Result<(), End> {
        self.recheck().await?;
        let Some(watching) = self.find(tag) else {
            return Ok(());
        };
        watching.waits = false;
        let wishes = watching.wishes;
        if let Whole::Again { from } = whole {
            watching.next = from;
        }
        self.sort_in(tag.watch_id);
        match whole {
            Whole::Response(response) => self.send_parts(wishes, response).await,
            Whole::Again { .. } => Ok(()),
        }
    }

    async fn send_parts(&self, wishes: EventOptions, response: WatchResponse) -> Result<(), End> {
        for part in wishes.split(response) {
            self.send(part).await?;
        }
        Ok(())
    }

    /// Answers a request for progress once every watch has got everything up to then.
    async fn answer_progress(&mut self, through: i64) -> Result<(), End> {
        let Some(_) = self.progress_wanted.take_if(|wanted| *wanted <= through) else {
            return Ok(());
        };
        if self.watches.is_empty() {
            return Ok(());
        }
        let response = self.response(NO_WATCH, through);
        self.send(response).await
    }

    /// Tells the watches that want it how far they are, unless they got something lately.
    async fn notify_progress(&mut self, through: i64) -> Result<(), End> {
        let mut quiet = Vec::new();
        for (id, watching) in &mut self.watches {
            let current = watching.member.is_some() && watching.next <= through + 1;
            let busy = std::mem::take(&mut watching.busy);
            if watching.notify_progress && current && !busy {
                quiet.push(*id);
            }
        }
        for id in quiet {
            let response = self.response(id, through);
            self.send(response).await?;
        }
        Ok(())
    }

    async fn figures(&self) -> Result<Figures, Status> {
        let read = self.handle.read(Query::Status, Consistency::Serializable);
        match read.await.map_err(failed)? {
            QueryAnswer::Status(figures) => Ok(figures),
            QueryAnswer::Refused(reason) => Err(refused(reason)),
            _ => Err(mismatch()),
        }
    }

    fn response(&self, watch_id: i64, revision: i64) -> WatchResponse {
        WatchResponse {
            header: Some(ResponseHeader {
                revision,
                ..self.header
            }),
            watch_id,
            ..WatchResponse::default()
        }
    }

    async fn send(&self, response: WatchResponse) -> Result<(), End> {
        let sent = self.outgoing.send(response).await;
        sent.map_err(|ClientGone| End::ClientGone)
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        for member in self.watches.values().filter_map(|watch| watch.member) {
            self.hub.leave(member);
        }
    }
}
