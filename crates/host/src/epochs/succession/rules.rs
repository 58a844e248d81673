//! The rules of succession that a test may break, to see that it notices.

/// What keeps a change of epochs safe. Everything holds; a mutant breaks one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// A replica starts the machine of an epoch only when it has the state before it.
    pub(crate) starts_with_state: bool,
    /// It counts as having it only when it is durable.
    pub(crate) holds_when_durable: bool,
    /// The machine of a sealed epoch keeps its records until the seal is durable.
    pub(crate) stops_when_durable: bool,
    /// Holders that open an epoch, beyond those of its members that may fail.
    pub(crate) holders_beyond_failures: usize,
    /// A leaver stays until an epoch without it is open.
    pub(crate) leaves_when_opened: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            starts_with_state: true,
            holds_when_durable: true,
            stops_when_durable: true,
            holders_beyond_failures: 1,
            leaves_when_opened: true,
        }
    }
}
