//! What protocols make of epochs, as far as the change from one to the next depends on it.

use super::Epoch;
use crate::entry::Entry;
use crate::wire::WireError;
use bytes::Bytes;
use std::fmt;

/// What an epoch's protocol makes of its members and parameters, as far as the change to another
/// epoch depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// How many members there are.
    pub n: usize,
    /// `f`: members that may fail at once while the others decide, and keep what was decided.
    pub failures: usize,
    /// The largest code: fragments that rebuild a value, 1 where values are whole.
    pub code: usize,
}

impl Numbers {
    /// `n - f`: members that decide by themselves.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.n - self.failures
    }
}

/// Why a protocol cannot run an epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// The feature level does not have this protocol.
    Protocol,
    /// The protocol does not work with these members and parameters; why, for people.
    Parameters(String),
}

/// The protocols that an epoch may name, and what they ask of one.
///
/// The answer is a function of its arguments, the same in every program that knows the level. A
/// program that does not know it must stop before it applies anything at that level.
pub trait Catalogue: fmt::Debug + Sync {
    /// The numbers of an epoch at a feature level.
    ///
    /// # Errors
    /// [`Unfit`] when its protocol cannot run it.
    fn numbers(&self, level: u32, epoch: &Epoch) -> Result<Numbers, Unfit>;

    /// The feature level from which on a group may go on with a protocol that it does not have; 1 for one that
    /// every program with levels knows. A group that begins with a protocol needs no level: a program that does
    /// not know it starts no member.
    fn level_of(&self, protocol: &str) -> u32 {
        let _ = protocol;
        1
    }

    /// The entry that a record of a protocol's machine carries, if it carries one. A log keeps records
    /// of all protocols that a group has had.
    ///
    /// # Errors
    /// When there is no such protocol, or the record is none of its.
    fn entry_of(&self, protocol: &str, record: Bytes) -> Result<Option<Entry>, WireError>;
}
