//! Threads on which connections live.
//!
//! Those for bulk have one of their own: checksums and copies of long frames take milliseconds each, which the core's
//! thread must not wait for. In the `split` layout the others have one, too, and what is sent leaves from a third
//! (`transmit.rs`).

use crate::polling::ThreadPlacement;
use std::{io, thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Below the core: what is long may take longer when cores are few.
const NICENESS: i32 = 5;

/// A thread with an event loop; it ends with this.
#[derive(Debug)]
pub(crate) struct LinksThread {
    pub(crate) handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl LinksThread {
    /// Starts the thread for bulk connections.
    pub(super) fn for_bulk() -> io::Result<Self> {
        Self::start("links", || {
            // Only a courtesy to other threads: refused, it changes nothing.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            ThreadPlacement::default()
        })
    }

    /// For what is received, and all else that connections need.
    pub(crate) fn for_messages(place: ThreadPlacement) -> io::Result<Self> {
        Self::start("rx", move || {
            place.take();
            place
        })
    }

    fn start(
        name: &str,
        settle: impl FnOnce() -> ThreadPlacement + Send + 'static,
    ) -> io::Result<LinksThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            let place = settle();
            let _ = runtime.block_on(async {
                tokio::select! {
                    stopped = stopped => stopped,
                    never = place.poll() => match never {},
                }
            });
            runtime.shutdown_background();
        };
        thread::Builder::new().name(name.into()).spawn(work)?;
        Ok(LinksThread {
            handle,
            _stop: stop,
        })
    }
}
