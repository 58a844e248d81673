//! Is there an order of all operations, consistent with real time, that explains every answer?
//!
//! Linearizability is local: a history is linearizable exactly if its restriction to each key is
//! (Herlihy and Wing). Per key this is the search of Wing and Gong with the memoization of Lowe:
//! take any operation that no other one must precede, apply it to a model of the key, go on; never
//! visit the same set of taken operations with the same model state twice.
//!
//! The revisions in the answers only say in which order to try: for a correct store the first
//! try succeeds, so that the search is linear. They are not believed: every answer, its revisions
//! included, must fit the model, and every step must respect real time.

use crate::history::{Call, Op, Outcome, Seen};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_128;

/// Steps after which a search is given up; a correct history takes about as many as it has
/// operations.
const STEPS_MAX: usize = 200_000;

/// Checks a whole history; the error names the key and the operations nothing explains.
pub fn check(history: &[Op]) -> Result<(), String> {
    check_revisions(history)?;
    let mut keys: BTreeMap<u8, Vec<Op>> = BTreeMap::new();
    for op in history {
        keys.entry(op.key).or_default().push(*op);
    }
    for (key, ops) in keys {
        Search::new(ops)
            .run()
            .map_err(|why| format!("key {key}: {why}"))?;
    }
    Ok(())
}

/// Across all keys, revisions of acknowledged changes are unique and grow with real time.
fn check_revisions(history: &[Op]) -> Result<(), String> {
    let mut by_revision: BTreeMap<u64, &Op> = BTreeMap::new();
    for op in history {
        let Some((_, outcome)) = op.returned.filter(|(_, outcome)| outcome.changed()) else {
            continue;
        };
        if let Some(other) = by_revision.insert(outcome.revision(), op) {
            return Err(format!(
                "two changes have one revision: {other:?} and {op:?}"
            ));
        }
    }
    let mut first_return: Option<(u64, &Op)> = None;
    for op in by_revision.values().rev() {
        if let Some((returned, later)) = first_return
            && returned < op.invoked
        {
            return Err(format!(
                "a change that was over before another began has the higher revision: \
                 {later:?}, then {op:?}"
            ));
        }
        let (returned, _) = op
            .returned
            .expect("only acknowledged changes were collected");
        if first_return.is_none_or(|(earliest, _)| returned < earliest) {
            first_return = Some((returned, op));
        }
    }
    Ok(())
}

/// The model of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Model {
    /// No change before this revision is possible any more.
    revision: u64,
    key: Option<Key>,
}

/// The key while it exists; revisions of changes whose answer nobody saw are unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    value: u64,
    version: u64,
    created: Option<u64>,
    modified: Option<u64>,
}

impl Key {
    fn fits(&self, seen: &Seen) -> bool {
        self.value == seen.value
            && self.version == seen.version
            && self.created.is_none_or(|created| created == seen.created)
            && self
                .modified
                .is_none_or(|modified| modified == seen.modified)
    }
}

impl Model {
    /// The state after `op`; `None` if its answer contradicts the state before.
    fn apply(self, op: &Op, revision: Option<u64>) -> Option<Model> {
        match op.returned {
            None => Some(self.apply_unknown(op.call, revision)),
            Some((_, outcome)) => self.apply_known(op.call, outcome),
        }
    }

    fn apply_known(self, call: Call, outcome: Outcome) -> Option<Model> {
        let revision = outcome.revision();
        let advanced = if outcome.changed() {
            revision > self.revision
        } else {
            revision >= self.revision
        };
        if !advanced {
            return None;
        }
        let after = Model { revision, ..self };
        match (call, outcome) {
            (Call::Put(value), Outcome::Put { .. }) => Some(after.stored(value, Some(revision))),
            (Call::Delete, Outcome::Deleted { existed, .. }) => {
                (existed == self.key.is_some()).then_some(Model { key: None, ..after })
            }
            (Call::Cas { expected, value }, Outcome::Swapped { .. }) => self
                .holds(expected)
                .then(|| after.stored(value, Some(revision))),
            (Call::Cas { expected, .. }, Outcome::Kept { seen, .. }) => {
                (!self.holds(expected) && self.explains(seen)).then_some(after)
            }
            (Call::Get, Outcome::Got { seen, .. }) => self.explains(seen).then_some(after),
            _ => None,
        }
    }

    /// An operation without an answer takes effect now. `revision` is what others saw of it.
    fn apply_unknown(self, call: Call, revision: Option<u64>) -> Model {
        let after = Model {
            revision: revision.unwrap_or(0).max(self.revision + 1),
            ..self
        };
        match call {
            Call::Put(value) => after.stored(value, revision),
            Call::Delete if self.key.is_some() => Model { key: None, ..after },
            Call::Cas { expected, value } if self.holds(expected) => after.stored(value, revision),
            Call::Delete | Call::Cas { .. } | Call::Get => self,
        }
    }

    fn stored(self, value: u64, modified: Option<u64>) -> Model {
        let key = match self.key {
            Some(key) => Key {
                value,
                version: key.version + 1,
                modified,
                ..key
            },
            None => Key {
                value,
                version: 1,
                created: modified,
                modified,
            },
        };
        Model {
            key: Some(key),
            ..self
        }
    }

