//! Who a client of the load is: what it shows of itself, and how it speaks.

use std::sync::Arc;

use quorate_tls::Connector;
use quorate_tooling::login::Login;

/// How servers are reached: over TLS or in plain text, as a user or as anybody.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What connects over TLS; plain text without it.
    pub tls: Option<Arc<Connector>>,
    /// The user who asks, if servers are to know.
    pub login: Option<Login>,
}
