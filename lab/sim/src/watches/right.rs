//! The right that a watch takes: looked at as faces do, and told to the judge.

use super::Watcher;
use crate::judge::Sight;
use crate::rights::Behalf;
use crate::subject::{Scope, Subject};
use crate::world::World;
use quorate_core::{MILLIS, Machine};
use quorate_etcd_store::{Asker, AuthBoard, Refused};

/// How soon somebody asks for a watch again that was refused or ended, at most.
const AGAIN_NS: u64 = 100 * MILLIS;

/// For whom something is watched.
pub(super) struct WatchRight {
    behalf: Behalf,
    /// Who asks, and the stamp of the board when the right was looked at last; `None` until the watch is served.
    looked: Option<(Asker, (u64, bool))>,
}

impl WatchRight {
    pub(super) fn new(behalf: Behalf) -> Self {
        let looked = None;
        WatchRight { behalf, looked }
    }

    /// Whether the watch is served, as far as its right was looked at.
    pub(super) fn is_served(&self) -> bool {
        self.looked.is_some()
    }

    /// The watch is asked for again, at another replica.
    pub(super) fn begin_anew(&mut self) {
        self.looked = None;
    }

    /// Who asks for the watch, as a face sees it that has this board.
    fn asker(&self, board: &AuthBoard) -> Asker {
        match (&self.looked, self.behalf) {
            (Some((asker, _)), _) => asker.clone(),
            (None, Behalf::Server) => Asker::Server,
            (None, Behalf::User(name)) if board.is_enabled() => {
                Asker::User(board.state().identity(name))
            }
            (None, Behalf::Stranger) if board.is_enabled() => Asker::Nobody,
            (None, _) => Asker::Anybody,
        }
    }
}

impl Watcher {
    /// What the judge is told of it: the revision of an identity does not count.
    pub(super) fn sight(
        &self,
        stamp: u64,
        revision: i64,
        refused: Option<Refused>,
    ) -> Option<Sight> {
        let (asker, _) = self.right.as_ref()?.looked.as_ref()?;
        let mut asker = asker.clone();
        if let Asker::User(identity) = &mut asker {
            identity.revision = u64::MAX;
        }
        let Scope::Range(key, range_end) = &self.scope else {
            return None;
        };
        Some(Sight {
            asker,
            key: key.clone(),
            range_end: range_end.clone(),
            stamp,
            revision,
            refused: refused.map(Refused::error),
        })
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Looks at the right to a watch before it is told something, if users have changed since. Without it the watch
    /// ends, and somebody else asks for another. Says whether it is served.
    pub(super) fn look_at_right(&mut self, at: usize) -> bool {
        let watcher = &mut self.watchers[at];
        let home = watcher.home;
        let (Some(right), Scope::Range(key, range_end)) = (&mut watcher.right, &watcher.scope)
        else {
            return true;
        };
        let Some(app) = self.nodes[home].decided_app() else {
            return false;
        };
        let (Some(guarded), Some(kept)) = (app.guarded(), app.revisions()) else {
            return true;
        };
        let board = guarded.board();
        let was_served = right.is_served();
        let asker = right.asker(&board);
        if matches!(&right.looked, Some((_, stamp)) if *stamp == board.stamp()) {
            return true;
        }
        let refused = board.admit_reading(&asker, key, range_end).err();
        right.looked = Some((asker, board.stamp()));
        let sight = watcher.sight(self.clients.tick(), kept.revision(), refused);
        self.rights.sights.extend(sight);
        if refused.is_none() {
            return true;
        }
        if was_served {
            self.totals.hit("watch ended for rights");
        }
        self.watchers[at] = self.draw_watcher();
        let again_ns = self.queue.now_ns() + self.rng.u64(..AGAIN_NS);
        self.watchers[at].due_ns = again_ns;
        false
    }
}
