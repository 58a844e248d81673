//! What one replica can see of the invariants.

use super::Replica;
use super::digest::Bounds;
use super::mutants::Fault;
use super::replica::Status;
use quorate_core::Slot;

impl Replica {
    /// I1, and that what is kept twice says the same.
    pub(super) fn check_all(&self) {
        assert!(self.lnv <= self.view, "{} <= {}", self.lnv, self.view);
        assert!(self.ap <= self.cp, "{} <= {}", self.ap, self.cp);
        if !self.config.faults.is(Fault::KeepOtherVersions) {
            self.check_once();
        }
        self.check_order();
        self.unsynced.check();
        assert!(
            self.log.items.is_empty() || !self.is_unvouched,
            "nothing is vouched for"
        );
        if self.status == Status::Recovering {
            assert!(self.rejoin.is_some() && self.unsynced.is_empty() && self.log.items.is_empty());
        }
    }

    /// What conflicts is in deadline order.
    fn check_order(&self) {
        let mut bounds = Bounds::default();
        for item in &self.log.items {
            let footprint = &item.body.footprint;
            assert!(
                bounds.bound(footprint) < item.tup,
                "{:?} is in order",
                item.tup
            );
            bounds.raise(footprint, item.tup);
        }
    }

    /// No entry is there twice.
    fn check_once(&self) {
        let (log, slots) = (self.log.items.len(), self.log.slots.len());
        assert_eq!(log, slots, "no entry twice in the log");
        for (item, at) in self.log.items.iter().zip(self.ap.0..) {
            let id = item.tup.id;
            let slot = self.log.slots.get(&id);
            assert_eq!(slot, Some(&Slot(at)), "{id:?} is where it is");
            assert!(!self.unsynced.contains(id), "{id:?} is synced");
        }
    }
}
