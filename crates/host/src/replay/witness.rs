//! What a replay tells of every slot that it applies.

use crate::apply::Applied;
use bytes::Bytes;
use quorate_core::{Entry, Refusal, Slot};

/// A decided slot.
#[derive(Debug)]
pub struct Exported<'a> {
    /// The slot's number.
    pub slot: Slot,
    /// What was decided; `None` is a no-op.
    pub entry: Option<&'a Entry>,
    /// What the entry's commands came to, in their order; shorter if its rest does not decode.
    pub outcomes: &'a [Outcome],
}

/// What a command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Executed; the application's result. Sessions give none.
    Executed(Bytes),
    /// Executed before, at this slot; not executed again.
    Repeated(Slot),
    /// Not executed, and why.
    Refused(Refusal),
}

impl Outcome {
    pub(crate) fn new(slot: Slot, applied: Applied) -> Self {
        match applied {
            Applied::Result(first, result) if first == slot => Outcome::Executed(result),
            Applied::Result(first, _) => Outcome::Repeated(first),
            Applied::Refused(refusal) => Outcome::Refused(refusal),
        }
    }
}

/// Who is told of every slot, with the application right after it; and first of no slot, with the
/// application as it begins.
pub(crate) type Witness<'a, A> = &'a mut dyn FnMut(&A, Option<Exported<'_>>);
