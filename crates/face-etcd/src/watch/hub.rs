//! Distributes changes to everybody who is up to date, reading each of them once.
//!
//! A watch whose stream takes its events is a *member*: the hub reads every change from the store
//! once, matches it against the index, and puts it into the inboxes of those it concerns. A stream
//! that does not take what it gets has a full inbox; then its watch is dropped from the index, and
//! all that remains of it is the revision from which it has to read history once its client reads
//! again. So neither many watchers nor a slow one hold up a put, and memory is bounded.

use super::index::{Index, MemberId};
use crate::face::failed;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::{Events, EventsQuery, Keys, Query, QueryAnswer, Store};
use quorate_server::{Consistency, Failure, Handle};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tonic::Status;

/// The distributor of one replica.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<HubState>,
    /// Somebody joined an empty hub.
    joined: Notify,
    /// Every change up to this revision is in the inboxes of those it concerns.
    told: watch::Sender<i64>,
    /// Bytes in all inboxes.
    queued_bytes: Arc<AtomicUsize>,
    /// Whoever reads history holds it, so that of many who are behind only one at a time asks the
    /// store.
    history: Semaphore,
    started: AtomicBool,
}

#[derive(Debug)]
struct HubState {
    index: Index,
    members: BTreeMap<MemberId, Member>,
    next_id: MemberId,
    /// The first revision that was not distributed.
    next: i64,
}

/// A watch that is up to date.
#[derive(Debug)]
pub(crate) struct Member {
    /// The key, or the first of the range.
    pub(crate) key: Bytes,
    /// The end of the range.
    pub(crate) range_end: Bytes,
    /// The first revision wanted.
    pub(crate) from: i64,
    /// Where its changes go.
    pub(crate) inbox: Arc<Inbox>,
    /// What its stream knows it by.
    pub(crate) tag: Tag,
}

/// Names a watch on its stream, and no other watch there before or after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// The number its client knows.
    pub(crate) watch_id: i64,
    /// Clients may use a number again.
    pub(crate) serial: u64,
}

/// Changes for one watch, of one or several revisions.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// For which watch.
    pub(crate) tag: Tag,
    /// The events of one revision, in the order in which they happened.
    pub(crate) events: Vec<Arc<Event>>,
    /// Every change up to this revision is told.
    pub(crate) through: i64,
    bytes: usize,
}

/// What an inbox gives.
#[derive(Debug)]
pub(crate) enum FromInbox {
    /// Events that the watch asked for.
    Delivery(Delivery),
    /// There are no more changes. These watches are members no longer since the last time, and each
    /// goes on from this revision.
    Lagging(Vec<(Tag, i64)>),
}

/// What waits for one stream.
#[derive(Debug)]
pub(crate) struct Inbox {
    content: Mutex<Content>,
    arrived: Notify,
    queued_bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Content {
    queue: VecDeque<Delivery>,
    bytes: usize,
    lagging: Vec<(Tag, i64)>,
}

/// Bytes in one inbox before its stream counts as slow.
const INBOX_BYTES_MAX: usize = 1 << 20;
/// Bytes in all inboxes together.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// What a delivery and an event in it take.
const EVENT_BYTES: usize = 256;
/// How long to wait when the replica takes no more requests.
const RETRY: Duration = Duration::from_millis(2);

impl Default for Hub {
    fn default() -> Self {
        Hub {
            state: Mutex::new(HubState {
                index: Index::default(),
                members: BTreeMap::new(),
                next_id: 0,
                next: 0,
            }),
            joined: Notify::new(),
            told: watch::Sender::new(0),
            queued_bytes: Arc::default(),
            history: Semaphore::new(1),
            started: AtomicBool::new(false),
        }
    }
}

impl Hub {
    /// An inbox for a new stream.
    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::new(Inbox {
            content: Mutex::default(),
            arrived: Notify::new(),
            queued_bytes: Arc::clone(&self.queued_bytes),
        })
    }

