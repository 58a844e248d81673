//! One instance layer by layer: what a replica says in one layer depends on what it hears of those
//! before, so that all replicas can be taken through the layers together, however fast they are.
//!
//! In each layer every replica hears the messages of any of the others in any order, or drops out: it
//! crashed, in the middle of its last broadcast for all that others know, or is slower than all.
//! Between layers it forgets what it heard, as a restart does, and may hear it again: all that was
//! said stays to be heard. So a state is what the replicas have said and no more. States are told
//! apart by the gists of that and the values of the last layer ([`quorate_protocols::Layers`]),
//! whoever said which, and by what somebody may have decided already. The machine is the one that ships: recovered from its records
//! for every turn.

mod opening;
mod telling;
#[cfg(test)]
mod tests;

use crate::book::{Book, Code};
use crate::duties::{Duties, Fault};
use crate::node::{Node, Print};
use crate::panics::Guard;
use crate::scope::Scope;
use quorate_core::{EntryId, Machine, Seat};
use quorate_protocols::{Gist, Layers};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use telling::hears;

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

/// What a replica may have heard in a turn: which others, in which order, and whether its timers
/// fired.
type Heard = (Order, bool);

/// Some replicas in some order, four bits each, the first lowest; 0 ends it.
type Order = u32;

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

/// What tells states of a layer apart.
type Key = (Option<Code>, Vec<Essence>);

/// Of a replica: its proposal and the request it knows, its values from the last layer on, and
/// whether it says nothing more. One that heard others who are further on may have taken several.
type Essence = (Option<(Option<EntryId>, Option<EntryId>)>, Vec<u8>, bool);

/// The states of a layer by what tells them apart.
type Keys = BTreeMap<Key, u32>;

/// A state of all replicas, and how it was come by.
#[derive(Clone)]
struct State {
    places: Vec<Place>,
    /// What somebody may have decided.
    decided: Option<Code>,
    parent: u32,
    /// What each replica heard on the way from the parent.
    heard: Vec<Option<Heard>>,
    /// The coin on that way.
    coin: usize,
}

struct Search<'a, M: Machine> {
    /// By outcome of every coin.
    duties: [Duties<'a, M>; 2],
    layers: Layers<M>,
    book: Book<M>,
    guard: Guard,
    locals: Vec<Node<M>>,
    prints: BTreeMap<Print, Local>,
    turns: BTreeMap<(usize, bool, Local, Vec<Local>), Outcome>,
    /// All states, those of a layer after those of the layer before.
    states: Vec<State>,
    /// The requests' entries, by receiver: messages that hand them over.
    offers: Vec<Vec<u32>>,
    found: Layered,
    /// States taken for others.
    #[cfg(test)]
    merged: Vec<(u32, State)>,
}

/// Searches `scope.depth` layers of one instance for the requests of a scope.
pub(crate) fn search<M: Machine>(
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
    let state = std::mem::size_of::<State>() + scope.n * 16;
    search.found.bytes = (search.states.len() * state) as u64;
    search.found
}

