//! What commands and benches share: units that people write, pages of metrics, processes that do not outlive
//! their parent, and folders and ports that are free.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an outer ring: processes, sockets and clocks are what it is about"
)]

pub mod allocator;
pub mod children;
pub mod cleanup;
pub mod keys;
pub mod launch;
pub mod login;
pub mod ports;
pub mod process;
pub mod program;
pub mod scrape;
pub mod tables;
pub mod terminal;
pub mod tls_args;
pub mod units;
