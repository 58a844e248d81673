//! What tells states of a layer apart: what everybody said, whoever it was.

use super::listening::Prospect;
use super::{Local, Place, Search};
use crate::interner::Code;
use quorate_core::{EntryId, Plain};
use quorate_protocols::{Gist, LayerValue};
use std::collections::{BTreeMap, BTreeSet};

/// What somebody may have decided, and of all replicas, ascending, what they look like and whether
/// they say nothing more.
pub(super) type Key = (Option<Code>, Vec<(Look, bool)>);

/// What the rest of an instance depends on, of one replica, by number.
pub(super) type Look = u32;

/// Its proposal and the request it knows, and its values from the last layer on. One that heard
/// others who are further on may have taken several.
type Essence = (Option<(Option<EntryId>, Option<EntryId>)>, Vec<u8>);

/// Essences by number.
#[derive(Default)]
pub(super) struct Looks {
    numbers: BTreeMap<Essence, Look>,
    known: BTreeMap<(Local, usize), Look>,
}

/// A replica that leaves a layer in some way: what it looks like then, whether it says nothing
/// more, and what it does for that; `None` if it stays what it is.
pub(super) type Way = (Look, bool, Option<Prospect>);

/// Some replicas' looks, ascending, and a way of each to there, by its place among all of it.
type Combination = (Vec<(Look, bool)>, Vec<usize>);

/// Every way to choose one of each replica's, up to who is who. Of choices that come to the
/// same the first is kept, replica by replica: what they lead to is the same, too.
pub(super) fn combinations(options: &[Vec<Way>]) -> Vec<Combination> {
    let mut all: Vec<Combination> = vec![(Vec::new(), Vec::new())];
    for ways in options {
        let mut longer = Vec::new();
        let mut known = BTreeSet::new();
        for (looks, begun) in &all {
            for (place, (look, gone, _)) in ways.iter().enumerate() {
                let mut looks = looks.clone();
                looks.insert(
                    looks.partition_point(|one| *one < (*look, *gone)),
                    (*look, *gone),
                );
                // Tests compare all that are taken for one.
                if known.insert(looks.clone()) || cfg!(test) {
                    let chosen = begun.iter().copied().chain([place]).collect();
                    longer.push((looks, chosen));
                }
            }
        }
        all = longer;
    }
    all
}

impl<M: Plain> Search<'_, M> {
    /// What a replica looks like in a layer.
    pub(super) fn look(&mut self, local: Local, layer: usize) -> Look {
        if let Some(look) = self.looks.known.get(&(local, layer)) {
            return *look;
        }
        let gist = self.gist_of(local);
        let last = layer.saturating_sub(1);
        let values = (last..).map_while(|layer| self.value_of(local, layer));
        let values = values.map(|taken| taken.value).collect();
        let gist = gist.map(|gist| (gist.prop, gist.request));
        let next = self.looks.numbers.len() as Look;
        let look = *self.looks.numbers.entry((gist, values)).or_insert(next);
        self.looks.known.insert((local, layer), look);
        look
    }

    pub(super) fn looks(&mut self, places: &[Place], layer: usize) -> Vec<Look> {
        let looks = places.iter().map(|place| self.look(place.local, layer));
        looks.collect()
    }

    /// The last record about the instance.
    pub(super) fn record_of(&self, local: Local) -> Option<&M::Record> {
        let lines = &self.locals[local as usize].disk.lines;
        let mut records = lines.iter().rev().filter_map(|line| line.record());
        records.find(|record| (self.layers.gist)(record).is_some())
    }

    fn gist_of(&self, local: Local) -> Option<Gist> {
        self.record_of(local).and_then(self.layers.gist)
    }

    pub(super) fn layer_of(&self, local: Local) -> usize {
        self.gist_of(local).map_or(0, |gist| gist.layer)
    }

    /// The value taken in a layer.
    pub(super) fn value_of(&self, local: Local, layer: usize) -> Option<LayerValue> {
        self.record_of(local)
            .and_then(|record| (self.layers.value)(record, layer))
    }
}
