//! Values whose bytes travel beside their decision, and may never arrive.
//!
//! Whoever votes for one has its bytes; whoever only learns of it, or fetches the state, has not, and
//! may never get them. What was applied can be read as long as one node has the bytes: an epoch is
//! settled only when so many members have all of them that failures leave one.

use super::node::Life;
use super::{Body, Fault, Mutant, World, numbers};
use crate::epochs::Order;
use std::collections::BTreeSet;

impl World {
    pub(super) fn is_value(&self, request: u16) -> bool {
        self.requests[usize::from(request)] == Body::Value
    }

    /// Values that somebody has applied.
    fn values(&self) -> impl Iterator<Item = u16> {
        let log = self.truth.log.iter().copied();
        log.filter(|request| self.is_value(*request))
    }

    fn has_bytes(&self, place: usize, request: u16) -> bool {
        let node = &self.nodes[place];
        matches!(node.life, Life::Up | Life::Down) && node.bytes.contains(&request)
    }

    /// The bytes of a value go to those that are to vote for it.
    pub(super) fn send_bytes(&mut self, request: u16, places: &BTreeSet<usize>) {
        if !self.is_value(request) || self.has(Mutant::VotesWithoutBytes) {
            return;
        }
        for place in places {
            self.nodes[*place].bytes.insert(request);
        }
    }

    /// What a node knows the decision of and could get from another.
    pub(super) fn lacking(&self, place: usize) -> Vec<u16> {
        let node = &self.nodes[place];
        let lacks = |request: &u16| {
            let mut others = 0..self.nodes.len();
            let is_there =
                |other: usize| self.nodes[other].is_up() && self.has_bytes(other, *request);
            !node.bytes.contains(request) && self.is_value(*request) && others.any(is_there)
        };
        let known = node.live.log.iter().copied().filter(|_| node.is_up());
        known.filter(lacks).collect()
    }

    pub(super) fn gather(&mut self, place: usize, request: u16) {
        if self.lacking(place).contains(&request) {
            self.nodes[place].bytes.insert(request);
        }
    }

    /// The order that says that an epoch is settled, if it may be given.
    pub(super) fn settled(&self) -> Option<Order> {
        self.truth.state.unsettled?;
        let newest = self.truth.state.chain.newest();
        let epoch = newest.number;
        let has_all = |place: &usize| self.values().all(|value| self.has_bytes(*place, value));
        let members = (0..self.nodes.len()).filter(|place| newest.has(self.nodes[*place].me));
        let numbers = numbers(newest);
        let is_enough = members.filter(has_all).count() >= numbers.n - numbers.failures;
        let may = self.is_open(epoch) && (is_enough || self.has(Mutant::SettlesWhenOpen));
        may.then_some(Order::Settled { epoch })
    }

    /// As many members as may fail never get what they lack.
    pub(super) fn gather_enough(&mut self) {
        let newest = self.truth.state.chain.newest().clone();
        let members: Vec<usize> = (0..self.nodes.len())
            .filter(|place| newest.has(self.nodes[*place].me) && self.nodes[*place].is_up())
            .collect();
        let numbers = numbers(&newest);
        for place in members.into_iter().take(numbers.n - numbers.failures) {
            for request in self.lacking(place) {
                self.gather(place, request);
            }
        }
    }

    /// Everything applied can still be read.
    pub(super) fn check_readable(&self) -> Result<(), Fault> {
        let gone = |request: &u16| !(0..self.nodes.len()).any(|at| self.has_bytes(at, *request));
        match self.values().find(gone) {
            Some(request) => Err(format!("unreadable: nobody has the bytes of {request}")),
            None => Ok(()),
        }
    }
}
