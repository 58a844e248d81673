//! What a rule finds.

use std::fmt;

/// Something in a file that is against a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// What breaks the rule: a path, or a path and a name in that file. It holds no spaces.
    pub subject: String,
    /// How large the breach is: lines, columns, or occurrences.
    pub amount: usize,
    /// Where it is, for people.
    pub detail: String,
}

impl Finding {
    /// One occurrence of a breach; the ledger adds up those of one subject.
    pub(crate) fn once(
        rule: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Finding {
            rule,
            subject: subject.into(),
            amount: 1,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.subject, self.detail)
    }
}
