//! What clients of the plain store saw, and whether all of it can have happened one after the other, in an
//! order that real time allows (strict serializability).
//!
//! The store tells the version of everything, and the versions of a key count its writes. So most of the
//! order is known: who wrote what a read saw, and what was written before and after it. What is left is to see
//! that these orders, of all keys and of real time together, have no cycle: then there is an order of all.
//!
//! Histories have no deletions, and every write has a value of its own.

use bytes::Bytes;
pub use quorate_plain_store::Version;
use std::collections::{BTreeMap, BTreeSet};

/// What a client asked and was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// When it asked, on the one clock of the history.
    pub began: u64,
    /// When it was answered, if it was.
    pub ended: Option<u64>,
    /// What the client asked.
    pub what: What,
}

/// What an operation did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A value was stored under each of these keys.
    Wrote {
        /// The keys written.
        keys: Vec<Bytes>,
        /// The value stored.
        value: Bytes,
        /// The versions that this gave them; `None` if nobody knows whether it was done.
        versions: Option<Vec<Version>>,
    },
    /// All these keys were read at one time, or the client was told their versions.
    Saw(Vec<Seen>),
}

/// What a read saw of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The key that was seen.
    pub key: Bytes,
    /// The key's version, and its value if that was told; `None` for no such key.
    pub item: Option<(Version, Option<Bytes>)>,
}

/// Says why operations cannot have happened one after the other.
///
/// # Errors
/// What is wrong with them.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let writers = Writers::of(ops)?;
    let mut graph = Graph::new(ops.len());
    writers.order_reads(ops, &mut graph);
    for written in writers.versions.values() {
        let all: Vec<usize> = written.values().copied().collect();
        all.windows(2).for_each(|pair| graph.add(pair[0], pair[1]));
    }
    let is_known = |at: usize| match &ops[at].what {
        What::Wrote { versions: None, .. } => writers.seen.contains(&at),
        _ => true,
    };
    order_by_time(ops, is_known, &mut graph);
    match graph.cycle() {
        None => Ok(()),
        Some(cycle) => {
            let ops = cycle.into_iter().filter_map(|at| ops.get(at));
            let lines: Vec<String> = ops.map(|op| format!("{op:?}")).collect();
            Err(format!(
                "each of these must have happened before the next, and the last before the first:\n{}",
                lines.join("\n")
            ))
        }
    }
}

/// Who wrote what.
struct Writers {
    /// Of each key, the writes whose versions are known.
    versions: BTreeMap<Bytes, BTreeMap<Version, usize>>,
    /// The version that each of them gave.
    gave: BTreeMap<(Bytes, usize), Version>,
    /// The writes of which nobody knew whether they were done, and that somebody saw.
    seen: BTreeSet<usize>,
}

impl Writers {
    fn of(ops: &[Op]) -> Result<Writers, String> {
        let mut writers = Writers {
            versions: BTreeMap::new(),
            gave: BTreeMap::new(),
            seen: BTreeSet::new(),
        };
        let mut values = BTreeMap::new();
        // Of each key, the writes that may or may not have been done.
        let mut maybe: BTreeMap<&Bytes, usize> = BTreeMap::new();
        for (at, op) in ops.iter().enumerate() {
            let What::Wrote {
                keys,
                value,
                versions,
            } = &op.what
            else {
                continue;
            };
            for key in keys {
                values.insert((key, value), at);
            }
            match versions {
                Some(versions) => {
                    for (key, version) in keys.iter().zip(versions) {
                        writers.wrote(key, *version, at)?;
                    }
                }
                None => keys
                    .iter()
                    .for_each(|key| *maybe.entry(key).or_default() += 1),
            }
        }
        for Seen { key, item } in ops.iter().flat_map(Op::seen) {
            let Some((version, Some(value))) = item else {
                continue;
            };
            let Some(&writer) = values.get(&(key, value)) else {
                return Err(format!("{key:?} was read as {value:?}, which nobody wrote"));
            };
            writers.wrote(key, *version, writer)?;
            if matches!(ops[writer].what, What::Wrote { versions: None, .. }) {
                writers.seen.insert(writer);
            }
        }
        writers.count(ops, &maybe)?;
        Ok(writers)
    }

