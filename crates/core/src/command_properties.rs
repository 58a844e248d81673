//! What can be told of an application's commands without its state.

use crate::payload::Payload;
use bytes::Bytes;

/// What the command with a body touches, as numbers of buckets; `None` for everything. See
/// [`CommandProperties::touches`].
pub type Touches = fn(&Bytes) -> Option<Vec<u32>>;

/// The body of a command with its payloads inside; see [`CommandProperties::join`].
pub type Join = fn(&Bytes, &[Payload]) -> Option<Bytes>;

/// What the body of a command says by itself, whatever the state. Gateways, which have no state, need it as replicas
/// do.
#[derive(Clone, Copy, Debug)]
pub struct CommandProperties {
    /// Whether the command with this body may make the state larger. Where space is short, such commands are
    /// refused and all others are carried out.
    pub grows: fn(&Bytes) -> bool,
    /// What commands touch, if those that touch nothing in common commute: in either order they come to
    /// the same results and the same state, whatever slot, time and place in an entry they get. Protocols
    /// that know better than to order everything may then let them change places until they are decided.
    ///
    /// Replicas of different versions must agree on this, as on everything that commands mean: two that do
    /// not commute share a bucket, whoever is asked.
    pub touches: Option<Touches>,
    /// The body of the same command with its payloads inside, whose bytes are all at hand: for an epoch
    /// in which nothing is kept apart. `None` if that cannot be; an application that makes no payloads
    /// is never asked.
    pub join: Join,
}

impl CommandProperties {
    /// The properties of commands of which nothing is known: each may make the state larger, no two commute, and none
    /// has payloads.
    pub const UNKNOWN: CommandProperties = CommandProperties {
        grows: |_| true,
        touches: None,
        join: |_, _| None,
    };
}
