//! Who hears of what commands do, beside their clients.

use crate::users::UserTable;
use bytes::Bytes;
use std::sync::Arc;

/// Whoever is told of messages, and of elements that somebody may wait for. No call may wait for anything.
pub trait Subscribers: Send + Sync {
    /// A message was sent to a channel: it is told on every replica, once, in the order of the log.
    fn publish(&self, channel: &Bytes, message: &Bytes);

    /// Whether anybody waits for elements. Nobody is told of them otherwise.
    fn awaits_elements(&self) -> bool {
        false
    }

    /// A list or sorted set in this database was changed, and has so many elements. The command may yet be taken back.
    fn elements(&self, _db: u32, _key: &Bytes, _count: usize) {}

    /// Any key may hold elements now.
    fn all_elements(&self) {}

    /// These are the users from now on; `None` where the group has none.
    fn users(&self, _users: Option<&Arc<UserTable>>) {}
}
