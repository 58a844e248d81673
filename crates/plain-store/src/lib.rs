//! A plain key-value store: keys, values, and a version for each key.
//!
//! Everything that a command comes to depends on the keys it names, and on nothing else: there is no
//! revision of the whole store, no order of changes to watch, no list of all keys. So commands that name
//! different keys commute ([`quorate_core::CommandProperties::touches`]), and a protocol that knows it need not
//! wait for their order.
//!
//! There is one kind of command ([`Write`]): some changes, on the condition that some keys have the versions
//! that the client read. One change without a condition is a put or a deletion; a transfer between two keys
//! is a read of both, and a write of both under the condition that neither has changed.

mod command;
mod snapshot;
mod store;

pub use command::{Condition, KeyChange, Outcome, Refused, Write};
pub use snapshot::Cut;
pub use store::{Item, Query, QueryAnswer, Store, Version};
