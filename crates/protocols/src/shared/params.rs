//! An epoch's parameters, read by name.

use quorate_core::Epoch;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Parameters that every protocol has, beside its own.
const OF_ALL: [&str; 6] = [
    "window",
    "outstanding",
    "queue",
    "batch_commands",
    "batch_bytes",
    "rtt_us",
];

/// The parameters of an epoch, and the names that its protocol alone knows.
pub(crate) struct Params<'a> {
    pub(crate) epoch: &'a Epoch,
    pub(crate) known: &'a [&'a str],
}

impl<'a> Params<'a> {
    /// The parameters of an epoch, if all their names mean something.
    pub(crate) fn of(epoch: &'a Epoch, known: &'a [&'a str]) -> Result<Params<'a>, String> {
        let params = Params { epoch, known };
        params.check_names()?;
        Ok(params)
    }

    /// How many members the epoch has, if a group can have so many.
    pub(crate) fn members(&self) -> Result<usize, String> {
        let (n, most) = (self.epoch.n(), Epoch::MEMBERS_MAX);
        match (1..=most).contains(&n) {
            true => Ok(n),
            false => Err(format!("{n} members: must be 1 to {most}")),
        }
    }

    /// Refuses names that mean nothing.
    pub(crate) fn check_names(&self) -> Result<(), String> {
        // What is above the log is no protocol's business.
        let is_known = |name: &str| {
            self.known.contains(&name)
                || OF_ALL.contains(&name)
                || Epoch::ABOVE_THE_LOG.contains(&name)
        };
        match self.epoch.params.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "unknown parameter {name}: {} knows {}",
                self.epoch.protocol,
                [self.known, &OF_ALL].concat().join(", ")
            )),
        }
    }

    /// What a parameter was set to.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.epoch.params.get(name).map(String::as_str)
    }

    fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let parsed = text.parse::<T>();
        parsed
            .map(Some)
            .map_err(|_| format!("{name} = {text}: must be {what}"))
    }

    /// A number within a range.
    pub(crate) fn number(
        &self,
        name: &str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let what = format!("a number from {} to {}", range.start(), range.end());
        let value = self.parsed(name, &what)?.unwrap_or(default);
        if range.contains(&value) {
            Ok(value)
        } else {
            Err(format!("{name} = {value}: must be {what}"))
        }
    }

    /// A yes or no.
    pub(crate) fn switch(&self, name: &str, default: bool) -> Result<bool, String> {
        Ok(self.parsed(name, "true or false")?.unwrap_or(default))
    }
}
