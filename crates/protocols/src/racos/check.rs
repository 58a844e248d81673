//! What one replica can see of the invariants.

use super::Replica;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        for (id, spreading) in &self.spreading {
            assert!(!self.mvc.is_done(*id), "what is spread is not in the log");
            // Of what it spread before it lost its disk, others may know that it was announced.
            let is_known = self.orphans.contains(id) && !spreading.is_announced;
            assert!(
                is_known || spreading.is_announced == self.mvc.holds(*id),
                "what was announced, and nothing else, may be ordered (C1)"
            );
            assert!(
                self.segments.get(*id).is_some(),
                "an origin writes what it spreads"
            );
        }
        let mut undecided = self.segments.iter();
        assert!(
            undecided.all(|(id, _)| !self.mvc.is_done(*id)),
            "a segment of what is decided is the host's"
        );
        assert!(!self.may_form_entry(), "what may be sent does not wait");
    }
}
