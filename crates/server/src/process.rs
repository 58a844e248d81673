//! What the system says of this process.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Ticks of the system in a second, as Linux shows times to programs.
const TICKS_PER_S: f64 = 100.0;
/// The field of `/proc/self/stat` behind the name that has the time of the start, counted from 0.
const START_FIELD: usize = 19;

/// Figures of this process; 0 where the system does not tell.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProcessFigures {
    /// Memory that is in RAM, in bytes.
    pub resident_bytes: u64,
    /// Memory that is mapped, in bytes.
    pub virtual_bytes: u64,
    /// Time of all CPUs that was used, in seconds.
    pub cpu_seconds: f64,
    /// File descriptors that are open.
    pub descriptors: u64,
    /// File descriptors that may be open.
    pub descriptors_max: u64,
    /// When the process began, in seconds since 1970.
    pub began_s: f64,
}

impl ProcessFigures {
    /// The figures as they are now.
    #[must_use]
    pub fn now() -> ProcessFigures {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        ProcessFigures {
            resident_bytes: kib(&status, "VmRSS:") << 10,
            virtual_bytes: kib(&status, "VmSize:") << 10,
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64,
            descriptors_max: getrlimit(Resource::Nofile).current.unwrap_or(0),
            began_s: began_s(&read("/proc/self/stat"), &read("/proc/stat")).unwrap_or(0.0),
        }
    }
}

/// The times that all CPUs of the machine took together since it started; 0 where the system does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MachineTimes {
    /// The time in ms that they worked, for whatever process, or were taken by a hypervisor.
    pub(crate) busy_ms: u64,
    /// The time in ms that they worked or were idle.
    pub(crate) total_ms: u64,
}

impl MachineTimes {
    /// The times as they are now.
    pub(crate) fn now() -> MachineTimes {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        MachineTimes::parse(&text).unwrap_or_default()
    }

    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Option<MachineTimes> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = fields
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect();
        let ticks = ticks?;
        let total: u64 = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let ms = |ticks: u64| (ticks as f64 * 1e3 / TICKS_PER_S) as u64;
        Some(MachineTimes {
            busy_ms: ms(total.saturating_sub(idle)),
            total_ms: ms(total),
        })
    }
}

/// The number on a line of `/proc/self/status`.
pub(crate) fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// When a process began, by what the system says of it and of itself.
fn began_s(stat: &str, system: &str) -> Option<f64> {
    // The name may have spaces and parentheses in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(START_FIELD)?.parse().ok()?;
    let booted = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let booted_s: f64 = booted.trim().parse().ok()?;
    Some(booted_s + ticks / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_the_machine_are_read() {
        let stat = "cpu  100 10 30 700 60 5 5 90 0 0\ncpu0 1 1 1 1\n";
        let times = MachineTimes {
            busy_ms: 2_400,
            total_ms: 10_000,
        };
        assert_eq!(MachineTimes::parse(stat), Some(times));
        assert_eq!(MachineTimes::parse("cpu x"), None);
        let now = MachineTimes::now();
        assert!(now.busy_ms <= now.total_ms, "{now:?}");
    }

    #[test]
    fn a_process_is_described() {
        let figures = ProcessFigures::now();
        assert!(figures.resident_bytes > 1 << 20, "{figures:?}");
        assert!(
            figures.virtual_bytes >= figures.resident_bytes,
            "{figures:?}"
        );
        assert!(figures.descriptors > 2, "{figures:?}");
        assert!(
            figures.descriptors_max >= figures.descriptors,
            "{figures:?}"
        );
        assert!(figures.cpu_seconds > 0.0, "{figures:?}");
        assert!(figures.began_s > 1e9, "{figures:?}");
    }

    #[test]
    fn names_do_not_hide_the_time_of_the_start() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 250 20";
        assert_eq!(began_s(stat, "cpu 1\nbtime 1000\n"), Some(1002.5));
        assert_eq!(began_s("", "btime 1000\n"), None);
    }
}
