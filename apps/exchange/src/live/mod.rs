//! The exchange in earnest: replicas and gateways as processes, those who trade, and those who follow.
//!
//! What decides is in the other modules; here are clocks, connections and processes. [`up`] starts an exchange on this
//! machine, and [`bench`] measures one: participants who trade at a rate, a relay between gateways and replicas that
//! delays what passes, and replicas that are killed.

#![allow(
    clippy::disallowed_methods,
    reason = "processes know clocks and threads"
)]

mod bench;
mod clock;
mod connection;
mod cpu;
mod gateway;
mod generator;
mod place;
mod processes;
mod relay;
mod replica;
mod same_feed;
mod subscriber;
mod timer;
mod tokens;
mod up;
mod web;

pub use bench::{BenchOptions, BenchSeen, CpuSeen, RunningBench, bench};
pub use clock::now;
pub use gateway::{GatewayOptions, run as run_gateway};
pub use generator::{Load, LoadSeen, trade};
pub use place::{ExchangeOptions, Places};
pub use replica::{ReplicaOptions, run as run_replica};
pub use same_feed::Compared;
pub use subscriber::Subscriber;
pub use tokens::Tokens;
pub use up::up;
pub use web::SiteNames;
