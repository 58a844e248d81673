//! The program as its users have it: real processes, in folders and at ports of their own.
//!
//! One program for all of it: each more would hold the same clients and helpers once more, and be built as long.

#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time"
)]

mod alarms;
mod backup;
mod bad_input;
mod cluster;
mod comeback;
mod damage;
mod descriptors;
mod doctor;
mod etcd;
mod export;
mod force;
mod formats;
mod gateway;
mod handshake;
mod import;
mod leader;
mod log_flood;
mod members;
mod names;
mod no_leader;
mod packages;
mod peer_tls;
mod plain;
mod react;
mod redis;
mod redis_effects;
mod redis_tls;
mod returning;
mod rollback;
mod status;
mod statuses;
mod strangers;
mod support;
mod switch;
mod tls;
mod tls_operators;
mod tls_ports;
mod tls_under_load;
mod transport;
mod unoffered;
mod users;
mod versions;
mod yardsticks;
