//! The general search: every order of every step that anybody may take, breadth first.
//!
//! Steps that nobody else can notice are not ordered against those of others: a replica that hears
//! something and neither says, writes nor decides anything could as well have heard it later, since
//! messages stay. So a move is any number of hidden steps of one replica and one that shows.
//!
//! Nor is it told apart what a replica has heard in vain. A state of the cluster says of each
//! replica what it shows, and behind that all the states that it may be in, having shown the same
//! in the same order: its equivalence class. What one replica may be in does not depend on which of its own
//! states another one is in, but on what the other shows. So all combinations of their states are
//! possible, and nothing is lost or added.

mod story;
#[cfg(test)]
mod tests;

use crate::equivalence::Classes;
use crate::host_model::{Act, Fault, HostModel};
use crate::panics::Guard;
use crate::state_cache::{CUT, StateCache};
use crate::tuples::Tuples;
use quorate_core::{Class, Plain};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a search came to.
#[derive(Clone, Default, Debug)]
pub(crate) struct SearchResult {
    /// States of the whole cluster.
    pub(crate) states: u64,
    /// States of single replicas.
    pub(crate) replica_states: u64,
    /// Steps of machines.
    pub(crate) steps: u64,
    /// Moves between states of the cluster.
    pub(crate) transitions: u64,
    /// Moves of the longest of the shortest ways to a state.
    pub(crate) depth: u64,
    /// States in which everybody has decided everything.
    pub(crate) ends: u64,
    /// Bytes of the set of states, in all.
    pub(crate) bytes: u64,
    /// The first fault, and the shortest way to it in words.
    pub(crate) fault: Option<(Fault, Vec<String>)>,
}

/// A search under way.
struct Search<'a, M: Plain> {
    cache: StateCache<'a, M>,
    classes: Classes,
    /// By replica, its equivalence class.
    tuples: Tuples,
    /// By equivalence class of a replica and what it sees of each other one: its moves.
    known: BTreeMap<(u32, Vec<u32>), Rc<[Move]>>,
    found: SearchResult,
}

/// Steps of one replica, each from a state of it.
type Path = Vec<(u32, Act)>;

/// Moves of one replica that look alike.
#[derive(Clone, Copy)]
struct Move {
    /// Its equivalence class afterwards.
    next: u32,
    /// Crashes and losses in it.
    faults: (u8, u8),
}

/// A step that shows.
struct Step {
    /// The hidden state that it is taken from, by its place among those found.
    after: usize,
    act: Act,
    next: u32,
}

impl Step {
    fn path(&self, hidden: &Hidden) -> Path {
        let mut path = way(hidden, self.after);
        path.push((hidden[self.after].0, self.act));
        path
    }
}

/// The states that a replica may come to by hidden steps: each with the one before, by its place,
/// and the step between.
type Hidden = Vec<(u32, Option<(usize, Act)>)>;

/// Where the search stopped: the state, who did what there, and what is wrong with it.
struct Stop {
    state: u32,
    who: usize,
    path: Path,
    fault: Fault,
}

/// Searches the scope of a host model under its seed of the coin.
pub(crate) fn search<M: Plain>(
    model: HostModel<'_, M>,
    states_max: u64,
    guard: Guard,
) -> SearchResult {
    let mut search = Search::<M>::new(model, guard);
    if let Err(stop) = search.run(states_max) {
        let story = search.tell(&stop);
        search.found.fault = Some((stop.fault, story));
    }
    search.found.states = search.tuples.len() as u64;
    search.found.replica_states = search.cache.len() as u64;
    search.found.steps = search.cache.guard.steps();
    search.found.bytes = search.tuples.bytes() as u64;
    search.found
}

impl<'a, M: Plain> Search<'a, M> {
    fn new(model: HostModel<'a, M>, guard: Guard) -> Self {
        let n = model.scope.n;
        Search {
            cache: StateCache::new(model, guard),
            classes: Classes::new(),
            tuples: Tuples::new(n),
            known: BTreeMap::new(),
            found: SearchResult::default(),
        }
    }

