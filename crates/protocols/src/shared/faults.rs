//! Deliberate faults, for mutants alone: each breaks a rule at the place where the rule holds.

/// The fault of a machine; without a mutant there is none. `F` lists the faults of a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults<F>(Option<F>);

impl<F> Default for Faults<F> {
    /// Without any fault.
    fn default() -> Self {
        Faults(None)
    }
}

impl<F: Copy + PartialEq> Faults<F> {
    /// This fault and no other.
    #[must_use]
    pub fn only(fault: F) -> Self {
        Faults(Some(fault))
    }

    /// Whether the machine has this fault.
    #[must_use]
    pub fn is(self, fault: F) -> bool {
        self.0 == Some(fault)
    }
}
