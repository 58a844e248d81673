//! Replicas stopped, one by one beside their leader or at once with it, and what is then served.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Trial;
use super::observe::{Kind, Outcome};
use super::promise::{Promise, Service};
use quorate_load::trial;
use quorate_tooling::terminal::say;

/// How a replica is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// SIGSTOP: its connections stay.
    Paused,
    /// The replicas were killed (SIGKILL).
    Killed,
}

/// What was served while some replicas were stopped, and every kind of request was sent to the others.
struct Row {
    how: How,
    stopped: usize,
    is_leader_stopped: bool,
    promise: Promise,
    outcomes: Vec<Outcome>,
}

impl Trial<'_> {
    /// All ways of stopping.
    pub(super) fn stops(&mut self) -> Result<(), String> {
        say(format_args!("{}", Row::head()));
        for how in [How::Paused, How::Killed] {
            self.beside_the_leader(how)?;
            if !self.quorums.is_led {
                continue;
            }
            for stopped in 1..self.quorums.n {
                self.with_the_leader(how, stopped)?;
            }
        }
        Ok(())
    }

    /// The leader goes on while the others are stopped, one by one.
    fn beside_the_leader(&mut self, how: How) -> Result<(), String> {
        let leader = self.leader()?;
        let others: Vec<usize> = (0..self.quorums.n)
            .filter(|&index| index != leader)
            .collect();
        for stopped in 1..=others.len() {
            self.stop(how, &others[stopped - 1..stopped])?;
            self.look(how, &others[..stopped], false)?;
        }
        self.heal(how, &others)
    }

    /// The leader is stopped, and others with it.
    fn with_the_leader(&mut self, how: How, stopped: usize) -> Result<(), String> {
        let leader = self.leader()?;
        let n = self.quorums.n;
        let which: Vec<usize> = (0..stopped).map(|step| (leader + step) % n).collect();
        self.stop(how, &which)?;
        self.look(how, &which, true)?;
        self.heal(how, &which)
    }

    /// Who leads; where nobody does, any replica is as good.
    pub(super) fn leader(&self) -> Result<usize, String> {
        if !self.quorums.is_led {
            return Ok(0);
        }
        self.runtime
            .block_on(trial::leader(&self.replicas.endpoints))
    }

    pub(super) fn stop(&mut self, how: How, which: &[usize]) -> Result<(), String> {
        match how {
            How::Killed => self.replicas.kill(which),
            How::Paused => which
                .iter()
                .try_for_each(|&index| self.replicas.pause(index)),
        }
    }

    /// Asks those that run, and compares with what is promised.
    fn look(&mut self, how: How, stopped: &[usize], is_leader_stopped: bool) -> Result<(), String> {
        let row = Row {
            how,
            stopped: stopped.len(),
            is_leader_stopped,
            promise: self.quorums.promise(stopped.len(), is_leader_stopped),
            outcomes: self.observe(stopped, PATIENCE)?,
        };
        say(format_args!("{row}"));
        self.wrong.extend(row.wrong());
        Ok(())
    }

    /// Lets them go on, after which all must serve everything again.
    pub(super) fn heal(&mut self, how: How, which: &[usize]) -> Result<(), String> {
        match how {
            How::Killed => self.replicas.start(which)?,
            How::Paused => which
                .iter()
                .try_for_each(|&index| self.replicas.resume(index))?,
        }
        let outcomes = self.observe(&[], RECOVERY)?;
        let slowest = outcomes
            .iter()
            .map(|outcome| outcome.since)
            .max()
            .unwrap_or_default();
        say(format_args!(
            "  all back: everything served after {}",
            seconds(slowest)
        ));
        let failed = outcomes.iter().filter_map(|outcome| {
            let error = outcome.error.as_ref()?;
            Some(format!(
                "all back: {} through replica {}: {error}",
                outcome.kind.name(),
                outcome.replica + 1
            ))
        });
        self.wrong.extend(failed);
        Ok(())
    }
}

impl Row {
    fn head() -> String {
        let kinds = Kind::ALL.map(|kind| format!("{:>14}", kind.name()));
        format!(
            "{:>7} {:>7} {:>8} {}",
            "stopped",
            "how",
            "leader",
            kinds.concat()
        )
    }

