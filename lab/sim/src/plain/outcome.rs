//! What comes of seeds.

use serde_json::json;
use std::collections::BTreeMap;

/// What came of a seed, or of many.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) ops: u64,
    pub(super) unknown: u64,
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) branches: BTreeMap<&'static str, u64>,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Outcome) {
        self.ops += other.ops;
        self.unknown += other.unknown;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (name, count) in &other.branches {
            *self.branches.entry(name).or_default() += count;
        }
    }

    pub(super) fn line(&self) -> String {
        let list = |counts: &BTreeMap<&'static str, u64>| {
            let each = counts.iter().map(|(name, count)| format!("{count} {name}"));
            each.collect::<Vec<_>>().join(", ")
        };
        format!(
            "{} operations, {} without an answer\nfaults: {}\nbranches: {}",
            self.ops,
            self.unknown,
            list(&self.faults),
            list(&self.branches)
        )
    }

    pub(super) fn as_json(&self, passed: usize, wrong: usize) -> serde_json::Value {
        json!({
            "passed": passed, "violations": wrong, "ops": self.ops, "unanswered": self.unknown,
            "faults": self.faults, "branches": self.branches,
        })
    }
}
