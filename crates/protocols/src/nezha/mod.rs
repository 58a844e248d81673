//! Nezha (Geng et al., VLDB'23): requests ordered by deadline in synchronised time, answered after one
//! round trip when replicas agree on what came before them.
//!
//! One replica leads a view. A gateway (the paper's proxy) forms entries of its clients' commands, gives each a
//! deadline by which all should have it, and counts the answers. There is one inside every replica, and any
//! number may run in processes of their own ([`RemoteGateway`]). The leader has what it appends executed at once, before it is decided.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it.
//! `check.rs` asserts what one replica can see, the tests watch the rest:
//!
//! - I1: what conflicts is in deadline order in the log, and no entry is there twice, nor in the log and
//!   unsynced (`check.rs`).
//! - I2, I3: a synced log is a prefix of the log of its view's leader (`follower.rs`).
//! - I4: what was committed, on either path, is in every later view's log, behind the same entries that
//!   conflict with it (`merge.rs`).
//! - I5: what is below a commit-point never changes: only that is delivered.
//! - I7: view, `lnv`, `cv` and, within a view, the synced log only grow.
//! - I8: a view's log is made once (`merge.rs`).
//! - I9: nothing is held for longer than `far_us` on the own monotonic clock (`early.rs`).

mod bodies;
mod buckets;
mod change;
mod check;
mod config;
mod counting;
mod deliver;
mod describe;
mod digest;
mod disk;
mod dom;
mod early;
mod figures;
mod follower;
mod gateway;
mod hold;
mod leader;
mod local_gateway;
mod log;
mod merge;
mod messages;
mod mutants;
mod paper;
mod prf;
mod protocol;
mod reads;
mod receive;
mod recover;
mod rejoin;
mod remote_gateway;
mod remote_gateways;
mod repeats;
mod replica;
#[cfg(test)]
mod tests;
mod timers;
mod wire;

pub use buckets::Buckets;
pub use config::{Config, Thresholds};
pub use digest::{BUCKETS_MAX, Footprint, Sums, Tup};
pub use dom::{Delays, Estimates};
pub use messages::{Body, LogMod, Message, Outcome, Placed, Record, StartView, Timer, Vc};
pub use mutants::Fault;
pub use prf::Prf;
pub use protocol::Nezha;
pub use remote_gateway::{RemoteGateway, RemoteGatewayConfig};
pub use replica::Replica;
