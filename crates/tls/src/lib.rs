//! TLS for clients and replicas.
//!
//! A port has an [`Acceptor`], and who dials a [`Connector`]. Both read their certificates from files, and read them
//! again once these change. What they make is a [`Connection`], plain or encrypted: whoever holds one need not know
//! which.

#![allow(
    clippy::disallowed_methods,
    reason = "certificates are valid for a time, and handshakes have a deadline"
)]

mod acceptor;
mod certificate;
mod connection;
mod connector;
mod der;
mod describe;
mod error;
mod files;
#[cfg(test)]
mod fuzz;
mod handshake;
mod names;
mod parameters;
mod self_signed;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod verify_client;
mod verify_server;
mod watched;

pub use acceptor::{Acceptor, ServerFiles, speaks_tls};
pub use certificate::Certificate;
pub use connection::{Connection, DetachedConnection};
pub use connector::{ClientFiles, Connector};
pub use error::TlsError;
pub use handshake::HANDSHAKE_TIMEOUT;
pub use names::{AllowedNames, is_valid_for};
pub use parameters::Parameters;
pub use self_signed::self_signed;
pub use source::{CertificateFile, Expiry};
