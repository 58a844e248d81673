//! What connections begin with, where they are secured: TLS, and secrets of replicas.

mod client_port;
mod expiry;
mod peer_port;
mod secret;

pub use client_port::PortTls;
pub(crate) use expiry::Certificates;
pub use expiry::expiry_warnings;
pub use peer_port::{PeerSecurity, PeerTls};
pub use secret::PeerSecret;
