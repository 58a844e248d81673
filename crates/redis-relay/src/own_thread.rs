//! A thread that runs until it is told to end.

use std::io;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A thread that is told to end when this is dropped, and waited for.
#[derive(Debug)]
pub(crate) struct OwnThread {
    /// The end of a sentence that begins with "the thread that".
    does: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OwnThread {
    /// Starts a thread, which is to end soon after what it is given has come or cannot come any more.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(
        does: &'static str,
        run: impl FnOnce(oneshot::Receiver<()>) + Send + 'static,
    ) -> io::Result<OwnThread> {
        let (stop, stopping) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("redis".to_owned())
            .spawn(move || run(stopping))?;
        Ok(OwnThread {
            does,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that {} ended in a panic", self.does);
        }
    }
}
