//! What a sequence knows of the systems it runs against, from the answers of the reference.

use std::collections::BTreeSet;

use super::step::{Action, Outcome, STREAMS};

/// Where the systems stand.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The revision of the last change.
    pub(crate) revision: i64,
    /// The first readable revision; -1 before any compaction.
    pub(crate) compacted: i64,
    /// Every revision that was compacted to.
    pub(crate) compactions: BTreeSet<i64>,
    /// Leases granted with a number of the server's choice.
    pub(crate) chosen_leases: i64,
    /// The living watches of each stream.
    pub(crate) watches: [BTreeSet<i64>; STREAMS],
    /// The greatest revision a watch begins at.
    pub(crate) watched_from: i64,
}

impl Default for World {
    fn default() -> Self {
        World {
            revision: 1,
            compacted: -1,
            compactions: BTreeSet::new(),
            chosen_leases: 0,
            watches: Default::default(),
            watched_from: 0,
        }
    }
}

impl World {
    /// Takes note of what came of an action.
    pub(crate) fn learn(&mut self, action: &Action, outcome: &Outcome) {
        self.revision = self.revision.max(outcome.revision);
        match action {
            Action::Compact(request) if outcome.succeeded => {
                self.compacted = request.revision;
                self.compactions.insert(request.revision);
            }
            Action::Grant(request) | Action::GrantBriefly(request)
                if outcome.succeeded && request.id == 0 =>
            {
                self.chosen_leases += 1;
            }
            Action::Watch { stream, request } => {
                if let Some(id) = outcome.watch_id {
                    self.watches[*stream].insert(id);
                    self.watched_from = self.watched_from.max(request.start_revision);
                }
            }
            Action::Cancel { stream, watch_id } => {
                self.watches[*stream].remove(watch_id);
            }
            Action::Reopen { stream } => self.watches[*stream].clear(),
            _ => {}
        }
    }
}