    /// Makes a watch a member, unless what it wants was distributed before: then it has to read
    /// history first. `known` is a revision the store has reached.
    pub(crate) fn join(&self, member: Member, known: i64) -> Option<MemberId> {
        let mut state = self.lock();
        if state.members.is_empty() {
            state.next = known + 1;
            self.told.send_replace(known);
            self.joined.notify_one();
        }
        if member.from < state.next {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.index.insert(&member.key, &member.range_end, id);
        state.members.insert(id, member);
        Some(id)
    }

    /// Ends a membership.
    pub(crate) fn leave(&self, id: MemberId) {
        self.lock().remove(id);
    }

    /// How many watches are up to date.
    pub(crate) fn members(&self) -> usize {
        self.lock().members.len()
    }

    /// How far changes are distributed.
    pub(crate) fn told(&self) -> watch::Receiver<i64> {
        self.told.subscribe()
    }

    /// Begins to distribute, the first time it is asked to.
    pub(crate) fn start(self: &Arc<Self>, handle: &Handle<Store>) {
        if !self.started.swap(true, Ordering::Relaxed) {
            let (hub, handle) = (Arc::clone(self), handle.clone());
            tokio::spawn(async move { hub.run(&handle).await });
        }
    }

    /// Distributes for as long as the replica runs.
    async fn run(&self, handle: &Handle<Store>) {
        let mut applied = handle.applied();
        loop {
            let Some(from) = self.next() else {
                // Nothing needs to be kept for a reader that does not read.
                let _ = handle.read(Query::Unwatch, Consistency::Serializable).await;
                if self.next().is_none() {
                    self.joined.notified().await;
                }
                continue;
            };
            applied.borrow_and_update();
            let keys = Keys::All;
            let query = Query::Events(EventsQuery { keys, from });
            match handle.read(query, Consistency::Serializable).await {
                Ok(QueryAnswer::Events(found)) => {
                    let present = found.next > found.revision;
                    self.distribute(found);
                    if present && applied.changed().await.is_err() {
                        return;
                    }
                }
                Ok(_) => self.shed(),
                Err(Failure::Stopping) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// The first revision to distribute, if there is anybody to distribute it to.
    fn next(&self) -> Option<i64> {
        let state = self.lock();
        (!state.members.is_empty()).then_some(state.next)
    }

    fn distribute(&self, found: Events) {
        let mut state = self.lock();
        if found.next <= state.next {
            return;
        }
        let mut matched: BTreeMap<MemberId, Vec<Arc<Event>>> = BTreeMap::new();
        for event in found.events {
            let event = Arc::new(event);
            let Some(kv) = &event.kv else { continue };
            state.index.visit(&kv.key, |id| {
                let wants = |m: &Member| m.from <= kv.mod_revision;
                if state.members.get(&id).is_some_and(wants) {
                    matched.entry(id).or_default().push(Arc::clone(&event));
                }
            });
        }
        let through = found.next - 1;
        for (id, events) in matched {
            let Some(member) = state.members.get(&id) else {
                continue;
            };
            if !member.inbox.deliver(member.tag, events, through) {
                state.remove(id);
            }
        }
        state.next = found.next;
        self.told.send_replace(through);
    }

    /// What is to be distributed is gone: everybody has to look for himself.
    fn shed(&self) {
        let mut state = self.lock();
        let from = state.next;
        for id in state.members.keys().copied().collect::<Vec<_>>() {
            if let Some(member) = state.remove(id) {
                member.inbox.lag(member.tag, from.max(member.from));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HubState {
    fn remove(&mut self, id: MemberId) -> Option<Member> {
        let member = self.members.remove(&id)?;
        self.index.remove(&member.key, &member.range_end, id);
        Some(member)
    }
}

impl Inbox {
    /// What comes next.
    pub(crate) fn take(&self) -> FromInbox {
        let mut content = self.lock();
        let Some(delivery) = content.queue.pop_front() else {
            return FromInbox::Lagging(std::mem::take(&mut content.lagging));
        };
        content.bytes -= delivery.bytes;
        self.queued_bytes
            .fetch_sub(delivery.bytes, Ordering::Relaxed);
        FromInbox::Delivery(delivery)
    }

    /// Waits until something has arrived since it was last waited for.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Puts a delivery in, or notes that the watch lags behind from here.
    fn deliver(&self, tag: Tag, events: Vec<Arc<Event>>, through: i64) -> bool {
        let bytes = events.iter().map(|event| size(event)).sum();
        let mut content = self.lock();
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        // Whatever its size, one delivery fits: history would not be smaller.
        let full = content.bytes > 0
            && (content.bytes + bytes > INBOX_BYTES_MAX || queued + bytes > QUEUED_BYTES_MAX);
        if full {
            let from = events.first().and_then(|e| e.kv.as_ref());
            content
                .lagging
                .push((tag, from.map_or(through, |kv| kv.mod_revision)));
        } else {
            content.bytes += bytes;
            self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
            content.queue.push_back(Delivery {
                tag,
                events,
                through,
                bytes,
            });
        }
        drop(content);
        self.arrived.notify_one();
        !full
    }

    fn lag(&self, tag: Tag, from: i64) {
        self.lock().lagging.push((tag, from));
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn size(event: &Event) -> usize {
    let value = |kv: &Option<_>| {
        kv.as_ref()
            .map_or(0, |kv: &quorate_etcd_api::mvccpb::KeyValue| kv.value.len())
    };
    EVENT_BYTES + value(&event.kv) + value(&event.prev_kv)
}

/// Reads a range's changes from a revision on, one reader at a time; `None` if they are compacted.
pub(crate) async fn read_history(
    hub: &Hub,
    handle: &Handle<Store>,
    watched: EventsQuery,
) -> Result<Option<Events>, Status> {
    let _turn = hub.history.acquire().await;
    loop {
        let query = Query::Events(watched.clone());
        match handle.read(query, Consistency::Serializable).await {
            Ok(QueryAnswer::Events(found)) => return Ok(Some(found)),
            Ok(_) => return Ok(None),
            Err(Failure::Overloaded) => tokio::time::sleep(RETRY).await,
            Err(failure) => return Err(failed(failure)),
        }
    }
}
