//! What is said over connections: between gateways and replicas, and between gateways and those who follow the feed.
//!
//! Each frame is the length of what follows it, a letter, and fields at their places. A gateway has a link to every
//! replica. It sends requests to the one that leads, which answers them and says what happens with the owners of
//! orders; from any replica it fetches what it missed. Subscribers are told what gateways have shown.

mod feed;
mod frame;
mod gateway;
mod replica;

pub use feed::{FeedFrame, FeedRequest, GatewayStatus};
pub use frame::FRAME_MAX;
pub use gateway::ToReplica;
pub use replica::{AnsweredRequest, FromReplica, OwnOrder, RequestStatus};

#[cfg(test)]
pub(crate) mod tests;
