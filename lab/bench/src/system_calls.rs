//! System calls of other processes, counted by the kernel and read with `perf stat`.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use quorate_tooling::children::{Tether, Tethered, lines};

/// A count that goes on.
#[derive(Debug)]
pub(crate) struct Counting {
    perf: Tethered,
    control: ChildStdin,
    acknowledged: Receiver<String>,
}

impl Counting {
    /// Begins to count for these processes and all that they start.
    ///
    /// # Errors
    /// Why nothing can be counted: there is no `perf`, or the kernel does not let it.
    pub(crate) fn start(pids: &[u32]) -> Result<Counting, String> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let pids = pids.join(",");
        let arguments = [
            "stat",
            "-x,",
            "-D",
            "-1",
            "--control",
            "fd:0,1",
            "-e",
            EVENT,
            "-p",
            &pids,
        ];
        let perf = Tethered::program(
            OsStr::new("perf"),
            arguments,
            &Tether::killing(),
            |command| {
                command
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
            },
        );
        let mut perf = perf.map_err(|error| format!("cannot start perf: {error}"))?;
        let (control, output) = (perf.child().stdin.take(), perf.child().stdout.take());
        let mut counting = Counting {
            control: control.ok_or("perf has no standard input")?,
            acknowledged: lines(output.ok_or("perf has no standard output")?),
            perf,
        };
        if let Err(why) = counting.order("enable") {
            let told = counting.told();
            return Err(format!("perf counts no system calls: {why}: {told}"));
        }
        Ok(counting)
    }

    /// Ends the count and returns it.
    ///
    /// # Errors
    /// `perf` printed no count.
    pub(crate) fn finish(mut self) -> Result<u64, String> {
        self.order("disable")?;
        quorate_tooling::children::signal(self.perf.pid(), rustix::process::Signal::INT);
        let told = self.told();
        count(&told).ok_or_else(|| format!("perf printed no count of system calls: {told}"))
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        writeln!(self.control, "{order}").map_err(|error| error.to_string())?;
        let answer = self.acknowledged.recv_timeout(PATIENCE);
        answer.map(drop).map_err(|_| "no answer".to_owned())
    }

    /// What `perf` prints before it ends.
    fn told(&mut self) -> String {
        let mut told = String::new();
        if let Some(mut output) = self.perf.child().stderr.take() {
            // A part of it says enough.
            let _ = output.read_to_string(&mut told);
        }
        told.trim().to_owned()
    }
}

/// The count in the lines `COUNT,,EVENT,...`.
fn count(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

const EVENT: &str = "raw_syscalls:sys_enter";
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_first_field_of_its_line() {
        let told = "some note\n4711,,raw_syscalls:sys_enter,12345,100.00,,";
        assert_eq!(count(told), Some(4711));
        let not_counted = "<not counted>,,raw_syscalls:sys_enter,0,100.00,,";
        assert_eq!(count(not_counted), None);
        assert_eq!(count("no such event"), None);
    }
}
