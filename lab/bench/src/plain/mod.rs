//! Load on the plain face: clients that ask one thing after the other over HTTP, and what they saw.

mod args;
mod clients;
mod http;

pub(crate) use args::PlainArgs;
pub(crate) use clients::{Clients, Done, Mix};
