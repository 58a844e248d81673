//! The order of delivery: from what is decided of each instance, one sequence that is the same everywhere.
//!
//! Dependencies make a graph. Between two committed entries that conflict there is an edge or a path; between others
//! there may be none, so a graph alone is no sequence. All *roots* conflict with each other. Of the roots whose
//! dependencies are all known, down to what is delivered, one set has no other root below it, and every other root is
//! above it. What is below that set is delivered first; of that the strongly connected component with nothing below it
//! and the least name; of that the least name, roots last. Then everything is looked at anew.
//!
//! So what comes next follows from what is delivered and from what is decided of the rest: a replica that starts in
//! the middle, or was brought to it by its host, goes on as all others do. And what a replica has heard of later roots
//! changes nothing, for they are above those that it knows.

use super::state::Instance;
use crate::shared::decided::DecidedSet;
use quorate_core::{Base, EntryId, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// By what components are ordered: the least member, roots last.
type Key = (bool, EntryId);

/// What is decided of instances that are not delivered.
pub(super) struct Graph<'a> {
    pub(super) instances: &'a BTreeMap<EntryId, Instance>,
    /// What is delivered.
    pub(super) done: &'a DecidedSet,
    /// The first slot not delivered.
    pub(super) next: Slot,
    /// What is taken to be delivered besides.
    pub(super) gone: &'a BTreeSet<EntryId>,
}

/// Instances of which each depends on all others.
struct Component {
    /// Ascending, roots last.
    members: Vec<Key>,
    /// Everything below is decided.
    is_complete: bool,
    /// Components that it depends on, by their places.
    below: BTreeSet<usize>,
}

/// An instance that the search has come to.
#[derive(Default)]
struct Visit {
    order: usize,
    low: usize,
    /// The place of its component, once that is known.
    component: Option<usize>,
}

/// An instance on the path of the search, and how many of its dependencies were looked at.
struct Step {
    id: EntryId,
    deps: Vec<EntryId>,
    looked_at: usize,
}

/// Finds components, those with nothing below them first (Tarjan). Dependencies may be thousands deep: the path is kept
/// here and not on the stack.
#[derive(Default)]
struct Search {
    visits: BTreeMap<EntryId, Visit>,
    path: Vec<Step>,
    /// Instances whose components are not known.
    open: Vec<EntryId>,
    components: Vec<Component>,
}

impl Graph<'_> {
    /// The next entries in the order, as far as no circle is cut; none if no root is complete.
    pub(super) fn next_run(&self, roots: impl Iterator<Item = EntryId>) -> Vec<EntryId> {
        let mut search = Search::default();
        for root in roots {
            let is_decided = self
                .instances
                .get(&root)
                .is_some_and(Instance::is_committed);
            if is_decided && !search.visits.contains_key(&root) {
                let from = search.components.len();
                self.search(root, &mut search);
                let is_wanted = |component: &Component| {
                    component.is_complete && component.members.iter().any(|(is_root, _)| *is_root)
                };
                let found = search.components[from..].iter().position(is_wanted);
                if let Some(found) = found {
                    return search.run(from + found);
                }
            }
        }
        Vec::new()
    }

    /// The first entries in the order of what is below one, itself included, as far as no circle is cut; `None` if not
    /// all of that is decided.
    pub(super) fn run_to(&self, id: EntryId) -> Option<Vec<EntryId>> {
        let mut search = Search::default();
        self.search(id, &mut search);
        let last = search.components.len() - 1;
        let is_complete = search.components[last].is_complete;
        is_complete.then(|| search.run(last))
    }

    /// Whether a dependency is not delivered.
    fn is_open(&self, id: EntryId) -> bool {
        !self.gone.contains(&id) && !self.done.contains(id)
    }

    fn search(&self, start: EntryId, search: &mut Search) {
        self.visit(start, search);
        while let Some(step) = search.path.last_mut() {
            let id = step.id;
            let Some(dep) = step.deps.get(step.looked_at).copied() else {
                search.path.pop();
                self.leave(id, search);
                continue;
            };
            step.looked_at += 1;
            match search.visits.get(&dep) {
                None => self.visit(dep, search),
                Some(known) if known.component.is_none() => {
                    let order = known.order;
                    search.lower(id, order);
                }
                Some(_) => {}
            }
        }
    }

    fn visit(&self, id: EntryId, search: &mut Search) {
        let order = search.visits.len();
        let visit = Visit {
            order,
            low: order,
            component: None,
        };
        search.visits.insert(id, visit);
        search.open.push(id);
        let known = self
            .instances
            .get(&id)
            .filter(|known| known.is_ready(self.next));
        let deps = known.map_or(Vec::new(), |known| {
            let all = known.deps.ids.iter().copied();
            all.filter(|dep| self.is_open(*dep)).collect()
        });
        search.path.push(Step {
            id,
            deps,
            looked_at: 0,
        });
    }

    /// All below an instance was looked at.
    fn leave(&self, id: EntryId, search: &mut Search) {
        let (order, low) = (search.visits[&id].order, search.visits[&id].low);
        if let Some(above) = search.path.last().map(|step| step.id) {
            search.lower(above, low);
        }
        if low < order {
            return;
        }
        let place = search.components.len();
        let first = search
            .open
            .iter()
            .rposition(|open| *open == id)
            .unwrap_or(0);
        let members = search.open.split_off(first);
        for member in &members {
            if let Some(visit) = search.visits.get_mut(member) {
                visit.component = Some(place);
            }
        }
        let (mut is_complete, mut below, mut keys) = (true, BTreeSet::new(), Vec::new());
        for member in members {
            let known = self.instances.get(&member);
            let ready = known.filter(|known| known.is_ready(self.next));
            keys.push((ready.is_some_and(Instance::is_root), member));
            let Some(ready) = ready else {
                is_complete = false;
                continue;
            };
            let deps = ready
                .deps
                .ids
                .iter()
                .filter_map(|dep| search.visits.get(dep));
            below.extend(deps.filter_map(|visit| visit.component));
        }
        below.remove(&place);
        is_complete &= below.iter().all(|it| search.components[*it].is_complete);
        keys.sort_unstable();
        search.components.push(Component {
            members: keys,
            is_complete,
            below,
        });
    }
}

impl Search {
    fn lower(&mut self, id: EntryId, low: usize) {
        if let Some(visit) = self.visits.get_mut(&id) {
            visit.low = visit.low.min(low);
        }
    }

    /// The first members of what is below a component, itself included, until a circle is cut: what is next then, is
    /// to be seen.
    fn run(&self, top: usize) -> Vec<EntryId> {
        let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
        let mut above: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut left = vec![top];
        while let Some(place) = left.pop() {
            let below = &self.components[place].below;
            if waiting.insert(place, below.len()).is_none() {
                for it in below {
                    above.entry(*it).or_default().push(place);
                    left.push(*it);
                }
            }
        }
        let key = |place: usize| (self.components[place].members[0], place);
        let free = waiting.iter().filter(|(_, below)| **below == 0);
        let mut free: BTreeSet<(Key, usize)> = free.map(|(place, _)| key(*place)).collect();
        let mut run = Vec::new();
        while let Some(((_, id), place)) = free.pop_first() {
            run.push(id);
            if self.components[place].members.len() > 1 {
                break;
            }
            for it in above.get(&place).into_iter().flatten() {
                if let Some(below) = waiting.get_mut(it) {
                    *below -= 1;
                    if *below == 0 {
                        free.insert(key(*it));
                    }
                }
            }
        }
        run
    }
}
