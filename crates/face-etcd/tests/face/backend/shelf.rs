//! Values that are kept as payloads, in memory, and what befalls those who want them.

use bytes::Bytes;
use quorate_core::{Application, Payload, PayloadId};
use quorate_etcd_store::Store;
use quorate_server::{Failure, PayloadGone};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, watch};

/// The payloads of a replica.
#[derive(Default)]
pub(crate) struct Shelf {
    kept: Mutex<BTreeMap<PayloadId, Bytes>>,
    mood: watch::Sender<Mood>,
    traffic: watch::Sender<Traffic>,
}

/// What becomes of requests for payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Mood {
    /// Requests for values are answered.
    #[default]
    Given,
    /// Requests for values wait.
    Held,
    /// Too few fragments can be reached.
    Scattered,
}

/// Requests for payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) asked: usize,
    pub(crate) bytes_under_way: u64,
    pub(crate) bytes_under_way_max: u64,
}

type Reply = oneshot::Sender<Result<Result<Bytes, PayloadGone>, Failure>>;

impl Shelf {
    pub(crate) fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    pub(crate) fn traffic(&self) -> Traffic {
        *self.traffic.borrow()
    }

    /// Waits until so many requests have come since the beginning.
    pub(crate) async fn asked(&self, count: usize) {
        let mut traffic = self.traffic.subscribe();
        let asked = traffic.wait_for(|traffic| traffic.asked >= count).await;
        asked.expect("the shelf is here");
    }

    /// Puts the payloads of a command on the shelf.
    pub(super) fn put(&self, first: PayloadId, payloads: &[Payload]) {
        let mut kept = self.kept.lock().expect("no panic");
        let mut id = first;
        for payload in payloads {
            let bytes = payload.bytes.clone().expect("the face splits it off");
            assert!(payload.is(&bytes));
            kept.insert(id, bytes);
            id.part += 1;
        }
    }

    /// Takes away what is dead.
    pub(super) fn clear(&self, store: &mut Store) {
        let mut kept = self.kept.lock().expect("no panic");
        for id in store.take_dead() {
            assert!(kept.remove(&id).is_some(), "{id:?} died twice");
        }
    }

    /// Answers a request, in time.
    pub(super) fn ask(self: &Arc<Self>, id: PayloadId, payload: &Payload, reply: Reply) {
        let len = u64::from(payload.len);
        self.traffic.send_modify(|traffic| {
            traffic.asked += 1;
            traffic.bytes_under_way += len;
            let most = traffic.bytes_under_way_max.max(traffic.bytes_under_way);
            traffic.bytes_under_way_max = most;
        });
        let shelf = Arc::clone(self);
        tokio::spawn(async move {
            let mut mood = shelf.mood.subscribe();
            let mood = mood.wait_for(|mood| *mood != Mood::Held).await;
            let is_scattered = *mood.expect("the shelf is here") == Mood::Scattered;
            let found = match is_scattered {
                true => Err(PayloadGone::Scattered { have: 1, need: 3 }),
                false => shelf.find(id),
            };
            shelf
                .traffic
                .send_modify(|traffic| traffic.bytes_under_way -= len);
            // Whoever asked may have stopped waiting.
            let _ = reply.send(Ok(found));
        });
    }

    fn find(&self, id: PayloadId) -> Result<Bytes, PayloadGone> {
        let kept = self.kept.lock().expect("no panic");
        kept.get(&id).cloned().ok_or(PayloadGone::Dead)
    }
}