    fn run(&mut self, states_max: u64) -> Result<(), Stop> {
        let stop = |who, fault| Stop {
            state: 0,
            who,
            path: Vec::new(),
            fault,
        };
        let n = self.cache.model.scope.n;
        let start = |me| self.cache.first(me).map_err(|fault| stop(me, fault));
        let first = (0..n).map(start).collect::<Result<Vec<_>, _>>()?;
        let first = first
            .into_iter()
            .map(|state| self.classes.number(vec![state]));
        let first = first.collect::<Vec<_>>();
        self.tuples.insert(&first, 0);
        let (mut state, mut layer_end) = (0, 1);
        while (state as usize) < self.tuples.len() {
            if state as usize == layer_end {
                layer_end = self.tuples.len();
                self.found.depth += 1;
            }
            if self.tuples.len() as u64 > states_max {
                let what = format!("more than {states_max} states");
                return Err(stop(0, Fault::new("size", what)));
            }
            self.expand(state)?;
            state += 1;
        }
        Ok(())
    }

    /// Takes every move from a state.
    fn expand(&mut self, state: u32) -> Result<(), Stop> {
        let mut tuple = self.tuples.get(state).to_vec();
        let faces = self.faces(&tuple);
        let slots = self.cache.model.scope.slots;
        let is_end = |face: &u32| self.cache.node(*face).decided.len() >= slots;
        self.found.ends += u64::from(faces.iter().all(is_end));
        let (crashes, losses) = self.faults_left(&faces);
        for who in 0..tuple.len() {
            let stop = |path, fault| Stop {
                state,
                who,
                path,
                fault,
            };
            let moves = self
                .moves(tuple[who], &faces, who)
                .map_err(|(path, fault)| stop(path, fault))?;
            let before = tuple[who];
            for step in moves.iter() {
                if step.faults.0 > crashes || step.faults.1 > losses {
                    continue;
                }
                tuple[who] = step.next;
                self.found.transitions += 1;
                if let Err(fault) = self.judge(&faces, who, self.classes.face(step.next)) {
                    let (path, _) = self.path(before, &faces, who, step.next, None);
                    return Err(stop(path, fault));
                }
                self.tuples.insert(&tuple, state);
            }
            tuple[who] = before;
        }
        Ok(())
    }

    /// By replica, a state of its equivalence class: for all that others can see.
    fn faces(&self, tuple: &[u32]) -> Vec<u32> {
        tuple
            .iter()
            .map(|class| self.classes.face(*class))
            .collect()
    }

    /// The moves of one replica, worked out once for all that it sees of the others.
    fn moves(
        &mut self,
        class: u32,
        faces: &[u32],
        who: usize,
    ) -> Result<Rc<[Move]>, (Path, Fault)> {
        let others = (0..faces.len()).filter(|other| *other != who);
        let seen = others.map(|other| self.cache.face(faces[other], who));
        let key = (class, seen.collect::<Vec<_>>());
        if let Some(moves) = self.known.get(&key) {
            return Ok(Rc::clone(moves));
        }
        let moves: Rc<[Move]> = self.work_out(class, faces, who)?.into();
        self.known.insert(key, Rc::clone(&moves));
        Ok(moves)
    }

    /// Follows all hidden steps of a replica up to those that show, and puts together what looks
    /// alike.
    fn work_out(
        &mut self,
        class: u32,
        faces: &[u32],
        who: usize,
    ) -> Result<Vec<Move>, (Path, Fault)> {
        let states = Rc::clone(self.classes.states(class));
        let (hidden, steps) = self.explore(&states, faces, who)?;
        let mut alike: Vec<Vec<&Step>> = Vec::new();
        for step in &steps {
            let is_alike =
                |group: &&mut Vec<&Step>| self.cache.look_alike(group[0].next, step.next);
            match alike.iter_mut().find(is_alike) {
                Some(group) => group.push(step),
                None => alike.push(vec![step]),
            }
        }
        let mut moves = Vec::new();
        for group in alike {
            let next = self.least(&group, &hidden, faces, who)?;
            let (before, after) = (self.cache.node(states[0]), self.cache.node(next[0]));
            let faults = (after.crashes - before.crashes, after.losses - before.losses);
            let next = self.classes.number(next);
            moves.push(Move { next, faults });
        }
        Ok(moves)
    }

    /// Of states that look alike, those that cannot be come to from another by hidden steps: the
    /// other can still hear what it did not.
    fn least(
        &mut self,
        group: &[&Step],
        hidden: &Hidden,
        faces: &[u32],
        who: usize,
    ) -> Result<Vec<u32>, (Path, Fault)> {
        let mut later = BTreeSet::new();
        let mut faces = faces.to_vec();
        for step in group {
            if later.contains(&step.next) {
                continue;
            }
            faces[who] = step.next;
            let (reached, _) =
                self.explore(&[step.next], &faces, who)
                    .map_err(|(rest, fault)| {
                        let mut path = step.path(hidden);
                        path.extend(rest);
                        (path, fault)
                    })?;
            later.extend(reached[1..].iter().map(|(state, _)| *state));
        }
        let states = group.iter().map(|step| step.next);
        Ok(states.filter(|state| !later.contains(state)).collect())
    }

