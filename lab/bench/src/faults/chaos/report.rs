//! What a round found: a line for people, an object for programs, and all of them together.

use std::collections::BTreeMap;
use std::fmt;

use quorate_tooling::tables::median;
use serde::Serialize;

use super::fault::{Fault, Planned};
use crate::faults::series::{RoundReport, verdict};

/// Everything one round did, measured and found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The number of the round, from 0.
    pub(super) round: u16,
    /// What everything else in it was derived from.
    pub(super) seed: u64,
    pub(super) faults: Vec<Planned>,
    /// What was drawn with the faults, and what an operator had to do.
    pub(super) notes: Vec<String>,
    /// Requests with an answer.
    pub(super) answered: u64,
    /// Answers that acknowledged a change.
    pub(super) changed: u64,
    /// Requests that may have changed something, without an answer.
    pub(super) unknown: u64,
    /// Requests without an answer that did change something.
    pub(super) unknown_done: u64,
    /// Leases that ended with their keys because nobody renewed them.
    pub(super) leases_ended: u64,
    /// Errors that clients got, and how often.
    pub(super) errors: BTreeMap<String, u64>,
    /// Events that watchers were told.
    pub(super) events: u64,
    /// Slots whose content was compared between the exported logs.
    pub(super) slots: u64,
    /// Longest time without an acknowledged change, of any client.
    pub(super) gap_ms: f64,
    /// From the end of the last fault until every replica votes.
    pub(super) serves_ms: Option<f64>,
    /// From the end of the load until all replicas have applied the same.
    pub(super) equal_ms: Option<f64>,
    pub(super) revision: i64,
    pub(super) hash: u32,
    pub(super) violations: Vec<String>,
}

impl RoundReport for Report {
    fn title(&self) -> String {
        format!("round {}", self.round + 1)
    }

    fn violations(&self) -> &[String] {
        &self.violations
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(Planned::to_string).collect();
        write!(
            out,
            "round {:>3}  {:<26}",
            self.round + 1,
            faults.join(" + ")
        )?;
        write!(
            out,
            "  answered {} (changes {}, unknown {} of which {} done)  errors {}  gap {:.0} ms",
            self.answered,
            self.changed,
            self.unknown,
            self.unknown_done,
            self.errors.values().sum::<u64>(),
            self.gap_ms
        )?;
        let times = [("serves", self.serves_ms), ("equal", self.equal_ms)];
        for (name, time) in times {
            if let Some(time) = time {
                write!(out, "  {name} after {time:.0} ms")?;
            }
        }
        write!(
            out,
            "  events {}  leases ended {}  slots {}  revision {}  hash {:08x}",
            self.events, self.leases_ended, self.slots, self.revision, self.hash
        )?;
        if !self.notes.is_empty() {
            write!(out, "  ({})", self.notes.join("; "))?;
        }
        write!(out, "  {}", verdict(&self.violations))
    }
}

/// All rounds together: what happened how often, and what was checked.
pub(super) fn summary(rounds: &[Report]) -> String {
    let sum = |of: fn(&Report) -> u64| rounds.iter().map(of).sum::<u64>();
    let mut text = format!(
        "{} rounds: {} answers checked ({} acknowledged changes), {} requests of unknown outcome \
         ({} took effect), {} leases ended, {} watch events\n",
        rounds.len(),
        sum(|one| one.answered),
        sum(|one| one.changed),
        sum(|one| one.unknown),
        sum(|one| one.unknown_done),
        sum(|one| one.leases_ended),
        sum(|one| one.events),
    );
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    for planned in rounds.iter().flat_map(|round| &round.faults) {
        *counts.entry(planned.fault).or_default() += 1;
    }
    let counts: Vec<_> = counts
        .iter()
        .map(|(fault, count)| format!("{fault} {count}"))
        .collect();
    text += &format!("faults: {}\n", counts.join(", "));
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (error, count) in rounds.iter().flat_map(|round| &round.errors) {
        *errors.entry(error).or_default() += count;
    }
    for (error, count) in errors {
        text += &format!("error seen by clients {count} times: {error}\n");
    }
    let gaps: Vec<f64> = rounds.iter().map(|round| round.gap_ms).collect();
    let longest = gaps.iter().copied().reduce(f64::max);
    if let Some((median, longest)) = median(gaps).zip(longest) {
        text +=
            &format!("longest gap of a round: median {median:.0} ms, at most {longest:.0} ms\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_summary_counts_faults_and_errors_over_all_rounds() {
        let planned = Planned {
            fault: Fault::Wipe,
            victim: 1,
            from: Duration::ZERO,
            to: Duration::ZERO,
            seed: 0,
        };
        let mut rounds: Vec<_> = (0..2)
            .map(|round| Report {
                round,
                faults: vec![planned],
                ..Report::default()
            })
            .collect();
        for round in &mut rounds {
            round.errors.insert("no answer in time".to_owned(), 2);
            round.answered = 10;
        }
        let text = summary(&rounds);
        assert!(text.contains("20 answers checked"), "{text}");
        assert!(text.contains("faults: wipe 2"), "{text}");
        assert!(text.contains("4 times: no answer in time"), "{text}");
        assert!(rounds[0].to_string().contains("wipe 2"), "{}", rounds[0]);
    }
}
