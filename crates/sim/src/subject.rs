//! The application under test, as the workload sees it.

use crate::history::{Call, Outcome, Seen};
use bytes::Bytes;
use quorate_core::Application;

mod store;

/// An application with keys that can be stored, removed, compared and read.
pub(crate) trait Subject: Application {
    /// An empty one.
    fn fresh() -> Self;

    /// The command for a call that changes something.
    fn command(key: u8, call: Call) -> Bytes;

    /// The read of a key.
    fn read(key: u8) -> Self::Query;

    /// The read of a key as it was at a revision.
    fn read_at(key: u8, revision: u64) -> Self::Query;

    /// What the result of a command says.
    fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String>;

    /// What the answer to a read says.
    fn got(answer: &Self::Answer) -> Result<Outcome, String>;

    /// The key as it is now.
    fn look(&self, key: u8) -> Result<Option<Seen>, String> {
        Ok(Self::got(&self.query(&Self::read(key)))?.seen())
    }
}
