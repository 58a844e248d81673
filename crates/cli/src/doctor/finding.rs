//! What checks come to, for people and for programs.

use serde::Serialize;
use std::fmt::Write;

/// How a check ended, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Keeps a replica from starting, or the cluster from being safe or whole.
    Problem,
    /// Worth knowing, and one can live with it.
    Note,
    /// There is nothing to be done.
    Fine,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Problem => "PROBLEM",
            Verdict::Note => "note",
            Verdict::Fine => "fine",
        }
    }
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// What was checked; `docs/reference/doctor.md` lists the kinds.
    pub(super) kind: &'static str,
    /// The replica that it is about; `None` where there is one alone, or it is about all.
    pub(super) replica_id: Option<u16>,
    /// The result in words, with what was measured.
    pub(super) text: String,
    /// What to do, unless there is nothing to be done or the text says so.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn fine(kind: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Fine,
            kind,
            replica_id: None,
            text: text.into(),
            remedy: None,
        }
    }

    pub(super) fn note(kind: &'static str, text: impl Into<String>, remedy: &str) -> Finding {
        Finding {
            verdict: Verdict::Note,
            remedy: Some(remedy.to_owned()),
            ..Finding::fine(kind, text)
        }
    }

    pub(super) fn problem(kind: &'static str, text: impl Into<String>, remedy: &str) -> Finding {
        Finding {
            verdict: Verdict::Problem,
            ..Finding::note(kind, text, remedy)
        }
    }

    /// A problem whose text says what to do.
    pub(super) fn fault(kind: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Problem,
            ..Finding::fine(kind, text)
        }
    }

    /// The finding, of a replica of a cluster.
    pub(super) fn at(self, replica_id: u16) -> Finding {
        Finding {
            replica_id: Some(replica_id),
            ..self
        }
    }
}

/// Everything that was checked, the worst first.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// Whether there is no problem.
    pub(super) healthy: bool,
    findings: Vec<Finding>,
}

impl Findings {
    pub(super) fn of(mut findings: Vec<Finding>) -> Findings {
        findings.sort_by_key(|finding| finding.verdict);
        Findings {
            healthy: !findings.iter().any(|one| one.verdict == Verdict::Problem),
            findings,
        }
    }

    /// For people: what was found, what to do, and how much of each there is.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let who = match finding.replica_id {
                Some(id) => format!("replica {id}: "),
                None => String::new(),
            };
            let (word, kind) = (finding.verdict.word(), finding.kind);
            // A String takes everything.
            let _ = writeln!(text, "{word:<8} {kind}: {who}{}", finding.text);
            if let Some(remedy) = &finding.remedy {
                let _ = writeln!(text, "{:<8} -> {remedy}", "");
            }
        }
        let count = |verdict| {
            let all = self.findings.iter();
            all.filter(|one| one.verdict == verdict).count()
        };
        let _ = writeln!(
            text,
            "problems: {}, notes: {}, fine: {}",
            count(Verdict::Problem),
            count(Verdict::Note),
            count(Verdict::Fine)
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_come_first_each_with_its_remedy() {
        let found = Findings::of(vec![
            Finding::fine("clock", "it is kept in step"),
            Finding::note("swap", "some is used", "add memory").at(2),
            Finding::problem("port", "port 1 is taken", "take another"),
        ]);
        assert!(!found.healthy);
        let expected = "PROBLEM  port: port 1 is taken\n         -> take another\n\
                        note     swap: replica 2: some is used\n         -> add memory\n\
                        fine     clock: it is kept in step\n\
                        problems: 1, notes: 1, fine: 1\n";
        assert_eq!(found.render(), expected);
        assert!(Findings::of(vec![Finding::fine("clock", "")]).healthy);
    }
}
