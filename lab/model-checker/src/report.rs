//! What a search came to, for people and for programs.

use crate::host_model::Fault;
use crate::layers::Layered;
use crate::scope::Scope;
use crate::search::SearchResult;
use serde_json::{Value, json};

/// The result of one search.
pub(crate) struct Row {
    pub(crate) config: &'static str,
    /// Outcomes of the coin, slot by slot; `both` where a search tries both everywhere.
    pub(crate) coins: String,
    /// States of the cluster.
    pub(crate) states: u64,
    /// States of the cluster by layer, if it was searched by layers.
    pub(crate) layers: Vec<u64>,
    pub(crate) transitions: u64,
    pub(crate) depth: u64,
    /// Times that a machine was run.
    pub(crate) steps: u64,
    /// States in which everybody had decided everything, or from which the coin's lemma held.
    pub(crate) ends: u64,
    /// Bytes of the set of states.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// What is wrong, and how it came about.
    pub(crate) fault: Option<(Fault, Vec<String>)>,
    /// What the table says, if it says otherwise.
    pub(crate) expected: Option<Vec<u64>>,
}

impl Row {
    pub(crate) fn of_search(scope: &Scope, coins: usize, found: SearchResult, seconds: f64) -> Row {
        let expected = scope
            .states
            .get(coins)
            .filter(|states| **states != found.states);
        Row {
            config: scope.name,
            coins: scope.coins_of(scope.seeds()[coins]),
            states: found.states,
            layers: Vec::new(),
            transitions: found.transitions,
            depth: found.depth,
            steps: found.steps,
            ends: found.ends,
            bytes: found.bytes,
            seconds,
            expected: expected.map(|states| vec![*states]),
            fault: found.fault,
        }
    }

    pub(crate) fn of_layers(scope: &Scope, found: Layered, seconds: f64) -> Row {
        let is_expected = scope.states.is_empty() || scope.states == found.states;
        Row {
            config: scope.name,
            coins: "both".to_string(),
            states: found.states.iter().sum(),
            depth: found.states.len() as u64 - u64::from(!found.states.is_empty()),
            layers: found.states,
            transitions: found.transitions,
            steps: found.turns,
            ends: found.lemma,
            bytes: found.bytes,
            seconds,
            expected: (!is_expected).then(|| scope.states.to_vec()),
            fault: found.fault,
        }
    }

    /// Whether everything was as it should be.
    pub(crate) fn is_good(&self) -> bool {
        self.fault.is_none() && self.expected.is_none()
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let verdict = match (&self.fault, &self.expected) {
            (Some((fault, _)), _) => format!("VIOLATION of {}", fault.property),
            (None, Some(expected)) => format!("the table says {expected:?} states"),
            (None, None) => "ok".to_string(),
        };
        let layers = match self.layers.as_slice() {
            [] => String::new(),
            layers => format!(", by layer {layers:?}"),
        };
        format!(
            "{:24} coins {:8} {:>11} states {:>12} transitions depth {:>3} {:>9} machine steps \
             {:>10} ends {:>7.1} s {:>6} MiB: {verdict}{layers}",
            self.config,
            self.coins,
            self.states,
            self.transitions,
            self.depth,
            self.steps,
            self.ends,
            self.seconds,
            self.bytes >> 20,
        )
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let fault = self.fault.as_ref().map(|(fault, story)| {
            json!({ "property": fault.property, "what": fault.what, "schedule": story })
        });
        json!({
            "config": self.config,
            "coins": self.coins,
            "states": self.states,
            "layers": self.layers,
            "transitions": self.transitions,
            "depth": self.depth,
            "machine_steps": self.steps,
            "ends": self.ends,
            "state_bytes": self.bytes,
            "seconds": self.seconds,
            "violation": fault,
            "states_expected": self.expected,
        })
    }

    /// The schedule of a violation.
    pub(crate) fn story(&self) -> Vec<String> {
        let Some((fault, story)) = &self.fault else {
            return Vec::new();
        };
        let mut lines = vec![format!("shortest schedule found, in {}:", self.config)];
        lines.extend(story.iter().cloned());
        lines.push(format!("violation of {}: {}", fault.property, fault.what));
        lines
    }
}

/// The most memory this process has had, in MiB; 0 where the system does not tell.
pub(crate) fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
