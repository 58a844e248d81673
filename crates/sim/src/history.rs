//! What clients asked, and what they were told.

/// One operation on one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Store this value; values are unique in a history.
    Put(u64),
    /// Remove the key.
    Delete,
    /// Store the value if the key was last modified at this revision; 0 means "does not exist".
    Cas {
        /// The revision expected.
        expected: u64,
        /// The value to store.
        value: u64,
    },
    /// Read the key.
    Get,
}

impl Call {
    /// The value it stores, if it stores one.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        match self {
            Call::Put(value) | Call::Cas { value, .. } => Some(value),
            Call::Delete | Call::Get => None,
        }
    }
}

/// A key as it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its value.
    pub value: u64,
    /// How often it was stored since it was created; 1 when created.
    pub version: u64,
    /// The revision that created it.
    pub created: u64,
    /// The revision that last stored it.
    pub modified: u64,
}

/// What an operation gave. `revision` is the store's revision right after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Stored.
    Put {
        /// Also the key's modification revision.
        revision: u64,
    },
    /// Removed, or was not there.
    Deleted {
        /// Grows only if something was removed.
        revision: u64,
        /// Whether something was removed.
        existed: bool,
    },
    /// The expectation held and the value was stored.
    Swapped {
        /// Also the key's modification revision.
        revision: u64,
    },
    /// The expectation did not hold.
    Kept {
        /// The store's revision.
        revision: u64,
        /// What was there instead.
        seen: Option<Seen>,
    },
    /// Read.
    Got {
        /// The store's revision.
        revision: u64,
        /// What was there.
        seen: Option<Seen>,
    },
}

impl Outcome {
    /// The store's revision right after the operation.
    #[must_use]
    pub fn revision(&self) -> u64 {
        match *self {
            Outcome::Put { revision }
            | Outcome::Deleted { revision, .. }
            | Outcome::Swapped { revision }
            | Outcome::Kept { revision, .. }
            | Outcome::Got { revision, .. } => revision,
        }
    }

    /// Whether it changed the store, and so has a revision of its own.
    #[must_use]
    pub fn changed(&self) -> bool {
        match self {
            Outcome::Put { .. } | Outcome::Swapped { .. } => true,
            Outcome::Deleted { existed, .. } => *existed,
            Outcome::Kept { .. } | Outcome::Got { .. } => false,
        }
    }

    /// The key as it saw it, if it says anything about that.
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        match self {
            Outcome::Kept { seen, .. } | Outcome::Got { seen, .. } => *seen,
            _ => None,
        }
    }
}

/// One operation of the history. Times are stamps of one counter: no two are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Who asked.
    pub client: usize,
    /// Which key.
    pub key: u8,
    /// What for.
    pub call: Call,
    /// When it was first sent.
    pub invoked: u64,
    /// When the answer arrived, and what it said; `None` if that is unknown: it may have taken
    /// effect at any time since, may do so later, or never.
    pub returned: Option<(u64, Outcome)>,
    /// The revision at which an observer of the whole store saw an operation without an answer
    /// take effect. Tells the checker what to try first, and is not believed.
    pub hint: Option<u64>,
}