impl<'a, M: Machine> Search<'a, M> {
    fn new(
        scope: &'a Scope,
        configure: &'a dyn Fn(&Seat) -> M::Config,
        layers: Layers<M>,
        guard: Guard,
    ) -> Self {
        let seeds = scope.seeds();
        let duties = |seed| Duties {
            scope,
            seed,
            configure,
        };
        Search {
            duties: [duties(seeds[0]), duties(seeds[seeds.len() - 1])],
            layers,
            book: Book::new(),
            guard,
            locals: Vec::new(),
            prints: BTreeMap::new(),
            turns: BTreeMap::new(),
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

    /// A replica hears some of the others, and whatever else it may wait for.
    fn turn(
        &mut self,
        coin: usize,
        me: usize,
        (order, fires): Heard,
        locals: &[Local],
    ) -> Result<Outcome, Fault> {
        let heard = members(order)
            .map(|other| locals[other])
            .collect::<Vec<_>>();
        let key = (coin, fires, locals[me], heard);
        if let Some(outcome) = self.turns.get(&key) {
            return Ok(*outcome);
        }
        let mails = self.mails(&key.3, me);
        let node = &self.locals[locals[me] as usize];
        let (duties, book, offers) = (&self.duties[coin], &mut self.book, &self.offers[me]);
        let node = self
            .guard
            .run(|| duties.turn(node, &mails, fires, offers, book))
            .map_err(|fault| Fault {
                what: format!(
                    "replica {} {}: {}",
                    me + 1,
                    hears((order, fires)),
                    fault.what
                ),
                ..fault
            });
        let node = match node {
            Ok(node) => node,
            Err(fault) => {
                // What failed once is not tried again while the way to it is told.
                self.turns.insert(key, Outcome::Said(locals[me]));
                return Err(fault);
            }
        };
        let has_said_more = node.records() > self.locals[locals[me] as usize].records();
        let outcome = match node.chosen.first() {
            Some(code) if !has_said_more => Outcome::Decided(*code),
            _ => Outcome::Said(self.local(node.undecided())),
        };
        self.turns.insert(key, outcome);
        Ok(outcome)
    }

    fn mails(&self, heard: &[Local], to: usize) -> Vec<u32> {
        let sent = heard
            .iter()
            .flat_map(|local| &self.locals[*local as usize].sent);
        sent.copied()
            .filter(|mail| self.book.mail(*mail).to == to)
            .collect()
    }

    /// All that a replica may come to in a state, with the first way to each.
    fn outcomes(
        &mut self,
        state: &State,
        me: usize,
        coin: usize,
    ) -> Result<Vec<(Outcome, Heard)>, Fault> {
        let locals = state
            .places
            .iter()
            .map(|place| place.local)
            .collect::<Vec<_>>();
        let mut outcomes: Vec<(Outcome, Heard)> = Vec::new();
        for order in orders(locals.len(), me) {
            // Once it has spoken its timers only make it repeat itself.
            let has_spoken = self.locals[locals[me] as usize].records() > 0;
            for fires in [false, true].into_iter().take(2 - usize::from(has_spoken)) {
                let outcome = self.turn(coin, me, (order, fires), &locals)?;
                if outcomes.iter().all(|(known, _)| *known != outcome) {
                    outcomes.push((outcome, (order, fires)));
                }
            }
        }
        Ok(outcomes)
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
                let outcomes = self.outcomes(&state, me, coin)?;
                self.judge(&mut state, &outcomes)?;
                options.push(self.ways(&state, me, layer, outcomes, &mut values[coin]));
            }
            if goes_on {
                self.go_on(number, &state, (layer, coin), &options, keys);
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
    fn judge(&self, state: &mut State, outcomes: &[(Outcome, Heard)]) -> Result<(), Fault> {
        for (outcome, _) in outcomes {
            let Outcome::Decided(code) = outcome else {
                continue;
            };
            let before = *state.decided.get_or_insert(*code);
            if before != *code {
                let names = (self.book.name(before), self.book.name(*code));
                let what = format!("{} and {} may both be decided", names.0, names.1);
                return Err(Fault::new("agreement", what));
            }
        }
        Ok(())
    }

    /// How a replica may leave a layer: with something new said, or by dropping out.
    fn ways(
        &self,
        state: &State,
        me: usize,
        layer: usize,
        outcomes: Vec<(Outcome, Heard)>,
        tossed: &mut BTreeSet<u8>,
    ) -> Vec<(Place, Option<Heard>)> {
        let place = state.places[me];
        if place.gone || self.layer_of(place.local) > layer {
            return vec![(place, None)];
        }
        let gone = Place {
            local: place.local,
            gone: true,
        };
        let mut ways = vec![(gone, None)];
        for (outcome, heard) in outcomes {
            let Outcome::Said(local) = outcome else {
                continue;
            };
            if self.layer_of(local) > layer {
                if let Some((value, true)) = self.value_of(local, layer) {
                    tossed.insert(value);
                }
                let next = Place { local, gone: false };
                let essence = self.essence(next, layer + 1);
                let is_known = |(known, _): &(Place, _)| self.essence(*known, layer + 1) == essence;
                if !ways.iter().any(is_known) {
                    ways.push((next, Some(heard)));
                }
            }
        }
        ways
    }

    fn go_on(
        &mut self,
        parent: u32,
        state: &State,
        (layer, coin): (usize, usize),
        options: &[Vec<(Place, Option<Heard>)>],
        keys: &mut Keys,
    ) {
        for ways in product(options) {
            self.found.transitions += 1;
            if ways.iter().all(|(place, _)| place.gone) {
                continue;
            }
            let state = State {
                places: ways.iter().map(|(place, _)| *place).collect(),
                decided: state.decided,
                parent,
                heard: ways.iter().map(|(_, heard)| *heard).collect(),
                coin,
            };
            self.add(state, layer + 1, keys);
        }
    }

    fn add(&mut self, state: State, layer: usize, keys: &mut Keys) {
        let essences = state.places.iter().map(|place| self.essence(*place, layer));
        let mut key = essences.collect::<Vec<_>>();
        key.sort_unstable();
        let number = self.states.len() as u32;
        match keys.entry((state.decided, key)) {
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

    fn essence(&self, place: Place, layer: usize) -> Essence {
        let gist = self.gist_of(place.local);
        let last = layer.saturating_sub(1);
        let values = (last..).map_while(|layer| self.value_of(place.local, layer));
        let values = values.map(|(value, _)| value).collect();
        (
            gist.map(|gist| (gist.prop, gist.request)),
            values,
            place.gone,
        )
    }

    /// The last record about the instance.
    fn record_of(&self, local: Local) -> Option<&M::Record> {
        let lines = &self.locals[local as usize].disk.lines;
        let mut records = lines.iter().rev().filter_map(|line| line.record());
        records.find(|record| (self.layers.gist)(record).is_some())
    }

    fn gist_of(&self, local: Local) -> Option<Gist> {
        self.record_of(local).and_then(self.layers.gist)
    }

    fn layer_of(&self, local: Local) -> usize {
        self.gist_of(local).map_or(0, |gist| gist.layer)
    }

    fn value_of(&self, local: Local, layer: usize) -> Option<(u8, bool)> {
        self.record_of(local)
            .and_then(|record| (self.layers.value)(record, layer))
    }
}

/// The replicas of an order.
fn members(order: Order) -> impl Iterator<Item = usize> {
    let nibbles = (0..8).map(move |place| order >> (4 * place) & 15);
    nibbles
        .take_while(|nibble| *nibble != 0)
        .map(|nibble| nibble as usize - 1)
}

/// Every set of others in every order.
fn orders(n: usize, me: usize) -> Vec<Order> {
    let mut all = vec![0];
    let mut begun = 0;
    while begun < all.len() {
        let order: Order = all[begun];
        let length = members(order).count() as u32;
        let more = (0..n).filter(|other| *other != me && members(order).all(|m| m != *other));
        all.extend(more.map(|other| order | (other as u32 + 1) << (4 * length)));
        begun += 1;
    }
    all
}

/// Every way to choose one of each.
fn product<T: Clone>(options: &[Vec<T>]) -> Vec<Vec<T>> {
    options.iter().fold(vec![Vec::new()], |all, next| {
        let longer = |begun: &Vec<T>| {
            let begun = begun.clone();
            next.iter()
                .map(move |one| {
                    let mut longer = begun.clone();
                    longer.push(one.clone());
                    longer
                })
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    })
}