    fn title(&self) -> String {
        let how = match self.how {
            How::Paused => "paused",
            How::Killed => "killed",
        };
        let leader = if self.is_leader_stopped {
            "stopped"
        } else {
            "goes on"
        };
        format!("{:>7} {how:>7} {leader:>8}", self.stopped)
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(move |outcome| outcome.kind == kind)
    }

    /// What became of a kind of request, through all replicas asked.
    fn cell(&self, kind: Kind) -> String {
        let since = self
            .of(kind)
            .map(|outcome| outcome.since)
            .max()
            .unwrap_or_default();
        let took = self
            .of(kind)
            .map(|outcome| outcome.took)
            .min()
            .unwrap_or_default();
        let failed = self
            .of(kind)
            .filter(|outcome| outcome.error.is_some())
            .count();
        match (failed, self.of(kind).count() - failed) {
            (0, _) => format!("yes {}", seconds(since)),
            (_, 0) => format!("no {}", seconds(took)),
            (failed, _) => format!("{failed} not"),
        }
    }

    /// Where what was seen differs from what is promised.
    fn wrong(&self) -> impl Iterator<Item = String> {
        self.outcomes.iter().filter_map(|outcome| {
            let service = outcome.kind.service(self.promise);
            let what = match (&outcome.error, service) {
                (None, Service::Impossible) => "was served against the arithmetic".to_owned(),
                (None, _) => return None,
                (Some(error), Service::Promised) => format!("is promised: {error}"),
                (Some(_), _) if outcome.is_clear => return None,
                (Some(error), _) => format!("no clear error: {error}"),
            };
            let (kind, replica) = (outcome.kind.name(), outcome.replica + 1);
            Some(format!(
                "{}: {kind} through replica {replica} {what}",
                self.title()
            ))
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.title())?;
        for kind in Kind::ALL {
            write!(out, "{:>14}", self.cell(kind))?;
        }
        let mut errors: BTreeMap<&str, usize> = BTreeMap::new();
        for error in self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.error.as_deref())
        {
            *errors.entry(error).or_default() += 1;
        }
        for (error, count) in errors {
            write!(out, "\n  {count} times {error}")?;
        }
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// How long requests may fail before they are taken for not served: several elections.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long replicas that are back may take to serve everything.
const RECOVERY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survive::promise::Quorums;

    fn outcome(kind: Kind, error: Option<&str>) -> Outcome {
        Outcome {
            kind,
            replica: 2,
            took: Duration::from_secs(4),
            since: Duration::from_secs(8),
            is_clear: error.is_none_or(|text| text.contains("etcdserver")),
            error: error.map(str::to_owned),
        }
    }

    /// Two of five without a leader: nothing is promised.
    fn row(outcomes: Vec<Outcome>) -> Row {
        Row {
            how: How::Killed,
            stopped: 3,
            is_leader_stopped: true,
            promise: Quorums::led(5, 3, true).promise(3, true),
            outcomes,
        }
    }

    #[test]
    fn what_differs_from_the_promise_is_wrong() {
        let refused = outcome(Kind::SmallRead, Some("UNAVAILABLE: etcdserver: no leader"));
        assert_eq!(row(vec![refused.clone()]).wrong().count(), 0);
        let served = outcome(Kind::SmallWrite, None);
        let silent = outcome(Kind::CodedRead, Some("no answer within 12 s"));
        let found = row(vec![refused.clone(), served, silent]);
        let wrong: Vec<String> = found.wrong().collect();
        assert_eq!(wrong.len(), 2);
        assert!(
            wrong[0].ends_with("write 100 B through replica 3 was served against the arithmetic")
        );
        assert!(
            wrong[1]
                .ends_with("read 4 KiB through replica 3 no clear error: no answer within 12 s")
        );
        let mut promised = row(vec![refused]);
        promised.promise = Quorums::led(5, 3, true).promise(1, true);
        assert!(
            promised
                .wrong()
                .next()
                .unwrap()
                .contains("is promised: UNAVAILABLE")
        );
    }

    #[test]
    fn a_line_says_what_became_of_each_kind() {
        let refused = outcome(Kind::SmallRead, Some("UNAVAILABLE: etcdserver: no leader"));
        let text = row(vec![outcome(Kind::SmallWrite, None), refused]).to_string();
        assert!(
            text.contains("yes 8.00 s") && text.contains("no 4.00 s"),
            "{text}"
        );
        assert!(
            text.ends_with("1 times UNAVAILABLE: etcdserver: no leader"),
            "{text}"
        );
    }
}
