//! The etcd v3 API as plain messages.
//!
//! Written by hand so that building needs no protobuf compiler: field numbers are etcd's, keys and
//! values are [`bytes::Bytes`], which stay slices of the receive buffer until somebody copies them.
//!
//! [`mvccpb`], [`authpb`], [`etcdserverpb`], [`v3lockpb`] and [`v3electionpb`] are the protobuf packages of
//! the same names; [`errors`] is the table of gRPC codes and texts by which etcd's clients recognise errors.

pub mod authpb;
pub mod errors;
pub mod etcdserverpb;
pub mod mvccpb;
mod parts;
pub mod v3electionpb;
pub mod v3lockpb;

pub use parts::{TXN_PARTS_MAX, has_too_many_parts};
