//! What a sequence knows of the systems it runs against, from the answers of the reference.

use std::collections::BTreeSet;

use super::step::{Action, Outcome, STREAMS};
use super::users::Accounts;

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
    /// Who can log in.
    pub(crate) accounts: Accounts,
    /// Alarm NOSPACE is raised.
    pub(crate) is_full: bool,
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
            accounts: Accounts::default(),
            is_full: false,
        }
    }
}

impl World {
    /// Whether all watches must have told everything before an action: what they tell would depend on who
    /// comes first otherwise, in etcd itself.
    pub(crate) fn needs_quiet(&self, action: &Action) -> bool {
        matches!(
            action,
            Action::Compact(_) | Action::Cancel { .. } | Action::Reopen { .. }
        ) || self.accounts.ends_watches(action)
    }

    /// Takes note of what came of an action.
    pub(crate) fn learn(&mut self, action: &Action, outcome: &Outcome) {
        self.revision = self.revision.max(outcome.revision);
        if self.accounts.ends_watches(action) {
            self.watches.iter_mut().for_each(BTreeSet::clear);
        }
        match action {
            Action::Users(action) if outcome.succeeded => self.accounts.learn(action),
            Action::RaiseNoSpace if outcome.succeeded => self.is_full = true,
            // Answered or not: nobody is asked who it is before.
            Action::PutTooMuch { .. } => self.is_full = true,
            Action::Disarm if outcome.succeeded => self.is_full = false,
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
            Action::Reopen { stream } if outcome.succeeded => self.watches[*stream].clear(),
            _ => {}
        }
    }
}
