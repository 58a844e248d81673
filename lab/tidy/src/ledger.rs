//! Breaches that were there when their rule came. Their sizes may only shrink.

use crate::Finding;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The recorded sizes, by rule and subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(BTreeMap<(String, String), usize>);

/// The findings of one rule about one subject.
struct Group<'a> {
    amount: usize,
    findings: Vec<&'a Finding>,
}

impl Ledger {
    /// Reads lines of `RULE SUBJECT AMOUNT`. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    ///
    /// A line that is something else, as text for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut amounts = BTreeMap::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [rule, subject, amount] = words[..] else {
                return Err(format!("not a rule, a subject and an amount: {line}"));
            };
            let amount = amount
                .parse()
                .map_err(|_| format!("not an amount: {line}"))?;
            amounts.insert((rule.to_owned(), subject.to_owned()), amount);
        }
        Ok(Ledger(amounts))
    }

    /// A ledger that allows exactly these findings.
    pub fn of(findings: &[Finding]) -> Self {
        let amounts = groups(findings).into_iter();
        Ledger(amounts.map(|(key, group)| (key, group.amount)).collect())
    }

    /// The text that [`Ledger::parse`] reads.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# What was against a rule of quorate-tidy when this was written: rule, subject, amount.\n\
             # QUORATE_RECORD=1 cargo test -p quorate-tidy takes out what has shrunk. Nothing is added by hand.\n",
        );
        for ((rule, subject), amount) in &self.0 {
            writeln!(text, "{rule} {subject} {amount}").expect("strings take everything");
        }
        text
    }

    /// What is wrong with the findings: sizes above the recorded ones, and records of what is no longer a breach.
    pub fn complaints(&self, findings: &[Finding]) -> Vec<String> {
        let groups = groups(findings);
        let mut complaints = Vec::new();
        for (key, group) in &groups {
            let allowed = self.0.get(key).copied().unwrap_or(0);
            if group.amount > allowed {
                let recorded = match allowed {
                    0 => String::new(),
                    allowed => format!(" ({} where {allowed} are recorded)", group.amount),
                };
                complaints.extend(group.findings.iter().map(|f| format!("{f}{recorded}")));
            }
        }
        for (rule, subject) in self.0.keys().filter(|key| !groups.contains_key(key)) {
            complaints.push(format!(
                "{rule}: {subject}: is recorded and no longer a breach: QUORATE_RECORD=1 cargo test -p quorate-tidy"
            ));
        }
        complaints
    }

    /// This ledger with every size that has shrunk, and without what is no longer a breach.
    pub fn shrunk_to(&self, findings: &[Finding]) -> Self {
        let groups = groups(findings);
        let still = self.0.iter().filter_map(|(key, allowed)| {
            let amount = groups.get(key)?.amount;
            Some((key.clone(), amount.min(*allowed)))
        });
        Ledger(still.collect())
    }
}

fn groups(findings: &[Finding]) -> BTreeMap<(String, String), Group<'_>> {
    let mut groups: BTreeMap<(String, String), Group<'_>> = BTreeMap::new();
    for finding in findings {
        let key = (finding.rule.to_owned(), finding.subject.clone());
        let group = groups.entry(key).or_insert_with(|| Group {
            amount: 0,
            findings: Vec::new(),
        });
        group.amount += finding.amount;
        group.findings.push(finding);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(subject: &str, times: usize) -> Vec<Finding> {
        vec![Finding::once("width", subject, "line 1"); times]
    }

    #[test]
    fn a_breach_beyond_the_recorded_size_is_told() {
        let ledger = Ledger::of(&found("a.rs", 2));
        assert!(ledger.complaints(&found("a.rs", 2)).is_empty());
        assert!(ledger.complaints(&found("a.rs", 1)).is_empty());
        assert_eq!(ledger.complaints(&found("a.rs", 3)).len(), 3);
        assert_eq!(
            ledger.complaints(&found("b.rs", 1)).len(),
            2,
            "one new, one gone"
        );
    }

    #[test]
    fn a_ledger_shrinks_and_never_grows() {
        let ledger = Ledger::of(&[found("a.rs", 2), found("b.rs", 3)].concat());
        let now = [found("a.rs", 4), found("b.rs", 1), found("c.rs", 1)].concat();
        let shrunk = ledger.shrunk_to(&now);
        let expected = "width a.rs 2\nwidth b.rs 1";
        assert_eq!(Ledger::parse(expected), Ok(shrunk.clone()));
        assert_eq!(Ledger::parse(&shrunk.render()), Ok(shrunk));
    }

    #[test]
    fn a_malformed_line_is_refused() {
        assert!(Ledger::parse("width a.rs").is_err());
        assert!(Ledger::parse("width a.rs many").is_err());
    }
}
