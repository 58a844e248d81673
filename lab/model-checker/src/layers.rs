//! One instance layer by layer: what a replica says in one layer depends on what it hears of those
//! before, so that all replicas can be taken through the layers together, however fast they are.
//!
//! In each layer every replica hears the messages of any of the others in any order, or drops out: it
//! crashed, in the middle of its last broadcast for all that others know, or is slower than all.
//! Between layers it forgets what it heard, as a restart does, and may hear it again: all that was
//! said stays to be heard. So a state is what the replicas have said and no more. States are told
//! apart by the gists of that and the values of the last layer ([`quorate_protocols::Layers`]),
//! whoever said which, and by what somebody may have decided already.
//!
//! The machine is the one that ships: recovered from its records for every turn. What a replica may
//! come to is worked out once for all that look like it among others that look like these; who
//! is to have come to it in a new state then does so, or that is a fault.

mod essence;
mod listening;
mod opening;
mod telling;
#[cfg(test)]
mod tests;

use crate::host_model::{Fault, HostModel};
use crate::interner::{Code, Interner};
use crate::node::{Node, Print};
use crate::panics::Guard;
use crate::scope::Scope;
use essence::{Key, Looks, Way, combinations};
use listening::{End, Heard, Outcomes, Prospect, Prospects, Situation};
use quorate_core::{Plain, Seat};
use quorate_protocols::Layers;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// What a search came to.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layered {
    /// States found in each layer.
    pub(crate) states: Vec<u64>,
    /// States that each way of a replica through a layer led to, in all.
    pub(crate) transitions: u64,
    /// Turns of the machine.
    pub(crate) turns: u64,
    /// States from which the lemma of the coin was checked.
    pub(crate) lemma: u64,
    /// Bytes of states, about.
    pub(crate) bytes: u64,
    /// The first fault, and the way to it in words.
    pub(crate) fault: Option<(Fault, Vec<String>)>,
}

/// The state of a replica between two layers, by number.
type Local = u32;

/// What comes of a turn. A decision that comes with something new said is left to the next layer,
/// when what was said is there for everybody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// It decided this.
    Decided(Code),
    /// It is in this state now.
    Said(Local),
}

/// One replica, in a state of all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    local: Local,
    /// It says nothing more.
    gone: bool,
}

/// The states of a layer by what tells them apart.
type Keys = BTreeMap<Key, u32>;

/// A state of all replicas, and how it was come by.
#[derive(Clone)]
struct LayerState {
    places: Vec<Place>,
    /// What somebody may have decided.
    decided: Option<Code>,
    parent: u32,
    /// What each replica heard on the way from the parent.
    heard: Vec<Option<Heard>>,
    /// The coin on that way.
    coin: usize,
}

impl LayerState {
    fn locals(&self) -> Vec<Local> {
        self.places.iter().map(|place| place.local).collect()
    }
}

struct Search<'a, M: Plain> {
    /// By outcome of every coin.
    model: [HostModel<'a, M>; 2],
    layers: Layers<M>,
    interner: Interner<M>,
    guard: Guard,
    locals: Vec<Node<M>>,
    prints: BTreeMap<Print, Local>,
    looks: Looks,
    /// By coin, replica and the states of all: what it may come to in this layer.
    outcomes: BTreeMap<(usize, usize, Vec<Local>), Outcomes>,
    /// The same up to who is who.
    prospects: BTreeMap<Situation, Prospects>,
    /// All states, those of a layer after those of the layer before.
    states: Vec<LayerState>,
    /// The requests' entries, by receiver: messages that hand them over.
    offers: Vec<Vec<u32>>,
    found: Layered,
    /// States taken for others.
    #[cfg(test)]
    merged: Vec<(u32, LayerState)>,
}

/// Searches `scope.depth` layers of one instance for the requests of a scope.
pub(crate) fn search<M: Plain>(
    scope: &Scope,
    configure: &dyn Fn(&Seat) -> M::Config,
    layers: Layers<M>,
    guard: Guard,
) -> Layered {
    let mut search = Search::new(scope, configure, layers, guard);
    if let Err((state, fault)) = search.run(scope) {
        let story = search.tell(state);
        search.found.fault = Some((fault, story));
    }
    search.found.turns = search.guard.steps();
    let state = std::mem::size_of::<LayerState>() + scope.n * 16;
    search.found.bytes = (search.states.len() * state) as u64;
    search.found
}

impl<'a, M: Plain> Search<'a, M> {
    fn new(
        scope: &'a Scope,
        configure: &'a dyn Fn(&Seat) -> M::Config,
        layers: Layers<M>,
        guard: Guard,
    ) -> Self {
        let seeds = scope.seeds();
        let model = |seed| HostModel {
            scope,
            seed,
            configure,
        };
        Search {
            model: [model(seeds[0]), model(seeds[seeds.len() - 1])],
            layers,
            interner: Interner::new(),
            guard,
            locals: Vec::new(),
            prints: BTreeMap::new(),
            looks: Looks::default(),
            outcomes: BTreeMap::new(),
            prospects: BTreeMap::new(),
            states: Vec::new(),
            offers: Vec::new(),
            found: Layered::default(),
            #[cfg(test)]
            merged: Vec::new(),
        }
    }

