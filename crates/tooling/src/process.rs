//! What processes cost: CPU time, wake-ups and bytes written, read from `/proc`.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

/// Counters of a set of processes, summed, since each began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// User and system CPU time of all threads, ended ones included.
    pub cpu_us: u64,
    /// Voluntary context switches of the living threads: how often one slept and was woken.
    pub wakeups: u64,
    /// Bytes the processes caused to be sent to storage.
    pub bytes_written: u64,
}

impl Usage {
    /// Reads the counters of `pids`; a process that has ended counts as zero.
    ///
    /// A killed replica must not end the measurement of the others.
    pub fn of(pids: &[u32]) -> Usage {
        pids.iter()
            .filter_map(|&pid| Usage::of_one(pid).ok())
            .fold(Usage::default(), Usage::plus)
    }

    /// What was used between `earlier` and this reading.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_us: self.cpu_us.saturating_sub(earlier.cpu_us),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
        }
    }

    fn of_one(pid: u32) -> io::Result<Usage> {
        Ok(Usage {
            cpu_us: cpu_us(&fs::read_to_string(format!("/proc/{pid}/stat"))?),
            wakeups: wakeups(pid)?,
            bytes_written: fs::read_to_string(format!("/proc/{pid}/io"))
                .map_or(0, |io| labelled(&io, "write_bytes:")),
        })
    }

    fn plus(self, other: Usage) -> Usage {
        Usage {
            cpu_us: self.cpu_us + other.cpu_us,
            wakeups: self.wakeups + other.wakeups,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }
}

/// The largest memory in RAM among these processes, in bytes: of a cluster, its largest replica.
pub fn rss_bytes_max(pids: &[u32]) -> u64 {
    resident(pids).max().unwrap_or(0)
}

/// Memory of `pids` in RAM now, summed, in bytes; an ended process has none.
pub fn resident_bytes(pids: &[u32]) -> u64 {
    resident(pids).sum()
}

fn resident(pids: &[u32]) -> impl Iterator<Item = u64> {
    let status = |pid| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    let statuses = pids.iter().filter_map(status);
    statuses.map(|status| labelled_kib(&status, "VmRSS:") << 10)
}

/// How many files a process has open; 0 if it has ended.
pub fn descriptors(pid: u32) -> u64 {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.map_or(0, |open| open.count() as u64)
}

/// The most memory a process ever had in RAM, in bytes; 0 if it has ended.
pub fn rss_bytes_peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(0, |status| labelled_kib(&status, "VmHWM:") << 10)
}

/// A process and everything it started, found by walking parents in `/proc`.
pub fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = running()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, up)| *up == member)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    family
}

/// Whether the command line of a process names `path`: ids are reused, so an id alone does not
/// say that a process is the one that had it.
pub fn mentions(pid: u32, path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.windows(path.len()).any(|window| window == path))
}

/// Whether a signal has stopped a process.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| fields_after_name(&stat).next() == Some("T"))
}

fn running() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    fields_after_name(&stat).nth(1)?.parse().ok()
}

fn cpu_us(stat: &str) -> u64 {
    let ticks: u64 = fields_after_name(stat)
        .skip(UTIME_FIELD)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks * 1_000_000 / rustix::param::clock_ticks_per_second()
}

/// The fields from the state on. The name before them may hold spaces, hence the last bracket.
fn fields_after_name(stat: &str) -> impl Iterator<Item = &str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_ascii_whitespace()
}

fn wakeups(pid: u32) -> io::Result<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let statuses =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    Ok(statuses
        .map(|status| labelled(&status, "voluntary_ctxt_switches:"))
        .sum())
}

fn labelled(text: &str, label: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(label));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// A value in KiB, its unit dropped.
fn labelled_kib(text: &str, label: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(label));
    value
        .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Place of `utime` among the fields after the name; `stime` follows it.
const UTIME_FIELD: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_brackets_and_spaces() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 9 0 0 0 250 150 0 0 20 0";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(cpu_us(stat), 400 * 1_000_000 / ticks);
    }

    #[test]
    fn a_voluntary_switch_is_not_confused_with_an_involuntary_one() {
        let status = "nonvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t4\n";
        assert_eq!(labelled(status, "voluntary_ctxt_switches:"), 4);
    }

    #[test]
    fn a_process_is_its_own_descendant_and_an_ended_one_costs_nothing() {
        let me = std::process::id();
        assert_eq!(descendants(me)[0], me);
        assert_eq!(Usage::of(&[u32::MAX]), Usage::default());
        assert_eq!(resident_bytes(&[u32::MAX]), 0);
        assert!(resident_bytes(&[me]) > 1 << 20);
        assert!(rss_bytes_peak(me) > 1 << 20);
    }
}
