//! What a run found: one JSON object for programs, a table for people.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::latency::{Latency, LatencySummary};
use crate::load::{Gaps, Verdict};
use quorate_tooling::process::Usage;
use quorate_tooling::scrape::Counters;
use quorate_tooling::units::{show_count, show_ns};

/// Everything one run measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// What ran: `put`, `get`, `mixed` or the floor and its settings.
    pub operation: String,
    /// Clients, each with one operation outstanding.
    pub clients: u32,
    /// Connections they shared.
    pub connections: u32,
    /// Bytes per value.
    pub value_bytes: usize,
    /// The seed the keys and values were derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Operations per second asked for; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Operations that fell due at that rate and that no client was free to send.
    pub unsent: u64,
    /// From the end of the warm-up to the last completion.
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Successful operations per second.
    pub per_second: f64,
    /// Latency of the successful operations.
    pub latency: LatencySummary,
    /// Of the reads alone, in a mixed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<LatencySummary>,
    /// Of the writes alone, in a mixed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<LatencySummary>,
    /// Reads that found no value.
    pub misses: u64,
    /// Failed operations and connection attempts, by text.
    pub errors: BTreeMap<String, u64>,
    /// Successes and failures of each endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointReport>,
    /// CPU time of the load generator.
    pub generator_cpu_us_per_op: f64,
    /// What the operations cost the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerCosts>,
    /// The longest silences, with `--gap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
    /// What reading everything back found, with `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verdict>,
}

/// What one endpoint's clients saw.
#[derive(Debug, Clone, Serialize)]
pub struct EndpointReport {
    /// The endpoint's URL.
    pub url: String,
    /// Operations that succeeded there.
    pub operations: u64,
    /// Operations and connection attempts that failed there.
    pub errors: u64,
}

/// What an operation costs the servers, all replicas together.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ServerCosts {
    /// CPU time, in us.
    pub cpu_us_per_op: f64,
    /// Voluntary context switches of all threads.
    pub wakeups_per_op: f64,
    /// Bytes sent to storage.
    pub bytes_written_per_op: f64,
    /// System calls of all threads, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_calls_per_op: Option<f64>,
    /// Commands a replica applied per flush of its log: how well batching works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_sync: Option<f64>,
    /// Log flushes of a replica per command. With one client this bounds the flushes in sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syncs_per_command: Option<f64>,
    /// Flushes of anything but the log per command and replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_syncs_per_command: Option<f64>,
    /// Turns of a replica's main loop per command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_per_command: Option<f64>,
    /// Entries answered on the fast path, of all, where they are ordered by deadlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_share: Option<f64>,
    /// How long a replica held a request for its deadline, in the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_us: Option<f64>,
}

impl ServerCosts {
    /// Costs of servers that used so much while they served so many operations.
    pub fn from_usage(usage: Usage, operations: u64) -> ServerCosts {
        let per_op = |count: u64| count as f64 / operations.max(1) as f64;
        ServerCosts {
            cpu_us_per_op: per_op(usage.cpu_us),
            wakeups_per_op: per_op(usage.wakeups),
            bytes_written_per_op: per_op(usage.bytes_written),
            ..ServerCosts::default()
        }
    }

    /// `syncs` and `applied` are sums over the replicas, so their ratio is of one replica.
    pub fn set_syncs(&mut self, syncs: f64, applied: f64) {
        self.commands_per_sync = ratio(applied, syncs);
        self.syncs_per_command = ratio(syncs, applied);
    }

    /// Adds what the servers counted themselves.
    pub fn set_counters(&mut self, counters: Counters) {
        self.set_syncs(counters.log_syncs, counters.commands_applied);
        self.other_syncs_per_command = ratio(counters.other_syncs, counters.commands_applied);
        self.turns_per_command = ratio(counters.turns, counters.commands_applied);
        self.fast_share = counters.deadlines.fast_share();
        self.held_us = counters.deadlines.held_us();
    }
}

impl Report {
    /// A report of this operation, without any figure yet.
    pub fn new(operation: &str) -> Report {
        Report {
            operation: operation.to_owned(),
            ..Report::default()
        }
    }

    /// Sets the count of operations, their rate and their latencies.
    pub fn set_operations(&mut self, latency: &Latency, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
        self.latency = latency.summary();
        self.operations = self.latency.count;
        self.per_second = self.operations as f64 / self.seconds.max(f64::MIN_POSITIVE);
    }

