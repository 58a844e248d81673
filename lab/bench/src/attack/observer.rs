//! What the processes of a cluster have while they are attacked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quorate_tooling::process;

/// The most that one of the processes had.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peak {
    /// Memory in RAM.
    pub(super) memory_bytes: u64,
    /// The number of open file descriptors.
    pub(super) descriptors: u64,
}

impl Peak {
    fn now(pids: &[u32]) -> Peak {
        Peak {
            memory_bytes: process::rss_bytes_max(pids),
            descriptors: pids
                .iter()
                .map(|pid| process::descriptors(*pid))
                .max()
                .unwrap_or(0),
        }
    }

    fn or(self, other: Peak) -> Peak {
        Peak {
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// What processes had over a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed {
    /// What they had at first.
    pub(super) first: Peak,
    /// The most that they had.
    pub(super) most: Peak,
}

/// Looks at processes again and again.
pub(super) struct Observer {
    thread: JoinHandle<Peak>,
    stop: Arc<AtomicBool>,
    first: Peak,
}

impl Observer {
    /// Begins to look.
    pub(super) fn start(pids: Vec<u32>) -> Observer {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, first) = (Arc::clone(&stop), Peak::now(&pids));
        let thread = std::thread::spawn(move || {
            let mut peak = first;
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.or(Peak::now(&pids));
                std::thread::sleep(EVERY);
            }
            peak
        });
        Observer {
            thread,
            stop,
            first,
        }
    }

    /// Looks no more.
    pub(super) fn stop(self) -> Observed {
        self.stop.store(true, Ordering::Relaxed);
        Observed {
            first: self.first,
            most: self.thread.join().unwrap_or(self.first),
        }
    }
}

const EVERY: Duration = Duration::from_millis(50);
