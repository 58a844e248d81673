//! The bounds of what clients may do to a relay.

use std::time::Duration;

/// What a relay takes of its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayLimits {
    /// Most connections that are open at a time, tunnels from other replicas not counted.
    pub connections_max: usize,
    /// How long a request waits for an executor, and an answer for its proof, before the connection is closed.
    pub answer_max: Duration,
    /// How long a client may take nothing of what is written to it.
    pub stall_max: Duration,
    /// How long open connections may go on after the relay was told to stop.
    pub drain: Duration,
}

impl Default for RelayLimits {
    fn default() -> Self {
        RelayLimits {
            connections_max: 10_000,
            answer_max: Duration::from_secs(5),
            stall_max: Duration::from_secs(60),
            drain: Duration::from_secs(1),
        }
    }
}

/// Tunnels of other replicas that are open at a time.
pub(crate) const TUNNELS_MAX: usize = 10_000;
/// What is charged for keeping bytes, beside their number.
pub(crate) const KEPT_BYTES: usize = 128;
/// Bytes that are read of a connection at a time.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// How long a client may take nothing while the memory for clients is short.
pub(crate) const STALL_MAX_SHORT: Duration = Duration::from_secs(1);
/// Bytes of answers that one client may have waiting before no more are read for it.
pub(crate) const CLIENT_HELD_BYTES_MAX: usize = 256 << 10;
/// How long another replica may take to answer a tunnel or a probe.
pub(crate) const TUNNEL_WITHIN: Duration = Duration::from_millis(500);
/// The pause before an executor that could not be reached is tried again.
pub(crate) const PLACE_AGAIN: Duration = Duration::from_millis(20);
