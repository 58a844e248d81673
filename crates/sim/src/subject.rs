//! The application under test, as the workload sees it.

use crate::history::{Call, Outcome, Seen};
use bytes::Bytes;
use quorate_core::Application;
use std::collections::BTreeMap;

mod store;

/// What the workload asks for besides operations on registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chore {
    /// Begin a lease.
    Grant { lease: u64, ttl_s: u64 },
    /// Begin its time anew.
    Renew { lease: u64 },
    /// End it.
    Revoke { lease: u64 },
    /// Store a key that goes with it.
    Attach { lease: u64, value: u64 },
    /// Forget what was before a revision.
    Compact { revision: u64 },
}

/// The keys whose changes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All, for the one reader of a replica that may read what was compacted but not freed.
    All,
    /// All, for anybody else.
    Every,
    /// One register.
    Register(u8),
    /// All registers.
    Registers,
    /// The keys that go with leases.
    Leased,
}

impl Scope {
    /// Whether it covers a change.
    pub(crate) fn covers(self, change: &Change) -> bool {
        match self {
            Scope::All | Scope::Every => true,
            Scope::Register(key) => change.register == Some(key),
            Scope::Registers => change.register.is_some(),
            Scope::Leased => change.register.is_none(),
        }
    }
}

/// A change as a watcher sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Bytes,
    /// The register, if the key is one.
    pub(crate) register: Option<u8>,
    /// What is there now; `None` if nothing is.
    pub(crate) after: Option<Seen>,
    /// What was there before, if that is told.
    pub(crate) before: Option<Seen>,
}

/// The answer to who asks for changes.
pub(crate) enum Changes {
    /// All changes before `next`.
    Found { changes: Vec<Change>, next: u64 },
    /// They cannot be read any more; those from this revision on can.
    Compacted { readable: u64 },
}

/// An application with keys that can be stored, removed, compared and read.
pub(crate) trait Subject: Application {
    /// An empty one.
    fn fresh() -> Self;

    /// The command for a call that changes something.
    fn command(key: u8, call: Call) -> Bytes;

    /// The read of a key.
    fn read(key: u8) -> Self::Query;

    /// What the result of a command says.
    fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String>;

    /// The command for a chore.
    fn chore(chore: Chore) -> Bytes;

    /// Whether a chore had the effect it was to have.
    fn is_done(chore: Chore, result: &Bytes) -> Result<bool, String>;

    /// Changes from a revision on.
    fn changes(&self, scope: Scope, from: u64) -> Result<Changes, String>;

    /// All keys as they are now.
    fn content(&self) -> Result<BTreeMap<Bytes, Seen>, String>;

    /// Its revision.
    fn revision(&self) -> u64;

    /// Leases, and keys that go with them.
    fn leases(&self) -> Result<u64, String>;

    /// What the answer to a read says.
    fn got(answer: &Self::Answer) -> Result<Outcome, String>;

    /// The key as it is now.
    fn look(&self, key: u8) -> Result<Option<Seen>, String> {
        Ok(Self::got(&self.query(&Self::read(key)))?.seen())
    }
}
