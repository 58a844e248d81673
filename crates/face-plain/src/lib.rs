//! The plain face: keys and values over HTTP, for whoever has no use for what etcd has beyond that.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /kv/KEY` | the value, its version as `ETag`; 404 without one; `?serializable` for what this replica knows |
//! | `PUT /kv/KEY` | stores the body; 412 where `If-Match: "VERSION"` or `If-None-Match: *` does not hold |
//! | `DELETE /kv/KEY` | deletes it, under the same conditions |
//! | `POST /write` | several keys at once, or none of them ([`batch`]) |
//! | `POST /read` | several keys as they are at one time |
//!
//! Any replica serves any request, and so does a remote gateway ([`serve_gateway`]), which orders writes itself. What
//! a write comes to depends on the keys it names alone ([`quorate_plain_store`]), so requests about different keys
//! need not wait for each other's order.

mod batch;
mod gateway;
mod keys;
mod reply;
mod serve;

pub use gateway::serve_gateway;
pub use serve::{Limits, serve};
