//! Rabia: leaderless state machine replication with randomised consensus (Pan et al., SOSP'21).
//!
//! Its machine is in `weak_mvc`, for Racos orders its candidates with the same one; here is
//! what makes it Rabia: parameters, the paper's figures, and what breaks it. `README.md` beside this file
//! says which function embodies which line, where we depart from the paper, and why that is safe too.

mod config;
mod mutants;
mod paper;
mod protocol;
#[cfg(test)]
mod tests;
pub(crate) mod weak_mvc;

pub use crate::shared::decided::DecidedSet;
pub use protocol::Rabia;
pub use weak_mvc::{
    Bits, Config, Message, Mode, Nulls, Record, Replica, SlotMessage, Step, TRAIL_VALUES_MAX,
    Thresholds, Timer, Trail, Value,
};
