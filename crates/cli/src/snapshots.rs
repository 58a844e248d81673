//! Options about snapshots, for one replica and for all of `quorate up`.

use clap::Args;
use quorate_host::Limits;
use serde::{Deserialize, Serialize};

/// How often snapshots are taken, and how fast they travel.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct SnapshotOptions {
    /// Take a snapshot, and free the log before it, every so many slots, less often where it is long; 0 for never by
    /// number [default: 100000]
    #[arg(long, env = "QUORATE_SNAPSHOT_COUNT", value_name = "SLOTS")]
    snapshot_count: Option<u64>,

    /// Take one, too, when so many bytes were applied since the last, and four times as many as that one is long, from
    /// 1 GiB on as many; 0 for never by length [default: 134217728]
    #[arg(long, env = "QUORATE_SNAPSHOT_BYTES", value_name = "BYTES")]
    snapshot_bytes: Option<u64>,

    /// Bytes of a snapshot fetched from peers in a second, by a replica that was away for long
    /// [default: 67108864]
    #[arg(long, env = "QUORATE_SNAPSHOT_RATE", value_name = "BYTES")]
    snapshot_rate: Option<u64>,
}

impl SnapshotOptions {
    /// Fills in defaults.
    pub(crate) fn resolve(&self) -> Result<SnapshotSettings, String> {
        let otherwise = Limits::default();
        let rate = self.snapshot_rate.unwrap_or(otherwise.snapshot_rate);
        if rate < RATE_MIN {
            return Err(format!(
                "--snapshot-rate {rate} is less than {RATE_MIN}: a replica would never catch up"
            ));
        }
        Ok(SnapshotSettings {
            slots: self.snapshot_count.unwrap_or(otherwise.snapshot_slots),
            bytes: self.snapshot_bytes.unwrap_or(otherwise.snapshot_bytes),
            rate,
        })
    }

    /// The flags that say the same to a replica.
    pub(crate) fn flags(&self) -> impl Iterator<Item = String> {
        let given = [
            ("count", self.snapshot_count),
            ("bytes", self.snapshot_bytes),
            ("rate", self.snapshot_rate),
        ];
        (given.into_iter())
            .filter_map(|(name, value)| Some(format!("--snapshot-{name}={}", value?)))
    }
}

/// The options of snapshots, with defaults for those not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotSettings {
    slots: u64,
    bytes: u64,
    rate: u64,
}

impl SnapshotSettings {
    /// The limits with these settings in them.
    pub(crate) fn limits(self, limits: Limits) -> Limits {
        Limits {
            snapshot_slots: self.slots,
            snapshot_bytes: self.bytes,
            snapshot_rate: self.rate,
            ..limits
        }
    }
}

/// A state of a few hundred megabytes still arrives within minutes.
const RATE_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_passed_on_and_the_rest_has_defaults() {
        let options = SnapshotOptions {
            snapshot_count: Some(500),
            snapshot_rate: Some(2 << 20),
            ..SnapshotOptions::default()
        };
        let flags: Vec<_> = options.flags().collect();
        assert_eq!(flags, ["--snapshot-count=500", "--snapshot-rate=2097152"]);
        let limits = options.resolve().unwrap().limits(Limits::default());
        assert_eq!(
            (limits.snapshot_slots, limits.snapshot_rate),
            (500, 2 << 20)
        );
        let otherwise = Limits::default().snapshot_bytes;
        assert_eq!(limits.snapshot_bytes, otherwise);
    }

    #[test]
    fn a_rate_that_is_no_rate_is_refused() {
        let options = SnapshotOptions {
            snapshot_rate: Some(0),
            ..SnapshotOptions::default()
        };
        assert!(options.resolve().unwrap_err().contains("never catch up"));
    }
}
