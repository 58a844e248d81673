//! The protocols, one folder each, and the one line per protocol that registers it.
//!
//! A protocol is a pure state machine behind [`quorate_core::Machine`]. This crate depends on
//! nothing that knows a clock, a socket, a file or a thread.

pub mod chora;
#[cfg(feature = "yardsticks")]
pub mod domino;
#[cfg(feature = "yardsticks")]
pub mod epaxos;
#[cfg(feature = "yardsticks")]
pub mod fast_paxos;
#[cfg(feature = "yardsticks")]
pub mod mencius;
pub mod multi_paxos;
pub mod nezha;
#[cfg(feature = "yardsticks")]
pub mod nopaxos;
pub mod rabia;
pub mod racos;
pub mod raft;
mod registry;
pub mod rs_paxos;
mod shared;

pub use registry::any::{
    AnyConfig, AnyMachine, AnyMessage, AnyRecord, AnyTimer, Inside, failures_survived,
};
#[cfg(feature = "broken")]
pub use registry::any::{AnySabotaged, AnySabotagedConfig};
pub use registry::catalogue::Registered;
pub use registry::flags::{AUTO, Flag, FlagKind};
pub use registry::paper::{About, Paper, Setting, Shares};
pub use registry::protocol_set::{Only, ProtocolSet};
pub use registry::remote_gateways::{
    RemoteGatewayConfig, RemoteGatewayMachine, remote_gateway_config,
};
pub use registry::sabotage::{Sabotaged, SabotagedConfig};
pub use registry::{
    Catcher, Gist, Grade, LayerValue, Layers, Mutant, Protocol, Sabotage, ValueOf, Visitor,
    all_names, flags, names, usable, visit, yardsticks,
};
pub use shared::code::Code;
pub use shared::decided::DecidedSet;
pub use shared::faults::Faults;
pub use shared::lives::{Life, Lives};
