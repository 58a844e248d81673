//! What is counted of clients' connections.

use super::{Metrics, Registry};
use crate::log_limit::LogLimit;
use metrics::{Counter, Gauge};
use std::fmt;

/// The metrics of the connections to a port for clients.
pub struct ConnectionCounts {
    /// The number of open connections.
    pub open: Gauge,
    /// The most connections that may be open.
    pub allowed: Gauge,
    /// Refused because as many were open as may be, and none was idle.
    pub refused: Counter,
    /// Closed because others were wanted more.
    pub idle_closed: Counter,
    /// Closed because the head of a request did not come in time.
    pub half_open: Counter,
    /// Closed because the body of a request came too slowly.
    pub slow_bodies: Counter,
    /// Closed because their handshake of TLS failed, or because they spoke TLS where that is not expected.
    pub tls_failed: Counter,
    /// Bounds lines in the log about these connections.
    pub log: LogLimit,
}

impl fmt::Debug for ConnectionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionCounts")
    }
}

impl ConnectionCounts {
    /// Counts that nobody sees.
    #[must_use]
    pub fn unseen() -> Self {
        ConnectionCounts {
            open: Gauge::noop(),
            allowed: Gauge::noop(),
            refused: Counter::noop(),
            idle_closed: Counter::noop(),
            half_open: Counter::noop(),
            slow_bodies: Counter::noop(),
            tls_failed: Counter::noop(),
            log: LogLimit::default(),
        }
    }
}

impl Metrics {
    /// The metrics of the connections to the port for clients.
    #[must_use]
    pub fn client_connections(&self) -> ConnectionCounts {
        let on = Registry(&self.recorder);
        let closed = |reason| {
            let help = "Connections of clients that were closed, by reason: half-open (the head of a request did \
                        not come within 10 s), slow (a body brought less than 1 KiB/s), idle (others were wanted \
                        more when as many were open as may be), tls (no handshake of TLS came about).";
            on.labelled(
                "quorate_client_connections_closed_total",
                help,
                ("reason", reason),
            )
        };
        ConnectionCounts {
            open: on.gauge(
                "quorate_client_connections",
                "Connections of clients that are open.",
            ),
            allowed: on.gauge(
                "quorate_client_connections_max",
                "Connections of clients that may be open at a time.",
            ),
            refused: on.counter(
                "quorate_client_connections_refused_total",
                "Connections of clients refused because as many were open as may be, none of them idle.",
            ),
            idle_closed: closed("idle"),
            half_open: closed("half-open"),
            slow_bodies: closed("slow"),
            tls_failed: closed("tls"),
            log: LogLimit::default(),
        }
    }
}