    fn run(&mut self, scope: &Scope) -> Result<(), (u32, Fault)> {
        self.open(scope).map_err(|fault| (0, fault))?;
        let mut first = 0;
        for layer in 0..=scope.depth {
            let end = self.states.len();
            self.found.states.push((end - first) as u64);
            let mut keys = Keys::new();
            for state in first..end {
                let expanded = self.expand(state as u32, layer, layer < scope.depth, &mut keys);
                expanded.map_err(|fault| (state as u32, fault))?;
            }
            first = end;
            self.outcomes.clear();
            self.prospects.clear();
        }
        Ok(())
    }

    fn local(&mut self, node: Node<M>) -> Local {
        let node = node.at_rest();
        let print = node.print();
        let next = self.locals.len() as Local;
        let number = *self.prints.entry(print).or_insert(next);
        if number == next {
            self.locals.push(node);
        }
        number
    }

    /// Judges a state, and goes on to the next layer from it.
    fn expand(
        &mut self,
        number: u32,
        layer: usize,
        goes_on: bool,
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        let mut values = [BTreeSet::new(), BTreeSet::new()];
        for coin in 0..2 {
            if coin == 1 && values[0].is_empty() {
                break;
            }
            let mut state = self.states[number as usize].clone();
            let mut options = Vec::new();
            for me in 0..state.places.len() {
                let prospects = self.prospects(&state, me, (layer, coin))?;
                self.judge(&mut state, &prospects)?;
                options.push(self.ways(state.places[me], layer, &prospects, &mut values[coin]));
            }
            if goes_on {
                self.go_on(number, &state, (layer, coin), &options, keys)?;
            }
        }
        if !values[0].is_empty() {
            self.found.lemma += 1;
            if values.iter().all(|values| values.len() > 1) {
                let what = format!("layer {layer}: {values:?} are possible whatever the coin");
                return Err(Fault::new("some coin ends it", what));
            }
        }
        Ok(())
    }

    /// Everything that may be decided is the same.
    fn judge(&self, state: &mut LayerState, prospects: &[Prospect]) -> Result<(), Fault> {
        for prospect in prospects {
            let End::Decided(code) = prospect.end else {
                continue;
            };
            let before = *state.decided.get_or_insert(code);
            if before != code {
                let names = (self.interner.name(before), self.interner.name(code));
                let what = format!("{} and {} may both be decided", names.0, names.1);
                return Err(Fault::new("agreement", what));
            }
        }
        Ok(())
    }

    /// How a replica may leave a layer: with something new said, or by dropping out.
    fn ways(
        &mut self,
        place: Place,
        layer: usize,
        prospects: &[Prospect],
        tossed: &mut BTreeSet<u8>,
    ) -> Vec<Way> {
        let look = self.look(place.local, layer + 1);
        if place.gone || self.layer_of(place.local) > layer {
            return vec![(look, place.gone, None)];
        }
        let mut ways = vec![(look, true, None)];
        for prospect in prospects {
            if let End::Said(look, value) = prospect.end {
                tossed.extend(value);
                ways.push((look, false, Some(prospect.clone())));
            }
        }
        ways
    }

    fn go_on(
        &mut self,
        parent: u32,
        state: &LayerState,
        (layer, coin): (usize, usize),
        options: &[Vec<Way>],
        keys: &mut Keys,
    ) -> Result<(), Fault> {
        for (looks, chosen) in combinations(options) {
            self.found.transitions += 1;
            if looks.iter().all(|(_, gone)| *gone) {
                continue;
            }
            let key = (state.decided, looks);
            // Tests compare all that are taken for one.
            if !keys.contains_key(&key) || cfg!(test) {
                let ways = chosen
                    .iter()
                    .zip(options)
                    .map(|(place, ways)| &ways[*place]);
                let next = self.follow(parent, state, (layer, coin), ways)?;
                self.add(next, key, keys);
            }
        }
        Ok(())
    }

    /// The state that everybody's ways lead to.
    fn follow<'w>(
        &mut self,
        parent: u32,
        state: &LayerState,
        (layer, coin): (usize, usize),
        ways: impl Iterator<Item = &'w Way>,
    ) -> Result<LayerState, Fault> {
        let mut next = LayerState {
            parent,
            coin,
            heard: Vec::new(),
            ..state.clone()
        };
        for (me, (look, gone, prospect)) in ways.enumerate() {
            next.places[me].gone = *gone;
            next.heard.push(None);
            let Some(prospect) = prospect else {
                continue;
            };
            let (local, heard) = self.realise(prospect, *look, state, me, (layer, coin))?;
            next.places[me].local = local;
            next.heard[me] = Some(heard);
        }
        Ok(next)
    }

    fn add(&mut self, state: LayerState, key: Key, keys: &mut Keys) {
        let number = self.states.len() as u32;
        match keys.entry(key) {
            Entry::Vacant(free) => {
                free.insert(number);
                self.states.push(state);
            }
            #[cfg(test)]
            Entry::Occupied(kept) => self.merged.push((*kept.get(), state)),
            #[cfg(not(test))]
            Entry::Occupied(_) => {}
        }
    }
}
