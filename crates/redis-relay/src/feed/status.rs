//! What others than the feed's thread see of it.

use std::sync::{Mutex, PoisonError};

/// What a feed does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeedStatus {
    /// Whether the server takes what it is given.
    pub is_serving: bool,
    /// Bodies that were taken.
    pub taken: u64,
    /// Bodies that the server has carried out.
    pub carried_out: u64,
    /// A digest of the replies to them: equal wherever as many were carried out.
    pub replies: u64,
    /// The position of the newest RDB.
    pub rdb_position: u64,
    /// Bytes of the bodies since the newest RDB.
    pub history_bytes: u64,
    /// Bytes of the bodies that the server has yet to carry out.
    pub behind_bytes: u64,
    /// Servers that had to be replaced.
    pub deaths: u64,
    /// Why the server does not serve, if that needs a person.
    pub failure: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct FeedBoard(Mutex<FeedStatus>);

impl FeedBoard {
    pub(super) fn status(&self) -> FeedStatus {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut FeedStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
