//! Options about history that is forgotten by itself.

use clap::Args;
use quorate_face_etcd::Retention;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much history is kept, in etcd's words.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct CompactionOptions {
    /// What --auto-compaction-retention counts: time (periodic) or revisions (revision) [default: periodic]
    #[arg(
        long,
        env = "QUORATE_AUTO_COMPACTION_MODE",
        value_name = "periodic|revision"
    )]
    auto_compaction_mode: Option<String>,

    /// How much history is kept; what is older is compacted by itself. A number of hours or a time such as 10m or 1h30m
    /// with periodic, a number of revisions with revision; set it on all replicas [default: 0, everything]
    #[arg(
        long,
        env = "QUORATE_AUTO_COMPACTION_RETENTION",
        value_name = "RETENTION"
    )]
    auto_compaction_retention: Option<String>,
}

impl CompactionOptions {
    /// What is kept; `None` for everything.
    pub(crate) fn resolve(&self) -> Result<Option<Retention>, String> {
        let text = self.auto_compaction_retention.as_deref().unwrap_or("0");
        let mode = self.auto_compaction_mode.as_deref().unwrap_or("periodic");
        let number = text.parse::<u32>().ok();
        let wrong = |what: &str| format!("--auto-compaction-retention {text:?}: not {what}");
        let retention = match mode {
            "periodic" => {
                let hours = number.map(|hours| Duration::from_secs(u64::from(hours) * 3600));
                let age = hours.or_else(|| duration(text));
                let what = "a number of hours, nor a time such as 10m or 1h30m";
                Retention::Age(age.ok_or_else(|| wrong(what))?)
            }
            "revision" => {
                let count = number.ok_or_else(|| wrong("a number of revisions"))?;
                Retention::Revisions(i64::from(count))
            }
            other => {
                return Err(format!(
                    "--auto-compaction-mode {other:?} is neither periodic nor revision"
                ));
            }
        };
        let is_all = matches!(
            retention,
            Retention::Age(Duration::ZERO) | Retention::Revisions(0)
        );
        Ok((!is_all).then_some(retention))
    }
}

/// A time in Go's notation, such as `1h30m` or `1.5h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_number(c))?;
        let number: f64 = rest[..end].parse().ok()?;
        let behind = &rest[end..];
        let end = behind.find(is_number).unwrap_or(behind.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &behind[..end])?;
        seconds += number * unit;
        rest = &behind[end..];
    }
    let is_time = !text.is_empty();
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| is_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(mode: Option<&str>, retention: Option<&str>) -> Result<Option<Retention>, String> {
        let options = CompactionOptions {
            auto_compaction_mode: mode.map(str::to_owned),
            auto_compaction_retention: retention.map(str::to_owned),
        };
        options.resolve()
    }

    #[test]
    fn retentions_are_what_etcd_takes_them_for() {
        let minutes = |count: u64| Some(Retention::Age(Duration::from_secs(60 * count)));
        let (periodic, revision) = (Some("periodic"), Some("revision"));
        for (mode, retention, expected) in [
            (None, None, None),
            (None, Some("0"), None),
            (periodic, Some("0s"), None),
            (revision, Some("0"), None),
            (None, Some("5"), minutes(300)),
            (periodic, Some("10m"), minutes(10)),
            (periodic, Some("1h30m"), minutes(90)),
            (periodic, Some("1.5h"), minutes(90)),
            (periodic, Some("60000ms"), minutes(1)),
            (revision, Some("1000"), Some(Retention::Revisions(1000))),
        ] {
            let found = resolve(mode, retention);
            assert_eq!(found, Ok(expected), "{mode:?} {retention:?}");
        }
    }

    #[test]
    fn what_is_none_is_named() {
        for (mode, retention, why) in [
            ("hourly", "1", "is neither periodic nor revision"),
            ("periodic", "soon", "not a number of hours, nor a time"),
            ("periodic", "10", ""),
            ("periodic", "-1h", "not a number of hours, nor a time"),
            ("periodic", "1h2", "not a number of hours, nor a time"),
            ("periodic", "1 h", "not a number of hours, nor a time"),
            ("periodic", "", "not a number of hours, nor a time"),
            ("revision", "10m", "not a number of revisions"),
        ] {
            let said = resolve(Some(mode), Some(retention))
                .err()
                .unwrap_or_default();
            assert!(
                said.contains(why) && said.is_empty() == why.is_empty(),
                "{said}"
            );
        }
    }
}