    fn holds(&self, expected: u64) -> bool {
        match self.key {
            None => expected == 0,
            Some(key) => key.modified == Some(expected),
        }
    }

    fn explains(&self, seen: Option<Seen>) -> bool {
        match (self.key, seen) {
            (None, None) => true,
            (Some(key), Some(seen)) => key.fits(&seen),
            _ => false,
        }
    }
}

/// The search over the operations of one key.
struct Search {
    /// In the order to try: by what is known of their revisions, unknown ones last.
    ops: Vec<Op>,
    /// What others saw of the revision of an operation without an answer.
    revisions: Vec<Option<u64>>,
    taken: Vec<bool>,
    visited: BTreeSet<u128>,
    steps: usize,
}

/// A choice that was made: which operation, and the state before it.
struct Choice {
    index: usize,
    before: Model,
}

impl Search {
    fn new(mut ops: Vec<Op>) -> Self {
        let mut seen_at = BTreeMap::new();
        for seen in ops
            .iter()
            .filter_map(|op| op.returned.and_then(|(_, o)| o.seen()))
        {
            seen_at.insert(seen.value, seen.modified);
        }
        let observed = |op: &Op| {
            let seen = op.call.value().and_then(|value| seen_at.get(&value));
            op.hint.or(seen.copied())
        };
        ops.sort_by_key(|op| match op.returned {
            Some((_, outcome)) => (outcome.revision(), !outcome.changed(), op.invoked),
            None => (observed(op).unwrap_or(u64::MAX), false, op.invoked),
        });
        let revisions = ops.iter().map(observed).collect();
        let taken = vec![false; ops.len()];
        Search {
            ops,
            revisions,
            taken,
            visited: BTreeSet::new(),
            steps: 0,
        }
    }

    fn run(mut self) -> Result<(), String> {
        let mut choices: Vec<Choice> = Vec::new();
        let mut model = Model::default();
        let mut from = 0;
        let mut deepest: (usize, String) = (0, String::new());
        loop {
            let bound = self.first_return();
            if bound == u64::MAX {
                return Ok(());
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(format!(
                    "no order found within {STEPS_MAX} steps; {}",
                    deepest.1
                ));
            }
            if let Some((index, after)) = self.next(from, bound, model) {
                self.taken[index] = true;
                choices.push(Choice {
                    index,
                    before: model,
                });
                (model, from) = (after, 0);
                continue;
            }
            if choices.len() >= deepest.0 {
                deepest = (choices.len(), self.stuck(&choices, bound, model));
            }
            let Some(choice) = choices.pop() else {
                return Err(deepest.1);
            };
            self.taken[choice.index] = false;
            (model, from) = (choice.before, choice.index + 1);
        }
    }

    /// The earliest return among operations not taken: only what was invoked before it may come
    /// next. `u64::MAX` when every answered operation is taken: the others never took effect.
    fn first_return(&self) -> u64 {
        let open = self
            .ops
            .iter()
            .zip(&self.taken)
            .filter(|(_, taken)| !**taken);
        open.filter_map(|(op, _)| op.returned)
            .map(|(at, _)| at)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The next operation from position `from` on that may come next and leads somewhere new.
    fn next(&mut self, from: usize, bound: u64, model: Model) -> Option<(usize, Model)> {
        for index in from..self.ops.len() {
            let op = &self.ops[index];
            if self.taken[index] || op.invoked > bound {
                continue;
            }
            let Some(after) = model.apply(op, self.revisions[index]) else {
                continue;
            };
            self.taken[index] = true;
            let new = self.visited.insert(self.visit(&after));
            self.taken[index] = false;
            if new {
                return Some((index, after));
            }
        }
        None
    }

    /// Names a set of taken operations and a state.
    fn visit(&self, model: &Model) -> u128 {
        let mut bytes: Vec<u8> = self
            .taken
            .chunks(8)
            .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
            .collect();
        let key = model.key.map(|key| {
            let known = |revision: Option<u64>| revision.unwrap_or(u64::MAX);
            [
                key.value,
                key.version,
                known(key.created),
                known(key.modified),
            ]
        });
        for number in key.iter().flatten().chain([&model.revision]) {
            bytes.extend(number.to_le_bytes());
        }
        xxh3_128(&bytes)
    }

    /// For people: the last steps of a search that failed, and what should have come next.
    fn stuck(&self, choices: &[Choice], bound: u64, model: Model) -> String {
        let open = self.ops.iter().zip(&self.taken);
        let open = open.filter(|(op, taken)| !**taken && op.invoked <= bound);
        let mut lines = String::from("after");
        for choice in &choices[choices.len().saturating_sub(8)..] {
            lines.push_str(&format!("\n    {:?}", self.ops[choice.index]));
        }
        lines.push_str(&format!("\n  nothing explains what follows {model:?}:"));
        for (op, _) in open.take(12) {
            lines.push_str(&format!("\n    {op:?}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
