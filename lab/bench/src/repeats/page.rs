//! What became of the puts, as a table.

use std::fmt;

use super::client::Tally;
use super::system::ETCD;
use quorate_tooling::tables::align;

/// One client in one system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    system: String,
    client: String,
    tally: Tally,
    /// Puts that were executed.
    executed: u32,
    /// Puts that were executed more than once.
    twice: u32,
}

impl Row {
    pub(super) fn new(system: &str, client: &str, tally: Tally, executed: &[u32]) -> Row {
        let count = |least: u32| executed.iter().filter(|times| **times >= least).count() as u32;
        Row {
            system: system.to_owned(),
            client: client.to_owned(),
            tally,
            executed: count(1),
            twice: count(2),
        }
    }

    /// Whether no put ended without an acknowledgement.
    fn is_vain(&self) -> bool {
        self.tally.acknowledged() == self.tally.puts()
    }

    fn cells(&self) -> Vec<String> {
        let acknowledged = self.tally.acknowledged();
        let numbers = [
            self.tally.puts(),
            acknowledged,
            self.executed.saturating_sub(acknowledged),
            self.twice,
        ];
        let names = [self.system.clone(), self.client.clone()];
        names
            .into_iter()
            .chain(numbers.map(|number| number.to_string()))
            .collect()
    }
}

/// The row at length: how many puts ended in which way.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, client, twice) = (&self.system, &self.client, self.twice);
        write!(f, "{system}, {client}: {twice} executed twice")?;
        for (outcome, times) in &self.tally.0 {
            write!(f, "\n  {times:>5} {outcome}")?;
        }
        Ok(())
    }
}

/// All rows of the table.
pub(super) struct Page(pub(super) Vec<Row>);

impl Page {
    /// Clients that executed more puts twice than they may: none where their name begins with one of `once`, and
    /// no more than with etcd. Rows whose puts were all acknowledged show nothing: frozen replicas were not needed.
    pub(super) fn wrong(&self, once: &[String]) -> Vec<String> {
        let vain = self.0.iter().filter(|row| row.is_vain()).map(|row| {
            let (system, client) = (&row.system, &row.client);
            format!("{system}, {client}: every put was acknowledged though replicas were frozen")
        });
        let ours = self.0.iter().filter(|row| row.system != ETCD);
        let wrong = ours.filter_map(|row| {
            let (system, client, twice) = (&row.system, &row.client, row.twice);
            if twice > 0 && once.iter().any(|name| client.starts_with(name.as_str())) {
                return Some(format!(
                    "{system}, {client}: {twice} puts were executed twice"
                ));
            }
            let same = |other: &&Row| other.system == ETCD && other.client == *client;
            let etcd = self.0.iter().find(same)?;
            (twice > etcd.twice).then(|| {
                let there = etcd.twice;
                format!("{system}, {client}: {twice} puts were executed twice, with etcd {there}")
            })
        });
        vain.chain(wrong).collect()
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "system",
            "client",
            "puts",
            "acknowledged",
            "executed besides",
            "executed twice",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.0.iter().map(Row::cells));
        write!(f, "{}", align(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, client: &str, executed: &[u32]) -> Row {
        let tally = Tally([("ok".to_owned(), 2), ("late".to_owned(), 3)].into());
        Row::new(system, client, tally, executed)
    }

    #[test]
    fn who_executes_twice_what_it_may_not_is_named() {
        let page = Page(vec![
            row("rabia", "go 3.6", &[1, 2, 1]),
            row("rabia", "node", &[1, 3, 2]),
            row("rabia", "java", &[1, 2]),
            row("etcd", "go 3.6", &[2, 2]),
            row("etcd", "node", &[1, 2]),
            row("etcd", "java", &[2]),
        ]);
        assert_eq!(
            page.wrong(&["go".to_owned()]),
            [
                "rabia, go 3.6: 1 puts were executed twice",
                "rabia, node: 2 puts were executed twice, with etcd 1"
            ]
        );
    }

    #[test]
    fn a_row_whose_puts_were_all_acknowledged_is_wrong() {
        let tally = Tally([("ok".to_owned(), 2)].into());
        let page = Page(vec![Row::new("rs-paxos", "go 3.6", tally, &[1, 1])]);
        assert_eq!(
            page.wrong(&[]),
            ["rs-paxos, go 3.6: every put was acknowledged though replicas were frozen"]
        );
    }

    #[test]
    fn a_row_tells_what_was_executed_without_an_acknowledgement() {
        let row = row("rabia", "go 3.6", &[1, 2, 1]);
        assert_eq!(row.cells(), ["rabia", "go 3.6", "5", "2", "1", "1"]);
        assert_eq!(
            row.to_string(),
            "rabia, go 3.6: 1 executed twice\n      3 late\n      2 ok"
        );
    }
}
