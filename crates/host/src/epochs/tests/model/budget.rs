//! What holds after every step, and how much may fail.

use super::{Body, Fault, World, numbers};
use crate::epochs::Order;
use quorate_core::{Epoch, Member, Slot};

impl World {
    /// E9: only members in this very life vote.
    pub(super) fn check_voter(&self, member: Member, epoch: u64) -> Result<(), Fault> {
        match self.epoch(epoch) {
            Some(epoch) if epoch.has(member) => Ok(()),
            _ => Err(format!("{member:?} votes in epoch {epoch}")),
        }
    }

    /// E5: an epoch decides nothing before it is open.
    pub(super) fn check_decision(&self, epoch: u64) -> Result<(), Fault> {
        match epoch == 1 || self.is_open(epoch) || self.scope.mutant.is_some() {
            true => Ok(()),
            false => Err(format!("epoch {epoch} decides before it is open")),
        }
    }

    /// E4: whoever starts has the state before the epoch durably.
    pub(super) fn check_start(&self, place: usize, epoch: u64, again: bool) -> Result<(), Fault> {
        if self.scope.mutant.is_some() {
            // It has to show in what the cluster does.
            return Ok(());
        }
        let base = self.epoch(epoch).map(|epoch| epoch.first_slot);
        let durable = self.nodes[place].disk.next;
        if base.is_none_or(|base| durable < base) {
            return Err(format!("epoch {epoch} starts on a state before {durable}"));
        }
        match !again || self.has_started(place, epoch) {
            true => Ok(()),
            false => Err(format!("epoch {epoch} starts again and never ran")),
        }
    }

    /// E6: whoever leaves is not needed.
    pub(super) fn check_leave(&self, member: Member) -> Result<(), Fault> {
        if self.scope.mutant.is_some() {
            return Ok(());
        }
        let state = &self.truth.state;
        let without = state.chain.epochs().rev().take_while(|e| !e.has(member));
        let is_settled = |number| state.unsettled.is_none_or(|since| since > number);
        let mut released = without.filter(|e| self.is_open(e.number) && is_settled(e.number));
        match released.next() {
            Some(_) => Ok(()),
            None => Err(format!("{member:?} leaves and is needed")),
        }
    }

    /// Whether `f + 1` members of an epoch have held the state before it.
    pub(super) fn is_open(&self, number: u64) -> bool {
        let held = self.held.get(&number).map_or(0, |held| held.len());
        let epoch = self.epoch(number);
        epoch.is_some_and(|epoch| held > numbers(epoch).failures)
    }

    /// Whether one more life may be lost: no more members of any epoch than it is made for, until the
    /// next one is open and settled, and of none that was asked for.
    pub(super) fn may_lose(&self, member: Member) -> bool {
        let mut lost = self.lost.clone();
        lost.insert(member);
        let bears = |epoch: &Epoch| {
            let count = epoch.members.iter().filter(|m| lost.contains(m)).count();
            count <= numbers(epoch).failures
        };
        self.needed().iter().all(bears)
    }

    /// Whether a change may be asked for: some of the members it names may be lost already.
    pub(super) fn may_ask(&self, epoch: &Epoch) -> bool {
        let lost = epoch.members.iter().filter(|m| self.lost.contains(m));
        lost.count() <= numbers(epoch).failures
    }

    /// The epochs that are needed, or may come to be.
    fn needed(&self) -> Vec<Epoch> {
        let chain = &self.truth.state.chain;
        let newest = chain.newest();
        let is_over = |epoch: &&Epoch| {
            epoch.number < newest.number
                && self.is_open(epoch.number + 1)
                && self.truth.state.unsettled.is_none()
        };
        let begun = chain.epochs().filter(|epoch| !is_over(epoch)).cloned();
        let asked = self.requests.iter().filter_map(|body| match body {
            Body::Order(Order::Reconfigure(change)) => Some(change),
            _ => None,
        });
        let asked = asked.filter(|change| change.expect.epoch == newest.number);
        let asked = asked.map(|change| change.configuration.behind(newest, Slot(0)));
        begun.chain(asked).collect()
    }
}