    fn wrote(&mut self, key: &Bytes, version: Version, at: usize) -> Result<(), String> {
        let first = self.gave.entry((key.clone(), at)).or_insert(version);
        if *first != version {
            return Err(format!(
                "the write of {key:?} of operation {at} has version {first}, and {version}"
            ));
        }
        let versions = self.versions.entry(key.clone()).or_default();
        match versions.insert(version, at) {
            Some(before) if before != at => Err(format!(
                "{key:?} has version {version} by two writes, of operations {before} and {at}"
            )),
            _ => Ok(()),
        }
    }

    /// Every version is from a write, and every write is done at most once: there are no more versions than
    /// writes.
    fn count(&self, ops: &[Op], maybe: &BTreeMap<&Bytes, usize>) -> Result<(), String> {
        let told = ops.iter().flat_map(Op::seen).filter_map(|seen| {
            let (version, _) = seen.item.as_ref()?;
            Some((&seen.key, *version))
        });
        let mut ends: BTreeMap<&Bytes, (Version, Version)> = BTreeMap::new();
        let written = self.versions.iter();
        let written = written.flat_map(|(key, all)| all.keys().map(move |version| (key, *version)));
        for (key, version) in written.chain(told) {
            let (first, last) = ends.entry(key).or_insert((version, version));
            (*first, *last) = ((*first).min(version), (*last).max(version));
        }
        for (key, (first, last)) in ends {
            let versions = last.0 - first.0 + 1;
            let known = self.versions.get(key).map_or(0, BTreeMap::len) as u64;
            let seen = |at: &&usize| self.seen.contains(at);
            let of_key = self
                .versions
                .get(key)
                .into_iter()
                .flat_map(BTreeMap::values);
            let seen = of_key.filter(seen).count() as u64;
            let maybe = maybe.get(key).copied().unwrap_or_default() as u64;
            if versions > known + maybe.saturating_sub(seen) {
                return Err(format!(
                    "{key:?} has {versions} versions, and only {known} writes of it were done and {} may \
                     have been: one was done twice",
                    maybe - seen
                ));
            }
        }
        Ok(())
    }

    /// What a read saw was written before, and what follows that was written after.
    fn order_reads(&self, ops: &[Op], graph: &mut Graph) {
        for (at, op) in ops.iter().enumerate() {
            for Seen { key, item } in op.seen() {
                let Some(versions) = self.versions.get(key) else {
                    continue;
                };
                let version = item.as_ref().map(|(version, _)| *version);
                if let Some(writer) = version.and_then(|version| versions.get(&version)) {
                    graph.add(*writer, at);
                }
                let after = match version {
                    Some(version) => versions.range(Version(version.0 + 1)..).next(),
                    None => versions.first_key_value(),
                };
                if let Some((_, writer)) = after {
                    graph.add(at, *writer);
                }
            }
        }
    }
}

impl Op {
    fn seen(&self) -> &[Seen] {
        match &self.what {
            What::Saw(seen) => seen,
            What::Wrote { .. } => &[],
        }
    }
}

/// What had ended before something began happened before it. A node for every end, each before the next,
/// makes that one line for each operation.
fn order_by_time(ops: &[Op], is_known: impl Fn(usize) -> bool, graph: &mut Graph) {
    let known = || (0..ops.len()).filter(|at| is_known(*at));
    let ends: BTreeSet<u64> = known().filter_map(|at| ops[at].ended).collect();
    let nodes: BTreeMap<u64, usize> = ends.into_iter().map(|end| (end, graph.node())).collect();
    let in_order: Vec<usize> = nodes.values().copied().collect();
    in_order
        .windows(2)
        .for_each(|pair| graph.add(pair[0], pair[1]));
    for at in known() {
        if let Some(node) = ops[at].ended.and_then(|end| nodes.get(&end)) {
            graph.add(at, *node);
        }
        if let Some((_, node)) = nodes.range(..ops[at].began).next_back() {
            graph.add(*node, at);
        }
    }
}

/// What must have happened before what.
struct Graph {
    after: Vec<Vec<usize>>,
}

impl Graph {
    fn new(nodes: usize) -> Graph {
        Graph {
            after: vec![Vec::new(); nodes],
        }
    }

    fn node(&mut self) -> usize {
        self.after.push(Vec::new());
        self.after.len() - 1
    }

    /// What read its own write, or wrote twice, has no order with itself.
    fn add(&mut self, before: usize, after: usize) {
        if before != after {
            self.after[before].push(after);
        }
    }

