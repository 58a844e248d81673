//! The bounds of what clients may ask for.

use std::time::Duration;

/// What the face lets in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most connections that are open at a time.
    pub connections_max: usize,
    /// The largest request, in bytes, be it one call or a whole transaction.
    pub request_bytes_max: usize,
    /// How long a request that has begun may bring nothing.
    pub silence_max: Duration,
    /// How long a client may take nothing of what is written to it.
    pub stall_max: Duration,
    /// Messages of channels that may wait for a subscriber, in bytes.
    pub mailbox_bytes_max: usize,
    /// How long open requests may take after the face was told to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            request_bytes_max: 3 << 19,
            silence_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(60),
            mailbox_bytes_max: 8 << 20,
            drain: Duration::from_secs(5),
        }
    }
}

/// Databases that a client may select.
pub(crate) const DATABASES: u32 = 16;
/// Most calls that become one command body.
pub(crate) const BODY_CALLS_MAX: usize = 512;
/// Bytes of calls that become one command body, unless a single one is longer.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Most calls in a transaction.
pub(crate) const TRANSACTION_CALLS_MAX: usize = 16 << 10;
/// Keys that a connection watches, in bytes with what each takes beside.
pub(crate) const WATCHED_BYTES_MAX: usize = 1 << 20;
/// What a name or a key that is kept takes beside its bytes.
pub(crate) const NAME_BYTES: usize = 128;
/// Names of channels and patterns that a connection subscribes to, in bytes with what each takes beside.
pub(crate) const SUBSCRIPTIONS_BYTES_MAX: usize = 4 << 20;
/// The longest name of a client or a library, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// Replies that are gathered before they are written, in bytes.
pub(crate) const REPLIES_BYTES_MAX: usize = 256 << 10;
