//! What clients asked of the shared keys and were told, and whether one order explains it all.

use quorate_sim::judge::{Journal, Op, check};

use super::clients::Session;

/// A history of shared keys.
#[derive(Debug, Default)]
pub(super) struct Record(Vec<Op>);

impl Record {
    /// Requests in it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Requests without an answer.
    pub(super) fn unknown(&self) -> usize {
        let open = self.0.iter().filter(|op| op.returned.is_none());
        open.count()
    }

    /// Adds a request. A read without an answer says nothing and need not be added.
    pub(super) fn add(&mut self, op: Op) {
        self.0.push(op);
    }

    /// Takes over all of another one.
    pub(super) fn merge(&mut self, other: Record) {
        self.0.extend(other.0);
    }

    /// Holds it against the changes of its keys, as a replica tells them.
    pub(super) fn check(&self, session: &Session, journal: &Journal) -> Result<(), String> {
        let checked = check(&self.0, journal);
        checked.map(|_| ()).map_err(|why| {
            format!(
                "the history of {} requests on shared keys is not linearizable (client c asks \
                 replica c mod {} + 1): {why}",
                self.0.len(),
                session.replicas()
            )
        })
    }
}
