//! Where threads run, and whether they ever sleep.
//!
//! Waking a thread takes longer than most of what it is woken for. One that polls is there when something arrives, and
//! uses all of a core for it: with fewer cores than such threads they keep each other from working, so that is
//! refused unless somebody insists.

use crate::run::Layout;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::convert::Infallible;
use std::fmt;

/// What threads of a replica do while there is nothing to do, and on which cores.
#[derive(Clone, Debug, Default)]
pub struct Polling {
    /// Whether those that replication waits for look for work all the time.
    pub is_busy: bool,
    /// The cores of the core's thread, of Tx, of Rx, and of that for clients; those that are not named are the
    /// system's choice.
    pub cores: Vec<usize>,
}

/// The error of more threads that never sleep than there are cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyPollers {
    /// The number of threads that would never sleep.
    pub pollers: usize,
    /// The number of cores of the machine.
    pub cores: usize,
}

impl fmt::Display for TooManyPollers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooManyPollers { pollers, cores } = self;
        write!(
            f,
            "--busy-poll: {pollers} threads that never sleep need a core each, and there are {cores}: leave it out, \
             choose a --layout with fewer, or insist with --more-pollers-than-cores"
        )
    }
}

impl Polling {
    /// Whether so many replicas on this machine can poll in this layout.
    ///
    /// # Errors
    /// How many cores are missing.
    pub fn check(&self, layout: Layout, replicas: usize) -> Result<(), TooManyPollers> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.check_on(layout.pollers() * replicas, cores)
    }

    fn check_on(&self, pollers: usize, cores: usize) -> Result<(), TooManyPollers> {
        match self.is_busy && pollers > cores {
            true => Err(TooManyPollers { pollers, cores }),
            false => Ok(()),
        }
    }

    /// The placement of the core's thread.
    pub(crate) fn core(&self) -> ThreadPlacement {
        self.place(0)
    }

    /// The placement of the thread that sends to peers.
    pub(crate) fn tx(&self) -> ThreadPlacement {
        self.place(1)
    }

    /// The placement of the thread that receives from peers.
    pub(crate) fn rx(&self) -> ThreadPlacement {
        self.place(2)
    }

    /// The placement of the thread for clients, which always sleeps while nothing arrives.
    pub(crate) fn service(&self) -> ThreadPlacement {
        ThreadPlacement {
            is_busy: false,
            ..self.place(3)
        }
    }

    fn place(&self, at: usize) -> ThreadPlacement {
        ThreadPlacement {
            core: self.cores.get(at).copied(),
            is_busy: self.is_busy,
        }
    }
}

/// The core that one thread runs on, and whether it sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadPlacement {
    core: Option<usize>,
    pub(crate) is_busy: bool,
}

impl ThreadPlacement {
    /// Moves the calling thread to its core.
    pub(crate) fn take(self) {
        let Some(core) = self.core else {
            return;
        };
        let mut set = CpuSet::new();
        if core < CpuSet::MAX_CPU {
            set.set(core);
        }
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(
                core,
                "a thread could not be pinned to its core, and runs where the system puts it: {error}"
            );
        }
    }

    /// Keeps the calling thread's event loop from sleeping, if it is not to.
    pub(crate) async fn poll(self) -> Infallible {
        if !self.is_busy {
            return std::future::pending().await;
        }
        loop {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_that_polls_needs_a_core() {
        let busy = Polling {
            is_busy: true,
            ..Polling::default()
        };
        let pollers = Layout::Split.pollers();
        assert_eq!(busy.check_on(pollers, pollers), Ok(()));
        let error = busy.check_on(pollers, pollers - 1).unwrap_err();
        assert_eq!((error.pollers, error.cores), (pollers, pollers - 1));
        assert_eq!(Polling::default().check_on(pollers, 1), Ok(()));
    }
}
