//! What the cores of machines are busy with.

/// What a core is busy with, in ns: a step of the protocol and the host's work around it, by message that
/// comes and by byte of it; and the socket at either end, by message and by byte.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct CoreCosts {
    pub(crate) step_message_ns: f64,
    pub(crate) step_byte_ns: f64,
    pub(crate) socket_message_ns: f64,
    pub(crate) socket_byte_ns: f64,
}

/// What cores and disks take, where nothing else of a machine counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CorePlan {
    pub(crate) costs: CoreCosts,
    /// What a flush takes, ns.
    pub(crate) flush_ns: u64,
    /// The real server beside each replica, if there is one.
    pub(crate) server: Option<ServerPlan>,
}

/// A server beside each replica that carries out every command, on a core of its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ServerPlan {
    /// Time of its core for a command, ns.
    pub(crate) command_ns: u64,
    /// What the replica writes to it for a command, bytes.
    pub(crate) command_bytes: u64,
}

impl CoreCosts {
    /// What a message of so many bytes takes at either end of a socket.
    pub(crate) fn socket(&self, bytes: u64) -> f64 {
        self.socket_message_ns + self.socket_byte_ns * bytes as f64
    }

    /// What a host takes for a message of so many bytes that comes.
    pub(crate) fn step(&self, bytes: u64) -> f64 {
        self.step_message_ns + self.step_byte_ns * bytes as f64
    }
}
