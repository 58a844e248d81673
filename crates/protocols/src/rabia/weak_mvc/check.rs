//! What one replica can see of the invariants.

use super::Replica;
use super::slot::View;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        self.slots.iter().for_each(|slot| slot.check(&self.config));
        self.pool.check();
        for instance in &self.slots {
            let decided = instance.decision(&self.config, View::Durable);
            if let (Some(verdict), Some(value)) = (decided, instance.decided) {
                assert_eq!(
                    verdict.value, value,
                    "all decisions of a slot are equal (I5)"
                );
            }
        }
        for (slot, instance) in (self.ap.0..).zip(&self.slots) {
            assert!(
                slot >= self.floor.0 || !instance.is_proposed(),
                "what may contradict a lost promise is not said (I9)"
            );
        }
        let first = self.slots.front();
        assert!(
            first.is_none_or(|slot| match slot.decided {
                None => true,
                Some(value) => value.is_some_and(|id| !self.pool.holds(id)),
            }),
            "what can be delivered is delivered"
        );
        for offer in &self.offers {
            assert!(!self.done.entries.contains(offer.id), "an offer is open");
            assert!(self.pool.holds(offer.id), "the origin holds its offers");
        }
        assert!(
            self.pool
                .oldest_first()
                .all(|id| !self.done.entries.contains(id)),
            "a pending batch is not in the log"
        );
        assert!(
            self.unflushed.iter().all(|(lsn, ..)| *lsn > self.durable),
            "what is durable is not awaited"
        );
    }
}
