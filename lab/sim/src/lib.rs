//! Whole clusters in virtual time.
//!
//! One seed is one cluster: hosts as they ship, around disks that forget what was not synced,
//! links that lose, repeat and reorder, clocks that drift and jump, and machines that crash, stop
//! and come back. Clients write and read through it all. First the cluster is hurt, and everything
//! it says is checked; then it is healed, and every operation must finish and all replicas must
//! come to the same state. Nothing but the seed decides what happens, so that a seed that fails
//! fails again.
//!
//! # What is checked
//!
//! - Agreement: whatever any replica, dead or alive, applied in a slot is what all of them apply.
//! - The clients' history, transactions and ranges included, is what the changes of every revision
//!   come to, in an order that real time allows ([`judge`]); of the plain store, which keeps no
//!   revisions, it is what the versions of keys allow ([`versions`]).
//! - A command is executed once, however often it was sent, and answered alike by everybody.
//! - No acknowledged write is lost by a crash: the final reads of every key through every replica
//!   are part of the history.
//! - A lease lives for its whole time after every renewal that was acknowledged, and ends with its
//!   keys once nobody renews it.
//! - What a replica holds when it was started, or given a snapshot, is what all changes up to its
//!   revision come to.
//! - Watchers see every change of their keys once, in order and alike on all replicas, or are told
//!   of a compaction that somebody asked for.
//! - Where there are users, who may do what is part of the clients' history: nobody is served without the
//!   right to it, nor refused with it, and a watch ends with the right to it.
//! - Progress: once the faults are over, nothing stays stuck.
//! - The invariants of machines and hosts, which panic when broken; honest replicas are never
//!   reported as misbehaving; queues and logs stay bounded.
//!
//! # A day in the life of an event
//!
//! [`world`](self) takes events from a queue in the order of virtual time. Most of them end in a
//! replica's inbox; at its next turn the replica takes its inbox, as production does, and what its
//! host wants done becomes new events.

mod agreement;
mod bounds;
mod calm;
mod capacity;
mod changes;
mod clients;
mod commute;
mod core_costs;
mod corruption;
mod diagnosis;
mod disk;
mod disk_faults;
mod disk_io;
mod drive;
mod effects;
mod events;
mod faces;
mod figures;
mod fragment_faults;
mod gateways;
mod inspect_disk;
pub mod judge;
mod known_protocols;
mod leases;
mod load;
mod long;
mod meter;
mod mix;
mod mutants;
mod nemesis;
mod network;
mod node;
mod options;
mod panics;
mod parallel;
pub mod per_write;
mod phases;
mod picture;
mod plan;
mod probe;
mod profiles;
mod queue;
mod recording;
mod report;
mod requests;
mod rights;
mod runner;
mod schedule;
mod segments;
mod servers;
mod shrink;
mod simulator;
mod snapshots;
mod speed;
mod start;
mod steady;
mod subject;
mod tally;
mod trace;
mod values;
mod variations;
pub mod versions;
mod waiting;
mod wan;
mod watches;
mod world;

pub use capacity::{CapacityOptions, LeaderWrites};
pub use figures::{FiguresOptions, ModesOptions, modes, run as figures};
pub use meter::Measured;
pub use options::{DurabilityName, SimArgs, SimOptions, SimReport, StoreName, parse};
pub use report::{Report, Totals, Violation};
pub use runner::run;
pub use simulator::Simulator;
pub use speed::SpeedOptions;
pub use subject::Testable;
pub use wan::{Map, WanOptions, params as wan_params};