    fn explore(
        &mut self,
        from: &[u32],
        faces: &[u32],
        who: usize,
    ) -> Result<(Hidden, Vec<Step>), (Path, Fault)> {
        let mut hidden: Hidden = from.iter().map(|state| (*state, None)).collect();
        let mut seen = from.iter().copied().chain([CUT]).collect::<BTreeSet<_>>();
        let mut steps = Vec::new();
        let mut after = 0;
        while after < hidden.len() {
            let state = hidden[after].0;
            for act in self.acts(state, faces, who) {
                let next = self.cache.take(state, act).map_err(|fault| {
                    let mut path = way(&hidden, after);
                    path.push((state, act));
                    (path, fault)
                })?;
                if !seen.insert(next) {
                    continue;
                }
                if self.cache.is_midway(next) || self.cache.look_alike(from[0], next) {
                    hidden.push((next, Some((after, act))));
                } else {
                    steps.push(Step { after, act, next });
                }
            }
            after += 1;
        }
        Ok((hidden, steps))
    }

    /// All that a replica in some state may do where the others show these.
    fn acts(&mut self, state: u32, faces: &[u32], who: usize) -> Vec<Act> {
        let mut acts = self.cache.own_acts(state);
        if self.cache.node(state).machine.is_none() || self.cache.is_midway(state) {
            return acts;
        }
        for clock in 0..self.cache.model.scope.clocks.len() as u8 {
            for (_, peer) in faces.iter().enumerate().filter(|(other, _)| *other != who) {
                let mails = self.cache.sent(*peer, who).iter();
                acts.extend(mails.map(|mail| Act::Hear { mail: *mail, clock }));
            }
        }
        acts.extend(self.joint_acts(state, faces, who));
        acts
    }

    /// Steps that depend on what others have decided.
    fn joint_acts(&mut self, state: u32, faces: &[u32], who: usize) -> Vec<Act> {
        let mut acts = Vec::new();
        let have = self.cache.node(state).decided.len();
        for peer in (0..faces.len()).filter(|peer| *peer != who) {
            let chosen = self.cache.node(faces[peer]).chosen.clone();
            for end in have + 1..=chosen.len() {
                let log = self.cache.log(&chosen[..end]);
                acts.push(Act::CatchUp { log });
            }
        }
        let reads = self.cache.open_requests(state, Class::Read);
        let reads = reads.collect::<Vec<_>>();
        if !reads.is_empty() {
            let effects = faces.iter().map(|face| self.cache.effects(*face));
            let floor = effects.max().map_or(0, |slot| slot.0 as u8);
            acts.extend(reads.into_iter().map(|request| Act::Submit {
                request,
                clock: 0,
                floor,
            }));
        }
        acts
    }

    fn faults_left(&self, faces: &[u32]) -> (u8, u8) {
        let scope = self.cache.model.scope;
        let nodes = faces.iter().map(|face| self.cache.node(*face));
        let sum = |(crashes, losses), (c, l)| (crashes + c, losses + l);
        let used = nodes
            .map(|node| (node.crashes, node.losses))
            .fold((0, 0), sum);
        (scope.crashes - used.0, scope.losses - used.1)
    }

    /// Whether what one replica decides in a step agrees with what all others ever did.
    fn judge(&self, faces: &[u32], who: usize, next: u32) -> Result<(), Fault> {
        let mine = &self.cache.node(next).chosen;
        if mine.len() == self.cache.node(faces[who]).chosen.len() {
            return Ok(());
        }
        for (other, face) in faces.iter().enumerate() {
            let theirs = &self.cache.node(*face).chosen;
            if let Some(slot) = mine.iter().zip(theirs).position(|(a, b)| a != b) {
                let what = format!(
                    "slot {slot}: replica {} decides {}, replica {} has decided {}",
                    who + 1,
                    self.cache.interner.name(mine[slot]),
                    other + 1,
                    self.cache.interner.name(theirs[slot]),
                );
                return Err(Fault::new("agreement", what));
            }
        }
        Ok(())
    }
}

/// The hidden steps to one of the states.
fn way(hidden: &Hidden, to: usize) -> Path {
    let mut path = Vec::new();
    let mut place = to;
    while let Some((before, act)) = hidden[place].1 {
        path.push((hidden[before].0, act));
        place = before;
    }
    path.reverse();
    path
}
