//! How the main log grows (`advance()`): in order, and nowhere else.

use super::Replica;
use super::messages::{Logged, Record, Value};
use super::role::Role;
use quorate_core::{Event, Out, Slot};

impl Replica {
    /// Verifies and appends what can be, in order, then commits what can be.
    pub(super) fn advance(&mut self, out: &mut Out<Self>) {
        if !self.config.rules.verifies_in_order {
            self.jump_over_unverified(out);
        }
        let end = self.worth_until();
        while self.verified < end
            && let Some(next) = self.pending.remove(&self.verified)
        {
            let is_same = |logged: &Logged| logged.eview == next.eview;
            if !self.log.get(self.verified).is_some_and(is_same) {
                self.append(next, out);
            }
            self.verified = self.verified.next();
        }
        self.try_commit(out);
    }

    /// The first slot that need not be verified yet: slots at the end of what is here that hold nothing go
    /// with the next one that does, and take no flush of their own. Nobody waits for them: they are behind
    /// all that is known to be proposed.
    fn worth_until(&self) -> Slot {
        let mut end = self.verified;
        let waiting = self.pending.range(self.verified..);
        for ((slot, logged), at) in waiting.zip(self.verified.0..) {
            if slot.0 != at {
                break;
            }
            if *slot < self.log.end() || logged.value != Value::Noop {
                end = slot.next();
            }
        }
        end
    }

    /// What the paper does (section 14, 1): what comes goes into the one log there is, and a slot that
    /// was received in this view always matches.
    fn jump_over_unverified(&mut self, out: &mut Out<Self>) {
        while let Some(next) = self.pending.remove(&self.log.end()) {
            self.append(next, out);
        }
        let is_own = |logged: &&Logged| logged.eview == self.view;
        if let Some(last) = self.log.entries().filter(is_own).last() {
            self.verified = self.verified.max(last.slot.next());
        }
        self.pending = self.pending.split_off(&self.verified);
    }

    /// Appends an entry to the main log, in place of what is there and behind it.
    pub(super) fn append(&mut self, logged: Logged, out: &mut Out<Self>) {
        self.cut(logged.slot, out);
        if self.is_voting() {
            let lsn = out.persist(Record::Append(logged.clone()));
            self.unflushed.push_back((lsn, logged.slot));
        }
        self.log.append(logged);
    }

    /// Cuts the main log. What was written of it is overwritten by what is appended next; until then a
    /// restart may bring it back, unverified.
    pub(super) fn cut(&mut self, from: Slot, out: &mut Out<Self>) {
        if from < self.log.end() {
            out.emit(Event::Branch("tail cut"));
            self.log.truncate(from);
            self.unflushed.retain(|(_, slot)| *slot < from);
            self.durable_end = self.durable_end.min(from);
        }
    }

    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        self.log.check();
        assert!(
            self.ap() <= self.verified,
            "what is committed is verified (J5)"
        );
        assert!(
            self.verified <= self.log.end(),
            "what is verified is here (J5)"
        );
        assert!(self.claim <= self.ap(), "what is claimed is held (J5)");
        assert!(
            self.durable_end <= self.log.end(),
            "what is durable is here (J8)"
        );
        for (slot, logged) in &self.pending {
            assert!(*slot >= self.verified, "what is verified does not wait");
            assert_eq!(*slot, logged.slot);
        }
        assert_eq!(
            self.worth_until(),
            self.verified,
            "what can be verified is, if it holds anything"
        );
        for offer in &self.offers {
            assert!(
                offer.is_handed_on || !self.are_offers_handed_on,
                "an own entry waits to be handed on"
            );
            let is_done = self.done.0.contains(offer.entry.id);
            assert!(!is_done, "an own entry under way is not committed");
        }
        self.check_view();
    }

    fn check_view(&self) {
        let is_own = self.voted == Some(self.config.me) && self.is_voting();
        match self.role {
            Role::Follower | Role::Canvassing { .. } => {}
            Role::Candidate { .. } => {
                assert!(is_own && self.init.is_none(), "stands in its own view");
            }
            Role::Initiator => assert!(is_own, "began its own view (J2)"),
        }
        let Some(init) = &self.init else { return };
        assert_eq!(init.view, self.view, "the pattern in force is this view's");
        assert_eq!(self.start, Some(init.start()));
        if self.may_propose() {
            assert!(self.ap() >= init.start(), "VIEW-INIT is committed (J9)");
            let owner = init.owner(self.next_own);
            assert_eq!(
                owner,
                Some(self.config.me),
                "the next slot is an own one (J9)"
            );
        }
    }
}
