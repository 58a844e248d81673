//! Compaction beside the load, so that what is overwritten is given up and its segments are used
//! again.
//!
//! Once per so many puts, not per so much time: the less often, the fewer fragments are moved out of
//! segments that hold little else; but a replica keeps only some of the segments it is rid of at
//! once, and fills new ones with zeros when it needs more. So each compaction frees less than two.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use quorate_etcd_api::etcdserverpb::{CompactionRequest, RangeRequest};
use quorate_face_etcd::client::KvClient;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

/// Compacts for as long as it lives.
#[derive(Debug)]
pub(crate) struct Compaction {
    every_puts: Arc<AtomicI64>,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Compaction {
    /// Begins, through this endpoint.
    pub(crate) fn begin(url: &str) -> Result<Compaction, String> {
        let endpoint = Channel::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        let every_puts = Arc::new(AtomicI64::new(i64::MAX));
        let (stop, stopped) = oneshot::channel();
        let asked = Arc::clone(&every_puts);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = compact(endpoint, &asked) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Compaction {
            every_puts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// From now on once per so many puts.
    pub(crate) fn every_puts(&self, puts: i64) {
        self.every_puts.store(puts.max(1), Relaxed);
    }

    /// From now on once per so many puts that each replica stores so many bytes of.
    pub(crate) fn every(&self, fragment_bytes: usize) {
        self.every_puts(puts(fragment_bytes));
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

async fn compact(endpoint: Endpoint, every_puts: &AtomicI64) {
    let mut kv = KvClient::new(endpoint.connect_lazy());
    let mut last = 0;
    loop {
        tokio::time::sleep(POLL).await;
        let here = RangeRequest {
            key: "0".into(),
            serializable: true,
            count_only: true,
            ..RangeRequest::default()
        };
        let Ok(answer) = kv.range(here).await else {
            continue;
        };
        let header = answer.into_inner().header;
        let revision = header.map_or(0, |header| header.revision);
        if revision - last < every_puts.load(Relaxed) {
            continue;
        }
        let request = CompactionRequest {
            revision,
            ..CompactionRequest::default()
        };
        // What did not work is tried again after the next look.
        if kv.compact(request).await.is_ok() {
            last = revision;
        }
    }
}

/// After how many puts a compaction frees less than two segments.
fn puts(fragment_bytes: usize) -> i64 {
    (FREED_BYTES / fragment_bytes.max(1)).max(1) as i64
}

const POLL: Duration = Duration::from_millis(20);
/// One and a half segments of the fragment store.
const FREED_BYTES: usize = 96 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_are_compacted_after_fewer_puts() {
        assert_eq!(puts(16 << 20), 6);
        assert_eq!(puts(64 << 10), 1536);
        assert_eq!(puts(1 << 30), 1);
    }
}
