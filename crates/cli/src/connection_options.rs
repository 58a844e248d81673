//! Options about connections of clients, and what is served on them.

use crate::compaction::duration;
use crate::web::WebOptions;
use clap::Args;
use quorate_face_etcd::{Limits, WebAccess};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What clients may do with a connection, in etcd's words.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ConnectionOptions {
    /// Most requests at a time on one connection of a client [default: 65536, which is the most as well]
    #[arg(long, env = "QUORATE_MAX_CONCURRENT_STREAMS", value_name = "COUNT")]
    max_concurrent_streams: Option<u32>,

    /// How long a connection of a client may be silent before it is asked for a sign of life; 0 for never
    /// [default: 2h]
    #[arg(long, env = "QUORATE_GRPC_KEEPALIVE_INTERVAL", value_name = "TIME")]
    grpc_keepalive_interval: Option<String>,

    /// How long that sign may take before the connection is closed; 0 for ever [default: 20s]
    #[arg(long, env = "QUORATE_GRPC_KEEPALIVE_TIMEOUT", value_name = "TIME")]
    grpc_keepalive_timeout: Option<String>,

    #[command(flatten)]
    #[serde(flatten)]
    web: WebOptions,
}

/// Longer than any process runs: timers take no more.
const FOR_EVER: Duration = Duration::from_secs(3600 * 24 * 365 * 10);

impl ConnectionOptions {
    /// Fills in defaults.
    pub(crate) fn resolve(&self) -> Result<ConnectionSettings, String> {
        let otherwise = Limits::default();
        let streams = self.max_concurrent_streams.unwrap_or(otherwise.streams_max);
        if streams == 0 {
            return Err("--max-concurrent-streams 0: no request could be made".to_owned());
        }
        let time = |flag: &str, text: &Option<String>, otherwise: Duration| match text.as_deref() {
            None => Ok(otherwise),
            Some(text) => time(text)
                .ok_or_else(|| format!("--{flag} {text:?} is no time such as 20s or 1m30s")),
        };
        let (interval, timeout) = (&self.grpc_keepalive_interval, &self.grpc_keepalive_timeout);
        let (of_interval, of_timeout) = ("grpc-keepalive-interval", "grpc-keepalive-timeout");
        Ok(ConnectionSettings {
            streams_max: streams.min(otherwise.streams_max),
            keepalive_interval: time(of_interval, interval, otherwise.keepalive_interval)?,
            keepalive_timeout: time(of_timeout, timeout, otherwise.keepalive_timeout)?,
            web: self.web.resolve()?,
        })
    }
}

fn time(text: &str) -> Option<Duration> {
    let time = match text {
        "0" => Duration::ZERO,
        text => duration(text)?,
    };
    let is_never = time.is_zero();
    Some(if is_never {
        FOR_EVER
    } else {
        time.min(FOR_EVER)
    })
}

/// The options of connections, with defaults for those not given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionSettings {
    streams_max: u32,
    keepalive_interval: Duration,
    keepalive_timeout: Duration,
    web: WebAccess,
}

impl ConnectionSettings {
    /// The limits with these settings in them.
    pub(crate) fn limits(self, limits: Limits) -> Limits {
        Limits {
            streams_max: self.streams_max,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
            web: self.web,
            ..limits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(streams: Option<u32>, interval: &str, timeout: &str) -> ConnectionOptions {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ConnectionOptions {
            max_concurrent_streams: streams,
            grpc_keepalive_interval: given(interval),
            grpc_keepalive_timeout: given(timeout),
            web: WebOptions::default(),
        }
    }

    #[test]
    fn what_was_given_counts_and_nothing_is_unbounded() {
        let settings = options(None, "", "").resolve().unwrap();
        assert_eq!(settings.limits(Limits::default()), Limits::default());
        let settings = options(Some(u32::MAX), "0", "1m").resolve().unwrap();
        let limits = settings.limits(Limits::default());
        assert_eq!(limits.streams_max, Limits::default().streams_max);
        assert_eq!(limits.keepalive_interval, FOR_EVER);
        assert_eq!(limits.keepalive_timeout, Duration::from_secs(60));
        assert_eq!(options(Some(7), "", "").resolve().unwrap().streams_max, 7);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (options, why) in [
            (options(Some(0), "", ""), "--max-concurrent-streams 0"),
            (
                options(None, "soon", ""),
                "--grpc-keepalive-interval \"soon\" is no time",
            ),
            (
                options(None, "", "5"),
                "--grpc-keepalive-timeout \"5\" is no time",
            ),
        ] {
            let said = options.resolve().unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }
}
