//! The protocols, one folder each, and the one line per protocol that registers it.
//!
//! A protocol is a pure state machine behind [`quorate_core::Machine`]. This crate depends on
//! nothing that knows a clock, a socket, a file or a thread.

mod any;
mod backlog;
mod catalogue;
pub mod chora;
mod code;
mod done;
mod gateways;
mod lives;
mod masks;
pub mod multi_paxos;
pub mod nezha;
mod paper;
mod params;
pub mod rabia;
pub mod racos;
mod registry;
mod rejoin;
pub mod rs_paxos;
mod sabotage;
#[cfg(test)]
mod seats;
mod under_way;

pub use any::{AnyConfig, AnyMachine, AnyMessage, AnyRecord, AnyTimer, Inside, failures_survived};
pub use catalogue::Registered;
pub use code::Code;
pub use done::Done;
pub use gateways::{AnyGateway, GatewayMachine, gateway_machine};
pub use lives::{Life, Lives};
pub use paper::{About, Paper, Setting, Shares};
pub use registry::{
    Catcher, Gist, Layers, Mutant, Protocol, Sabotage, ValueOf, Visitor, names, unknown_protocol,
    visit,
};
pub use sabotage::{Sabotaged, SabotagedConfig};
