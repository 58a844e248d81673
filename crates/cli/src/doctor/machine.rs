//! The machine: its clock, what its kernel allows a process, and how it treats connections and memory.

use super::finding::Finding;
use super::start::Known;
use crate::face::RedisStore;
use crate::serve::Settings;
use quorate_server::{ClockError, client_connections_max, raise_descriptor_limit};

/// The protocol that orders by clocks.
const BY_CLOCKS: &str = "nezha";
/// Clocks that may be further off make deadlines longer than the round trips that they are to save, in ns.
const CLOCK_ERROR_NS: u64 = 10_000_000;
/// Room for fewer connections than this is soon used up by what connects in pools.
const CONNECTIONS_AMPLE: usize = 1_000;
/// Connections that wait to be taken: with fewer, some are refused when all clients come back at once.
const BACKLOG_AMPLE: u64 = 1024;
/// Less memory than this is used up by a store that grows.
const MEMORY_AMPLE_KIB: u64 = 512 << 10;

/// Looks at everything.
pub(super) fn examine(settings: &Settings, known: &Known) -> Vec<Finding> {
    let connections =
        client_connections_max(raise_descriptor_limit(), settings.max_client_connections);
    let by_clocks = known.protocol == BY_CLOCKS;
    let has_server = known.store.is_some_and(RedisStore::has_servers);
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let pages = "/sys/kernel/mm/transparent_hugepage/enabled";
    let found = [
        Some(open_files(connections)),
        Some(clock(settings.clock.error(), by_clocks)),
        read("/proc/sys/net/core/somaxconn").and_then(|text| backlog(&text)),
        read("/proc/meminfo").and_then(|text| memory(&text)),
        read(pages).and_then(|text| huge_pages(&text, has_server)),
    ];
    found.into_iter().flatten().collect()
}

/// Whether there are descriptors for the connections of clients.
fn open_files(connections: Result<usize, String>) -> Finding {
    let kind = "open-files";
    match connections {
        Err(why) => Finding::fault(kind, why),
        Ok(count @ ..CONNECTIONS_AMPLE) => Finding::note(
            kind,
            format!("the limit of open files leaves room for {count} connections of clients"),
            "raise it: `ulimit -Hn` in a shell, LimitNOFILE= in a unit",
        ),
        Ok(count) => Finding::fine(kind, format!("room for {count} connections of clients")),
    }
}

/// Whether somebody keeps the clock in step.
fn clock(error: ClockError, by_clocks: bool) -> Finding {
    let kind = "clock";
    let remedy = "run a time daemon (chrony, ptp4l), or declare a bound with --clock";
    match (error.bound_ns, by_clocks) {
        (Some(bound_ns), true) if bound_ns > CLOCK_ERROR_NS => Finding::problem(
            kind,
            format!(
                "it may be {} ms off, which makes {BY_CLOCKS} slow",
                bound_ns / 1_000_000
            ),
            remedy,
        ),
        (Some(bound_ns), _) => Finding::fine(
            kind,
            format!(
                "at most {} us off, says {} source",
                bound_ns / 1_000,
                match error.source {
                    "declared" => "the declared",
                    _ => "the kernel's",
                }
            ),
        ),
        (None, true) => Finding::problem(
            kind,
            format!("nobody bounds how far it is off, which makes {BY_CLOCKS} slow"),
            remedy,
        ),
        (None, false) => Finding::note(
            kind,
            "nobody keeps it in step: times in logs, backups and certificates go by it",
            remedy,
        ),
    }
}

/// How many connections may wait to be taken.
fn backlog(text: &str) -> Option<Finding> {
    let count: u64 = text.trim().parse().ok()?;
    let text = format!("{count} connections may wait to be taken (net.core.somaxconn)");
    Some(match count >= BACKLOG_AMPLE {
        true => Finding::fine("backlog", text),
        false => Finding::note(
            "backlog",
            format!("{text}: more are refused when all clients come back at once"),
            "sysctl -w net.core.somaxconn=4096",
        ),
    })
}

/// What `/proc/meminfo` says is left.
fn memory(text: &str) -> Option<Finding> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let text = format!("{} MiB of memory are left", kib >> 10);
    Some(match kib >= MEMORY_AMPLE_KIB {
        true => Finding::fine("memory", text),
        false => Finding::note(
            "memory",
            format!("{text}, and a store keeps its keys in memory"),
            "end other programs, or take a machine with more",
        ),
    })
}

/// Whether the kernel hands out huge pages to whoever does not ask, which a server that forks pays for.
fn huge_pages(text: &str, has_server: bool) -> Option<Finding> {
    (has_server && text.contains("[always]")).then(|| {
        Finding::note(
            "huge-pages",
            "the kernel hands out huge pages unasked, and real servers of Redis stall when they save",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn descriptors_are_counted_in_connections() {
        assert_eq!(open_files(Ok(10_000)).verdict, Verdict::Fine);
        assert_eq!(open_files(Ok(128)).verdict, Verdict::Note);
        let refused = open_files(client_connections_max(1024, Some(600)));
        assert_eq!(refused.verdict, Verdict::Problem);
        assert!(refused.text.contains("1112"), "{}", refused.text);
    }

    #[test]
    fn a_clock_without_a_bound_is_a_problem_where_clocks_order() {
        let of = |bound_ns, by_clocks| {
            let error = ClockError {
                source: "kernel",
                bound_ns,
                estimated_ns: None,
            };
            clock(error, by_clocks).verdict
        };
        assert_eq!(of(Some(1_000_000), true), Verdict::Fine);
        assert_eq!(of(Some(20_000_000), true), Verdict::Problem);
        assert_eq!(of(Some(20_000_000), false), Verdict::Fine);
        assert_eq!(of(None, true), Verdict::Problem);
        assert_eq!(of(None, false), Verdict::Note);
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let verdict = |finding: Option<Finding>| finding.map(|one| one.verdict);
        assert_eq!(verdict(backlog("128\n")), Some(Verdict::Note));
        assert_eq!(verdict(backlog("4096\n")), Some(Verdict::Fine));
        let left = |kib: u64| {
            let text = format!("MemTotal: 9 kB\nMemAvailable:   {kib} kB\n");
            verdict(memory(&text))
        };
        assert_eq!(left(1 << 20), Some(Verdict::Fine));
        assert_eq!(left(1000), Some(Verdict::Note));
        let pages = "[always] madvise never\n";
        assert_eq!(verdict(huge_pages(pages, true)), Some(Verdict::Note));
        assert_eq!(huge_pages(pages, false), None);
        assert_eq!(huge_pages("always [madvise] never\n", true), None);
    }
}
