//! `CONFIG`: the settings that clients look for.

use super::subcommand;
use crate::limits::DATABASES;
use crate::session::Session;
use bytes::Bytes;
use quorate_redis_store::matches;
use std::sync::atomic::Ordering::Relaxed;

impl Session {
    pub(super) fn config(&mut self, args: &[Bytes]) {
        match (&subcommand(args)[..], &args[2..]) {
            ("get", patterns @ [_, ..]) => {
                let is_wanted = |name: &str| {
                    let mut patterns = patterns.iter();
                    patterns.any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
                };
                let settings = self.settings();
                let wanted: Vec<_> = settings.iter().filter(|(name, _)| is_wanted(name)).collect();
                self.out.map(wanted.len());
                for (name, value) in wanted {
                    self.out.bulk(name.as_bytes());
                    self.out.bulk(value.as_bytes());
                }
            }
            ("set", [_, _, ..]) => self.error(
                "ERR CONFIG SET is refused: settings are options of `quorate serve`, equal on all replicas",
            ),
            ("rewrite", []) => self.error("ERR The server is running without a config file"),
            ("resetstat", []) => {
                let counters = &self.server.counters;
                let all = [&counters.connections, &counters.refused, &counters.commands, &counters.errors];
                all.iter().for_each(|counter| counter.store(0, Relaxed));
                self.out.ok();
            }
            ("get" | "set" | "rewrite" | "resetstat", _) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
    }

    /// Settings by name, as Redis would say them of what this replica does.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let limits = &self.server.limits;
        let texts = [
            // Every write is in the log of a majority before it is answered; there are no files of Redis.
            ("appendonly", "no"),
            ("appendfsync", "always"),
            ("save", ""),
            ("cluster-enabled", "no"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("notify-keyspace-events", ""),
            ("timeout", "0"),
            ("tcp-keepalive", "300"),
            ("lua-time-limit", "5000"),
            ("io-threads", "1"),
            ("lazyfree-lazy-user-del", "no"),
            ("slowlog-log-slower-than", "-1"),
            ("slowlog-max-len", "0"),
            ("min-replicas-to-write", "0"),
        ];
        let numbers = [
            ("databases", DATABASES as usize),
            ("maxclients", limits.connections_max),
            ("port", usize::from(self.server.port)),
            ("proto-max-bulk-len", limits.request_bytes_max),
        ];
        let texts = texts.map(|(name, value)| (name, value.to_owned()));
        let numbers = numbers.map(|(name, value)| (name, value.to_string()));
        texts.into_iter().chain(numbers).collect()
    }
}
