//! What processing costs: measured by the bench of the protocols, kept in a small file.

use std::path::Path;

/// Costs of a replica's protocol thread, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cost {
    /// A message that is received.
    pub(super) message_ns: u64,
    /// A proposal in it, beyond that.
    pub(super) proposal_ns: u64,
    /// A message that is said, to however many.
    pub(super) send_ns: u64,
}

/// Where the costs are from unless told.
pub(super) const DEFAULT_NAME: &str = "docs/results/chora-cost.toml";
const DEFAULT: &str = include_str!("../../../../../docs/results/chora-cost.toml");

impl Cost {
    /// # Errors
    /// Says what is wrong with the file.
    pub(super) fn read(path: Option<&Path>) -> Result<Cost, String> {
        let Some(path) = path else {
            return Cost::parse(DEFAULT);
        };
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let cost = text.and_then(|text| Cost::parse(&text));
        cost.map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Cost, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
        let number = |name: &str| {
            let value = table.get(name).and_then(toml::Value::as_integer);
            let value = value.and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| format!("{name}: a number of ns is wanted"))
        };
        Ok(Cost {
            message_ns: number("message_ns")?,
            proposal_ns: number("proposal_ns")?,
            send_ns: number("send_ns")?,
        })
    }

    /// Of somebody who takes so many times as long for everything.
    pub(super) fn times(self, times: u64) -> Cost {
        Cost {
            message_ns: self.message_ns * times,
            proposal_ns: self.proposal_ns * times,
            send_ns: self.send_ns * times,
        }
    }

    /// `d_proc`: what a pulse with a proposal takes its receivers.
    pub(super) fn pulse_ns(&self) -> u64 {
        self.message_ns + self.proposal_ns
    }

    /// What a full round takes each of so many replicas.
    pub(super) fn round_ns(&self, replicas: usize) -> u64 {
        (replicas as u64 - 1) * self.pulse_ns() + self.send_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_number_is_refused() {
        let cost = Cost::read(None).unwrap();
        assert_eq!(cost.round_ns(3), 2 * cost.pulse_ns() + cost.send_ns);
        let why = Cost::parse("message_ns = 1\nproposal_ns = -2\nsend_ns = 3\n").unwrap_err();
        assert!(why.starts_with("proposal_ns"), "{why}");
    }
}