    /// Whether nothing at all succeeded, or an acknowledged write was not kept.
    pub fn failed(&self) -> bool {
        self.operations == 0 || self.verify.as_ref().is_some_and(Verdict::failed)
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut table = String::new();
        self.write_table(&mut table)
            .expect("a String takes all that is written to it");
        table
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{}: {} clients on {} connections, {} B values, {:.2} s",
            self.operation, self.clients, self.connections, self.value_bytes, self.seconds
        )?;
        let rate = self.rate.map_or(String::new(), |rate| {
            format!(" of {} asked", show_count(rate))
        });
        writeln!(out, "  operations   {}", show_count(self.operations as f64))?;
        writeln!(out, "  per second   {}{rate}", show_count(self.per_second))?;
        write_latency(out, "latency", &self.latency)?;
        if let (Some(reads), Some(writes)) = (&self.reads, &self.writes) {
            write_latency(out, "reads", reads)?;
            write_latency(out, "writes", writes)?;
        }
        if self.unsent > 0 {
            let unsent = show_count(self.unsent as f64);
            writeln!(
                out,
                "  unsent       {unsent} fell due with every client busy"
            )?;
        }
        if self.misses > 0 {
            writeln!(
                out,
                "  no value     {} reads",
                show_count(self.misses as f64)
            )?;
        }
        writeln!(
            out,
            "  generator    {:.1} us CPU per operation",
            self.generator_cpu_us_per_op
        )?;
        if let Some(servers) = &self.servers {
            write_servers(out, servers)?;
        }
        if self.endpoints.len() > 1 {
            self.write_endpoints(out)?;
        }
        for (text, count) in &self.errors {
            writeln!(out, "  error        {} x {text}", show_count(*count as f64))?;
        }
        if let Some(gaps) = &self.gaps {
            write!(out, "{gaps}")?;
        }
        if let Some(verdict) = &self.verify {
            write!(out, "{verdict}")?;
        }
        Ok(())
    }

    fn write_endpoints(&self, out: &mut String) -> std::fmt::Result {
        for endpoint in &self.endpoints {
            let (operations, errors) = (endpoint.operations as f64, endpoint.errors as f64);
            write!(
                out,
                "  endpoint     {}: {} operations",
                endpoint.url,
                show_count(operations)
            )?;
            writeln!(out, ", {} errors", show_count(errors))?;
        }
        Ok(())
    }
}

fn write_latency(out: &mut String, name: &str, latency: &LatencySummary) -> std::fmt::Result {
    writeln!(
        out,
        "  {name:<12} p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        show_ns(latency.p50_ns),
        show_ns(latency.p90_ns),
        show_ns(latency.p99_ns),
        show_ns(latency.p999_ns),
        show_ns(latency.max_ns),
    )
}

fn write_servers(out: &mut String, servers: &ServerCosts) -> std::fmt::Result {
    writeln!(
        out,
        "  servers      {:.1} us CPU, {:.2} wake-ups, {} bytes written per operation",
        servers.cpu_us_per_op,
        servers.wakeups_per_op,
        show_count(servers.bytes_written_per_op),
    )?;
    if let (Some(commands), Some(syncs)) = (servers.commands_per_sync, servers.syncs_per_command) {
        write!(out, "  flushes      {commands:.2} commands per log flush")?;
        write!(out, ", {syncs:.3} log flushes per command and replica")?;
        if let Some(other) = servers.other_syncs_per_command.filter(|&other| other > 0.0) {
            write!(out, ", {other:.3} others")?;
        }
        writeln!(out)?;
    }
    if let Some(turns) = servers.turns_per_command.filter(|&turns| turns > 0.0) {
        writeln!(out, "  turns        {turns:.3} per command and replica")?;
    }
    if let (Some(fast), Some(held_us)) = (servers.fast_share, servers.held_us) {
        write!(
            out,
            "  deadlines    {:.1} % of entries answered on the fast path",
            100.0 * fast
        )?;
        writeln!(out, ", requests held for {held_us:.0} us")?;
    }
    Ok(())
}

fn ratio(of: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| of / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_sums_is_that_of_one_replica() {
        let mut costs = ServerCosts::default();
        // Three replicas applied the same 100 commands with 10 flushes each.
        costs.set_syncs(30.0, 300.0);
        assert_eq!(costs.commands_per_sync, Some(10.0));
        assert_eq!(costs.syncs_per_command, Some(0.1));
        costs.set_syncs(0.0, 300.0);
        assert_eq!(costs.commands_per_sync, None);
    }

    #[test]
    fn the_table_names_rates_percentiles_and_errors() {
        let mut latency = Latency::new();
        (0..1000).for_each(|_| latency.record(1_000_000));
        let mut report = Report::new("put");
        report.set_operations(&latency, Duration::from_secs(2));
        report.errors.insert("connection refused".to_owned(), 3);
        let table = report.table();
        assert!(table.contains("per second   500\n"), "{table}");
        assert!(table.contains("p99.9 1.00 ms"), "{table}");
        assert!(table.contains("3 x connection refused"), "{table}");
    }
}
