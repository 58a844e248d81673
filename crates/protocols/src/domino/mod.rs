//! Domino (Yan, Yang and Zhang, CoNEXT'20): a log whose positions are times.
//!
//! Each member has a lane of its own, which it fills like a Multi-Paxos leader (DM, Domino's Mencius), and there is a
//! fast lane (DFP, Domino's Fast Paxos). A position of a lane is a time. A gateway stamps its entry for the fast lane
//! with the time at which a fast quorum should have heard of it: members that do vote for it there, and, once their
//! clocks have passed a time, for nothing where they have not. So the order is known beforehand, and entries of
//! different gateways do not collide. All lanes together are one log, in the order of times.
//!
//! It is a yardstick: safe, to be compared with, and neither tuned nor whole.
//!
//! # Positions and slots
//!
//! Entries are delivered in the order of their positions, lane by lane where times are equal, once all lanes are
//! decided so far. Positions without an entry get no slot: the slot is the rank among entries, and one that is chosen
//! twice takes effect in the first of its positions. A replica does not write down which time its first undelivered
//! slot has. It asks the others after a start; what is decided up to then it need not know. Where nobody knows, lanes
//! are decided anew, with the same result for all that have delivered the same.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it. `Machine::check`
//! (`check.rs`) asserts what one replica can see, the tests watch the rest.
//!
//! - D1: one value is chosen at a position of a lane. A lane is Paxos for all its positions at once: a leader of a
//!   ballot asks for everything behind what it has delivered, up to a time; who accepts has delivered that, or has
//!   followed this leader without gaps (`Replica::on_accept`). So what was accepted of each leader is a stretch
//!   (`Step`), and what is not named in it is nothing. A phase 1 is for all later positions, shows all entries, and
//!   proposes at each the last vote of the highest ballot (`decide.rs`).
//! - In the fast lane the leader votes once at a position of its ballot, and nothing is chosen there without its vote
//!   (`Replica::count_fast_round`). So it may ask for its own votes in the same ballot where others are not equal, and
//!   members replace theirs. A new leader proposes what `|Q| + FQ - n` of its promises show, or what the old leader
//!   voted, and else nothing.
//! - D2: what a member said to get no vote any more gets none, also after a start. Stamps of the own lane, words about
//!   it and votes are reserved durably before they are said, and a start uses nothing that was (`Replica::reserve`).
//! - The word of an owner decides at once that there is nothing at a time in its lane: it uses each stamp once and none
//!   that it gave up, it begins behind all that earlier starts reserved, and nobody else puts entries into its lane but
//!   those that promises showed (`Replica::lead`, `Own`).
//! - D3: what is delivered at a position is nothing new to whoever has passed it. A replica that starts again may have
//!   forgotten that it accepted an entry, if that is delivered: hosts drop such records. Then it shows nothing there,
//!   and a leader may ask for nothing. So leaders deliver first what any of their promises had, and what they ask for
//!   and tell names the slot before which everything must be delivered for it to be true (`since`).
//! - Whoever has delivered all slots before one may take the time of that slot from anybody (`Mark`): what is chosen up
//!   to it is among them.
//!
//! Clocks decide which positions are tried, never what is chosen there. A position further ahead than clocks should
//! differ is held for `hold_us` since it is known, and stamps are behind everything that was given up.
//!
//! # Silence
//!
//! There are no heartbeats where nobody waits. A member says its beat, which is what is decided in its lanes and its
//! votes in the fast one, when its clock passes a position at which something waits; at most every `heartbeat_ms`,
//! which is 0 here, where the paper has 10. Delays of messages are learnt from answers, so that there are no probes.
//!
//! # Lost promises
//!
//! A replica that lost its promises writes that down, votes, promises and fills nothing, also after further starts: it
//! learns, and is one of those that may fail, until an epoch replaces it (`recover.rs`).

mod acceptor;
mod check;
mod config;
mod decide;
mod describe;
mod fast;
mod gateway;
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

pub use crate::shared::lags::Probe;
pub use config::{Config, Thresholds, Way};
pub use messages::{
    Accept, Accepted, Ask, Beat, Held, LaneNo, LaneRecord, Learn, Mark, Message, Named, Place,
    Placed, Promise, Proposal, Record, Round, Shown, Stamp, Step, Timer, Vote, Votes,
};
pub use mutants::Fault;
pub use protocol::Domino;
pub use replica::Replica;
