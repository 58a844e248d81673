//! Connections for bulk live on a thread of their own: checksums and copies of long frames take
//! milliseconds each, which the core's thread must not wait for.

use std::{io, thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Below the core: what is long may take longer when cores are few.
const NICENESS: i32 = 5;

/// The thread; it ends with this.
#[derive(Debug)]
pub(super) struct BulkThread {
    pub(super) handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl BulkThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            // Only a courtesy to other threads: refused, it changes nothing.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("links".into()).spawn(work)?;
        let _stop = stop;
        Ok(BulkThread { handle, _stop })
    }
}
