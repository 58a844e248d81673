//! The CPU time of processes.

use std::fs;
use std::time::Duration;

/// The CPU time that a process has taken so far, with all its threads; zero where nothing says so.
pub(super) fn taken(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or_default();
    let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / ticks_per_s))
}

/// The time in user mode and in the kernel: the fields 14 and 15 of what the kernel says of a process. The second field
/// is a name, in which anything may be.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_bracket_moves_no_field() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 41 1 13 14";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn work_takes_time() {
        let before = taken(std::process::id());
        let mut sum = 0_u64;
        while taken(std::process::id()) == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(taken(std::process::id()) > before);
    }
}
