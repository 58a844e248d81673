//! The public feed: what happens in each symbol, without owners, numbered without gaps.
//!
//! Market data is made of the engine's events and of nothing else, so that any two replicas, and a replay of the log,
//! publish the same bytes. A [`Publisher`] makes packets of committed events, each with the time at which gateways may
//! show it. A [`FeedFollower`] holds the book of a symbol: it begins with a [`BookSnapshot`], asks for what it missed,
//! and takes messages in any order.

mod book;
mod follower;
mod in_order;
mod message;
mod packet;
mod publisher;
mod snapshot;

pub use book::{FollowError, FollowedBook};
pub use follower::{FeedFollower, Wanted};
pub use in_order::{InOrder, Inserted};
pub use message::{MarketKind, MarketMessage};
pub use packet::{PACKET_MESSAGES_MAX, Packet};
pub use publisher::Publisher;
pub use snapshot::{BookSnapshot, PublicOrder};

#[cfg(test)]
mod tests;