    /// A cycle, if there is one.
    fn cycle(&self) -> Option<Vec<usize>> {
        let mut waits = vec![0u32; self.after.len()];
        self.after.iter().flatten().for_each(|at| waits[*at] += 1);
        let free = |waits: &[u32], at: &usize| waits[*at] == 0;
        let mut ready: Vec<usize> = (0..waits.len()).filter(|at| free(&waits, at)).collect();
        let mut done = vec![false; waits.len()];
        while let Some(at) = ready.pop() {
            done[at] = true;
            for &next in &self.after[at] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(next);
                }
            }
        }
        // Every node that is left waits for another one that is: going back from any, a cycle is reached.
        let mut at = (0..done.len()).find(|at| !done[*at])?;
        let mut path = Vec::new();
        loop {
            if let Some(first) = path.iter().position(|other| *other == at) {
                let mut cycle = path.split_off(first);
                cycle.reverse();
                return Some(cycle);
            }
            path.push(at);
            at = (0..done.len())
                .find(|before| !done[*before] && self.after[*before].contains(&at))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn key(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn wrote(times: Range<u64>, keys: &[&'static str], value: &'static str, first: u64) -> Op {
        Op {
            began: times.start,
            ended: Some(times.end),
            what: What::Wrote {
                keys: keys.iter().map(|name| key(name)).collect(),
                value: key(value),
                versions: Some(keys.iter().map(|_| Version(first)).collect()),
            },
        }
    }

    fn maybe_wrote(began: u64, name: &'static str, value: &'static str) -> Op {
        Op {
            began,
            ended: None,
            what: What::Wrote {
                keys: vec![key(name)],
                value: key(value),
                versions: None,
            },
        }
    }

    fn saw(times: Range<u64>, seen: &[(&'static str, Option<(u64, &'static str)>)]) -> Op {
        let seen = seen.iter().map(|(name, item)| Seen {
            key: key(name),
            item: item.map(|(version, value)| (Version(version), Some(key(value)))),
        });
        Op {
            began: times.start,
            ended: Some(times.end),
            what: What::Saw(seen.collect()),
        }
    }

    #[test]
    fn what_happened_one_after_the_other_passes() {
        let ops = [
            wrote(0..9, &["a", "b"], "x", 5),
            maybe_wrote(3, "a", "y"),
            saw(2..8, &[("a", None)]),
            saw(10..12, &[("a", Some((6, "y"))), ("b", Some((5, "x")))]),
            wrote(20..22, &["a"], "z", 7),
        ];
        assert_eq!(check(&ops), Ok(()));
    }

    #[test]
    fn what_cannot_have_happened_is_found() {
        let stale = [
            wrote(0..1, &["a"], "x", 5),
            wrote(2..3, &["a"], "y", 6),
            saw(4..5, &[("a", Some((5, "x")))]),
        ];
        let torn = [
            wrote(0..1, &["a", "b"], "x", 5),
            wrote(2..9, &["a", "b"], "y", 6),
            saw(3..8, &[("a", Some((6, "y"))), ("b", Some((5, "x")))]),
        ];
        // Each of two writes is seen by one reader, who does not see the other.
        let split = [
            wrote(0..9, &["a"], "x", 5),
            wrote(0..9, &["b"], "y", 5),
            saw(1..8, &[("a", Some((5, "x"))), ("b", None)]),
            saw(1..8, &[("a", None), ("b", Some((5, "y")))]),
        ];
        for (name, ops) in [("stale", &stale[..]), ("torn", &torn), ("split", &split)] {
            let why = check(ops).expect_err(name);
            assert!(why.contains("must have happened before"), "{name}: {why}");
        }
        let lost = [wrote(0..1, &["a"], "x", 5), saw(2..3, &[("a", None)])];
        assert!(check(&lost).is_err(), "an acknowledged write is gone");
        let twice = [
            wrote(0..1, &["a"], "x", 5),
            saw(4..5, &[("a", Some((6, "x")))]),
        ];
        assert!(check(&twice).is_err(), "one write, two versions");
        let unseen = [wrote(0..1, &["a"], "x", 5), wrote(2..3, &["a"], "y", 7)];
        assert!(check(&unseen).unwrap_err().contains("done twice"));
        let both = [wrote(0..1, &["a"], "x", 5), wrote(2..3, &["a"], "y", 5)];
        assert!(check(&both).unwrap_err().contains("by two writes"));
    }
}
