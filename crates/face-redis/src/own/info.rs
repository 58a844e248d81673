//! `INFO`: figures of this replica, in Redis's sections.

use super::connection::REDIS_VERSION;
use crate::limits::DATABASES;
use crate::server::Server;
use crate::session::{Session, Step};
use bytes::Bytes;
use quorate_redis_store::{Answer, Query};
use quorate_server::{Consistency, ProcessFigures, Status};
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

/// The sections there are, in their order.
const SECTIONS: [&str; 9] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "cluster",
    "keyspace",
];

/// The line with the address for operators, which `quorate status` looks for.
const ADMIN: &str = "quorate_admin";

impl Session {
    pub(super) async fn info(&mut self, args: &[Bytes]) -> Step {
        let asked: Vec<String> = args[1..]
            .iter()
            .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
            .collect();
        let is_all = asked.is_empty()
            || asked
                .iter()
                .any(|name| matches!(&name[..], "all" | "default" | "everything"));
        let status = match self.server.handle.status().await {
            Ok(status) => status,
            Err(failure) => return self.failed(failure, 1),
        };
        let mut text = String::new();
        for section in SECTIONS {
            if is_all || asked.iter().any(|name| name == section) {
                if !text.is_empty() {
                    text += "\r\n";
                }
                let mut title = section.to_owned();
                title[..1].make_ascii_uppercase();
                let title = if section == "cpu" {
                    "CPU".to_owned()
                } else {
                    title
                };
                let mut lines = Lines(format!("# {title}\r\n"));
                self.section(section, &status, &mut lines).await;
                text += &lines.0;
            }
        }
        self.out.verbatim(&text);
        Ok(())
    }

    async fn section(&mut self, section: &str, status: &Status, lines: &mut Lines) {
        let server = &self.server;
        let figures = ProcessFigures::now();
        match section {
            "server" => lines.server(server, status),
            "clients" => {
                let all = server.clients.all();
                let subscribers = all.iter().filter(|client| client.is_subscriber());
                lines.add("connected_clients", all.len());
                lines.add("maxclients", server.limits.connections_max);
                lines.add("blocked_clients", self.server.subscriptions.waiters.count());
                lines.add("pubsub_clients", subscribers.count());
            }
            "memory" => {
                lines.add("used_memory", figures.resident_bytes);
                lines.add("used_memory_rss", figures.resident_bytes);
                lines.add("maxmemory", 0);
                lines.add("maxmemory_policy", "noeviction");
            }
            "persistence" => lines.persistence(status),
            "stats" => lines.stats(server, status),
            "replication" => {
                // Any replica takes writes, and clients that look for one that does find it here.
                lines.add("role", "master");
                lines.add("connected_slaves", 0);
            }
            "cpu" => lines.add("used_cpu_total", format_args!("{:.6}", figures.cpu_seconds)),
            "cluster" => lines.add("cluster_enabled", 0),
            _ => self.keyspace(lines).await,
        }
    }

    async fn keyspace(&mut self, lines: &mut Lines) {
        let server = &self.server;
        if let Some(fed) = &server.fed {
            let sizes = fed.sizes(&server.handle).await.unwrap_or_default();
            for (keys, db) in sizes.into_iter().zip(0_u32..).filter(|(keys, _)| *keys > 0) {
                lines.add(
                    &format!("db{db}"),
                    format_args!("keys={keys},expires=0,avg_ttl=0"),
                );
            }
            return;
        }
        let found = server
            .read(Query::Keyspace, Consistency::Serializable)
            .await;
        let Ok(Answer::Keyspace(keyspace)) = found else {
            return;
        };
        let sizes = keyspace.databases.iter().zip(0..DATABASES);
        for (size, db) in sizes.filter(|(size, _)| size.keys > 0) {
            let (keys, expires) = (size.keys, size.expires);
            let value = format_args!("keys={keys},expires={expires},avg_ttl=0");
            lines.0 += &format!("db{db}:{value}\r\n");
        }
    }
}

/// A section under way.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl Display) {
        // Strings take everything.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn server(&mut self, server: &Server, status: &Status) {
        let uptime_s = server.began.elapsed().as_secs();
        self.add("redis_version", REDIS_VERSION);
        self.add("redis_mode", "standalone");
        self.add("quorate_version", env!("CARGO_PKG_VERSION"));
        self.add("quorate_protocol", &status.protocol);
        self.add("quorate_replica", status.me);
        match &server.fed {
            None => self.add("quorate_store", "embedded"),
            Some(fed) => {
                self.add("quorate_store", "commands");
                self.add("quorate_server", &fed.program);
            }
        }
        if let Some(admin) = server.admin {
            self.add(ADMIN, admin);
        }
        self.add("os", std::env::consts::OS);
        self.add("arch_bits", usize::BITS);
        self.add("process_id", std::process::id());
        let (incarnation, replica) = (status.incarnation.0, status.me.0);
        self.add("run_id", format_args!("{incarnation:032x}{replica:08x}"));
        self.add("tcp_port", server.port);
        self.add("uptime_in_seconds", uptime_s);
        self.add("uptime_in_days", uptime_s / 86_400);
    }

    fn persistence(&mut self, status: &Status) {
        for name in [
            "loading",
            "async_loading",
            "rdb_bgsave_in_progress",
            "aof_enabled",
        ] {
            self.add(name, 0);
        }
        self.add("rdb_last_bgsave_status", "ok");
        self.add("aof_last_write_status", "ok");
        let durability = format!("{:?}", status.durability).to_ascii_lowercase();
        self.add("quorate_durability", durability);
    }

    fn stats(&mut self, server: &Server, status: &Status) {
        let counters = &server.counters;
        for (name, counter) in [
            ("total_connections_received", &counters.connections),
            ("total_commands_processed", &counters.commands),
            ("rejected_connections", &counters.refused),
            ("total_error_replies", &counters.errors),
        ] {
            self.add(name, counter.load(Relaxed));
        }
        self.add("pubsub_channels", server.subscriptions.channel_count());
        self.add("pubsub_patterns", server.subscriptions.patterns());
        self.add("quorate_slots_applied", status.applied);
    }
}
