//! Options that only the etcd face has, under etcd's names.

use crate::compaction::{CompactionOptions, duration};
use clap::Args;
use quorate_face_etcd::{Limits, Retention};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the etcd face lets in and tells, in etcd's words.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct EtcdOptions {
    /// Bytes that this replica's versions of all keys may come to; beyond, alarm NOSPACE is raised [default: 0, as many
    /// as the disk has room for]
    #[arg(
        long,
        env = "QUORATE_QUOTA_BACKEND_BYTES",
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    quota_backend_bytes: Option<i64>,

    /// How often a watch that asked for it is told the progress when nothing happens, such as 5s [default: 10m]
    #[arg(
        long,
        env = "QUORATE_WATCH_PROGRESS_NOTIFY_INTERVAL",
        value_name = "TIME"
    )]
    watch_progress_notify_interval: Option<String>,

    /// Whether changes of members that etcd refuses are refused [default: true]
    #[arg(
        long,
        env = "QUORATE_STRICT_RECONFIG_CHECK",
        value_name = "true|false",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    strict_reconfig_check: Option<bool>,

    #[command(flatten)]
    #[serde(flatten)]
    compaction: CompactionOptions,
}

/// Settings that only the etcd face has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EtcdSettings {
    /// How large the store may become; `None` for as large as the disk lets it.
    pub(crate) quota_bytes: Option<u64>,
    /// How often watches are told the progress.
    pub(crate) progress_interval: Duration,
    /// Whether etcd's rules for changes of members hold.
    pub(crate) strict_reconfig_check: bool,
    /// How much history is kept; `None` for everything.
    pub(crate) retention: Option<Retention>,
}

impl EtcdSettings {
    /// The usual limits with these settings in them.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            retention: self.retention,
            quota_bytes: self.quota_bytes,
            watch_progress_interval: self.progress_interval,
            strict_reconfig_check: self.strict_reconfig_check,
            ..Limits::default()
        }
    }
}

impl EtcdOptions {
    /// The settings that these options mean.
    pub(crate) fn resolve(&self) -> Result<EtcdSettings, String> {
        let defaults = Limits::default();
        // etcd takes a negative number for no quota.
        let quota_bytes = u64::try_from(self.quota_backend_bytes.unwrap_or(0));
        let interval = match self.watch_progress_notify_interval.as_deref() {
            // As in etcd, no time means the usual one.
            None | Some("0" | "0s") => defaults.watch_progress_interval,
            Some(text) => duration(text)
                .filter(|interval| *interval >= PROGRESS_INTERVAL_MIN)
                .ok_or_else(|| {
                    format!(
                        "--watch-progress-notify-interval {text:?}: not a time such as 5s or 10m, of 100ms at least"
                    )
                })?,
        };
        Ok(EtcdSettings {
            quota_bytes: quota_bytes.ok().filter(|bytes| *bytes > 0),
            progress_interval: interval,
            strict_reconfig_check: self
                .strict_reconfig_check
                .unwrap_or(defaults.strict_reconfig_check),
            retention: self.compaction.resolve()?,
        })
    }
}

/// Watches are not told more often than that: each of them is looked at.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(quota: i64, interval: &str) -> Result<EtcdSettings, String> {
        let options = EtcdOptions {
            quota_backend_bytes: Some(quota),
            watch_progress_notify_interval: Some(interval.to_owned()),
            ..EtcdOptions::default()
        };
        options.resolve()
    }

    #[test]
    fn quota_and_interval_are_written_as_in_etcd() {
        for (quota, quota_bytes) in [(0, None), (-1, None), (4096, Some(4096))] {
            let settings = resolve(quota, "5s").expect("they are right");
            let progress_interval = Duration::from_secs(5);
            let expected = EtcdSettings {
                quota_bytes,
                progress_interval,
                strict_reconfig_check: true,
                retention: None,
            };
            assert_eq!(settings, expected);
        }
        for wrong in ["", "5", "1ms", "-1s", "soon"] {
            let why = resolve(0, wrong).expect_err("it is wrong");
            assert!(why.contains(&format!("{wrong:?}")), "{why}");
        }
    }
}
