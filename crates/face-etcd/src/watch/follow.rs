//! The changes of a key or a range, for what the face itself waits for.

use super::hub::{FromInbox, Hub, Inbox, Member, Tag, read_history};
use super::index::MemberId;
use crate::face::Face;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::Event;
use quorate_etcd_store::{EventsQuery, Keys, Store};
use quorate_server::Handle;
use std::sync::Arc;
use tonic::Status;

/// Follows the changes of a key or a range: up to date as a member of the [`Hub`], from history while it is behind.
pub(crate) struct Follower {
    hub: Arc<Hub>,
    handle: Handle<Store>,
    inbox: Arc<Inbox>,
    key: Bytes,
    range_end: Bytes,
    /// The first revision that was not told.
    next: i64,
    /// The membership of the hub; `None` while the follower is behind.
    member: Option<MemberId>,
}

/// An inbox of its own has deliveries for nobody else.
const TAG: Tag = Tag {
    watch_id: 0,
    serial: 0,
};

impl Follower {
    /// Follows from a revision on.
    pub(crate) fn new(face: &Face, key: Bytes, range_end: Bytes, from: i64) -> Follower {
        face.hub.start(&face.handle);
        Follower {
            hub: Arc::clone(&face.hub),
            handle: face.handle.clone(),
            inbox: face.hub.inbox(),
            key,
            range_end,
            next: from,
            member: None,
        }
    }

    /// The next changes, in order, of one or several revisions; `None` if some of them are compacted. Values may be
    /// kept as payloads.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Event>>>, Status> {
        loop {
            if self.member.is_none() {
                let Some(events) = self.read_on().await? else {
                    return Ok(None);
                };
                if !events.is_empty() {
                    return Ok(Some(events));
                }
                continue;
            }
            match self.inbox.take() {
                FromInbox::Delivery(delivery) => {
                    self.next = delivery.through + 1;
                    return Ok(Some(delivery.events));
                }
                FromInbox::Lagging(lagging) => match lagging.last() {
                    Some((_, from)) => (self.member, self.next) = (None, *from),
                    None => self.inbox.arrived().await,
                },
            }
        }
    }

    /// Reads a piece of history, and joins the hub at its end.
    async fn read_on(&mut self) -> Result<Option<Vec<Arc<Event>>>, Status> {
        let keys = Keys::Span {
            key: self.key.clone(),
            range_end: self.range_end.clone(),
        };
        let from = self.next;
        let watched = EventsQuery { keys, from };
        let Some(found) = read_history(&self.hub, &self.handle, watched).await? else {
            return Ok(None);
        };
        self.next = found.next;
        if found.next > found.revision {
            let member = Member {
                key: self.key.clone(),
                range_end: self.range_end.clone(),
                from: self.next,
                inbox: Arc::clone(&self.inbox),
                tag: TAG,
            };
            self.member = self.hub.join(member, found.revision);
        }
        Ok(Some(found.events.into_iter().map(Arc::new).collect()))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(member) = self.member {
            self.hub.leave(member);
        }
    }
}
