//! What one replica can see of the invariants.

use super::Replica;
use super::config::Config;
use super::slot::{Instance, View};
use super::trail::Step;
use super::voice::SlotValue;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        self.slots.iter().for_each(|slot| slot.check(&self.config));
        self.pool.check();
        for instance in &self.slots {
            let decided = instance.decision(&self.config, View::Durable);
            if let Some(verdict) = decided.filter(|_| instance.is_decided()) {
                assert_eq!(
                    SlotValue::from(verdict.value),
                    instance.decided,
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
                SlotValue::Unheard => true,
                SlotValue::Null => false,
                SlotValue::Request(id) => !self.pool.holds(id),
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
        assert!(!self.may_form_batch(), "what may be sent does not wait");
        self.disk.check();
    }
}

impl Instance {
    /// The lemmas of the paper's section 5 that one replica can see (I2, I3, I4).
    pub(crate) fn check(&self, config: &Config) {
        let t = &config.thresholds;
        for voice in &self.voices {
            if let SlotValue::Request(id) = voice.prop
                && self.support(id) >= t.proposal
            {
                assert_eq!(self.q, Some(id), "one request has T proposals (I2, I4)");
            }
        }
        for index in 0..self.longest_trail() {
            let tally = self.tally(index, View::All);
            assert!(
                tally.ones == 0 || self.q.is_some(),
                "whoever hears a 1 knows the request (I4)"
            );
            assert!(
                matches!(config.mode.step(index), Step::State(_))
                    || tally.ones == 0
                    || tally.zeros == 0,
                "votes 0 and 1 exclude each other in a phase (I3): {self:?}"
            );
        }
        let own = self.own();
        assert!(
            own.prop.is_heard() || own.trail.is_empty(),
            "who votes has proposed"
        );
        assert!(
            self.prop_durable <= own.prop.is_heard(),
            "only what exists is durable"
        );
        assert!(
            self.trail_durable <= own.trail.len(),
            "only what exists is durable"
        );
    }
}
