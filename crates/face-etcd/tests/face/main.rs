//! The face as clients have it: over a network, before a store that answers at once.
//!
//! One program for all of it: each more would hold the same server and client once more, and be built as long.

mod auth;
mod backend;
mod face;
mod json;
mod json_users;
mod lease;
mod locks;
mod member_rules;
mod memory;
mod no_leader;
mod payload_values;
mod plain_http;
mod quota;
mod range_stream;
mod routes;
mod statuses;
mod watch;
mod websocket;
