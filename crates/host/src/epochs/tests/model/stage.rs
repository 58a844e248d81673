//! What directed schedules are written in.

use super::act::Act;
use super::{Body, Fault, Mutant, Scope, World};
use crate::epochs::{Configuration, Expect, Order, Reconfigure};
use quorate_core::Slot;

/// A cluster of `nodes` nodes, of which the first `members` are members.
pub(super) fn cluster(
    nodes: usize,
    members: usize,
    failures: usize,
    mutant: Option<Mutant>,
) -> World {
    World::new(Scope::of(nodes, mutant), members, failures)
}

impl World {
    pub(super) fn request(&mut self, body: Body) -> u16 {
        self.requests.push(body);
        (self.requests.len() - 1) as u16
    }

    /// A change to these nodes, in the lives they are in, made for the epoch that node `at` is in.
    pub(super) fn change(&mut self, at: usize, places: &[usize], failures: usize) -> u16 {
        let newest = self.nodes[at].live.state.chain.newest();
        let mut configuration = Configuration::of(newest);
        configuration.members = places.iter().map(|place| self.nodes[*place].me).collect();
        let failures = failures.to_string();
        configuration.params.insert("f".to_owned(), failures);
        let expect = Expect::of(newest);
        self.request(Body::Order(Order::Reconfigure(Reconfigure {
            expect,
            configuration,
        })))
    }

    /// A round of the proposer's epoch that reads all voters and writes to these nodes.
    pub(super) fn write_to(
        &mut self,
        proposer: usize,
        slot: u64,
        request: u16,
        places: &[usize],
    ) -> Result<(), Fault> {
        let epoch = self.nodes[proposer].running().expect("it votes");
        let mask = |places: &[usize]| places.iter().fold(0, |mask, place| mask | 1 << place);
        let read = mask(&self.voting(epoch));
        self.act(&Act::Round {
            epoch,
            slot: Slot(slot),
            proposer,
            read,
            write: mask(places),
            value: Some(request),
        })
    }

    /// Decides a slot, and tells these nodes.
    pub(super) fn decide_at(
        &mut self,
        slot: u64,
        request: u16,
        places: &[usize],
    ) -> Result<(), Fault> {
        let epoch = self.nodes[places[0]].running().expect("it votes");
        let voting = self.voting(epoch);
        self.write_to(places[0], slot, request, &voting)?;
        places
            .iter()
            .try_for_each(|place| self.learn(*place, epoch, Slot(slot)))
    }

    /// Everybody flushes, and all notes arrive, until there is nothing more to do.
    pub(super) fn quiesce(&mut self) -> Result<(), Fault> {
        loop {
            for place in 0..self.nodes.len() {
                if self.nodes[place].is_up() {
                    self.flush(place)?;
                }
            }
            let writes = self.nodes.iter().any(|node| !node.writing.is_empty());
            if self.notes.is_empty() && !writes {
                return Ok(());
            }
            while !self.notes.is_empty() {
                self.act(&Act::Note(0))?;
            }
        }
    }

    /// A sealed node flushes and starts the next epoch, and nobody hears of it.
    pub(super) fn go_on_alone(&mut self, place: usize) -> Result<(), Fault> {
        self.flush(place)?;
        self.flush(place)?;
        self.notes.clear();
        Ok(())
    }

    pub(super) fn current(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.current()).collect()
    }
}
