//! Responses to watches that wait for values which are kept as payloads.

use super::hub::Tag;
use crate::gather::{Gatherer, ValueMissing};
use quorate_etcd_api::etcdserverpb::WatchResponse;
use quorate_etcd_store::{event_value_refs, fill_events};
use std::time::Duration;
use tokio::task::JoinSet;

/// The responses of one stream that wait for values: one for each watch at most.
pub(crate) struct WaitingResponses {
    gatherer: Gatherer,
    responses: JoinSet<(Tag, Whole)>,
}

/// What came of a response.
#[derive(Debug)]
pub(crate) enum Whole {
    /// The response has its values.
    Response(WatchResponse),
    /// The values could not be had: the events are to be read again, from this revision on.
    Again {
        /// Of the first of them.
        from: i64,
    },
}

/// How long to wait before events are read again: for a compaction to get here, or a replica to come
/// back.
const AGAIN: Duration = Duration::from_millis(20);

impl WaitingResponses {
    pub(crate) fn new(gatherer: Gatherer) -> Self {
        let responses = JoinSet::new();
        WaitingResponses {
            gatherer,
            responses,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Lets a response wait.
    pub(crate) fn push(&mut self, tag: Tag, response: WatchResponse) {
        let gatherer = self.gatherer.clone();
        self.responses
            .spawn(async move { (tag, whole(&gatherer, response).await) });
    }

    /// The next one that waits no longer; never, if none waits.
    pub(crate) async fn next(&mut self) -> (Tag, Whole) {
        loop {
            match self.responses.join_next().await {
                Some(Ok(next)) => return next,
                // A task that panicked has said so, and its watch stays where it is.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

async fn whole(gatherer: &Gatherer, mut response: WatchResponse) -> Whole {
    let first = response.events.first().and_then(|event| event.kv.as_ref());
    let from = first.map_or(0, |kv| kv.mod_revision);
    let gathered = match event_value_refs(&response.events) {
        Ok(references) => gatherer.gather(references).await,
        Err(_) => Err(ValueMissing::Dead),
    };
    match gathered {
        Ok(values) => {
            fill_events(&mut response.events, values);
            Whole::Response(response)
        }
        Err(_) => {
            tokio::time::sleep(AGAIN).await;
            Whole::Again { from }
        }
    }
}
