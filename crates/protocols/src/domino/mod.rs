//! Domino (Yan, Yang and Zhang, CoNEXT'20): a log whose positions are times.

mod acceptor;
mod check;
mod config;
mod decide;
mod describe;
mod fast;
mod gateway;
mod lags;
mod lanes;
mod learner;
mod messages;
mod mutants;
mod owner;
mod protocol;
mod reads;
mod recover;
mod replica;
mod takeover;
#[cfg(test)]
mod tests;
mod waits;
mod wire;

pub use config::{Config, Thresholds, Way};
pub use messages::{
    Accept, Accepted, Ask, Beat, Held, LaneNo, LaneRecord, Learn, Mark, Message, Named, Place,
    Placed, Probe, Promise, Proposal, Record, Round, Shown, Stamp, Step, Timer, Vote, Votes,
};
pub use mutants::Fault;
pub use protocol::Domino;
pub use replica::Replica;
