//! What the hosts of a protocol take of a core.

use crate::capacity::{Hosts, calibrate_sockets, calibrate_steps, put_all};
use crate::core_costs::CoreCosts;
use crate::per_write::PerWrite;
use quorate_core::Durability;

/// What messages take of a core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoreTimes(pub(super) CoreCosts);

impl CoreTimes {
    /// Measures this machine: hosts of the protocol in a ring, and a socket.
    ///
    /// # Errors
    /// Says what could not be done.
    pub fn measure(of: &PerWrite) -> Result<CoreTimes, String> {
        let (step, socket) = (calibrate_steps(&of.hosts())?, calibrate_sockets()?);
        Ok(CoreTimes(CoreCosts {
            step_message_ns: step.message_ns,
            step_byte_ns: step.byte_ns,
            socket_message_ns: socket.message_ns,
            socket_byte_ns: socket.byte_ns,
        }))
    }

    /// What a message without bytes takes in a host, and at either end of a socket, ns.
    #[must_use]
    pub fn per_message_ns(&self) -> [f64; 2] {
        [self.0.step_message_ns, self.0.socket_message_ns]
    }
}

/// Puts so many values into hosts of the protocol in this process, whose links and disks take no time: for those who
/// count what that takes.
///
/// # Errors
/// If the hosts cannot be started, or do not get through.
pub fn put_in_memory(of: &PerWrite, puts: usize) -> Result<(), String> {
    put_all(&of.hosts(), super::VALUE_BYTES, puts)
}

impl PerWrite {
    fn hosts(&self) -> Hosts {
        Hosts {
            protocol: self.way.protocol,
            replicas: self.replicas.into(),
            params: self.way.params,
            durability: Durability::Disk,
        }
    }
}
