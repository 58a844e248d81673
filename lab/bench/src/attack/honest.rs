//! The clients that an attack must not hurt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

use quorate_load::trial::Asker;

/// The puts of honest clients during an attack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// The number of puts that were acknowledged.
    pub(super) puts: u64,
    /// Puts that were refused or not answered.
    pub(super) failed: u64,
    /// The longest time in which a client had no acknowledged put, though it tried.
    pub(super) longest_gap: Duration,
}

/// Clients on a thread of their own, so that they measure the cluster and not the attacker: to each replica one
/// that keeps its connection, and one that connects anew for each put.
pub(super) struct Honest {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

impl Honest {
    /// Starts two honest clients for each endpoint.
    pub(super) fn start(endpoints: &[String]) -> Result<Honest, String> {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut clients = Vec::new();
        for url in endpoints {
            for keeps_connection in [true, false] {
                clients.push(Client {
                    url: url.clone(),
                    keeps_connection,
                    key: Bytes::from(format!("honest/{}", clients.len())),
                    stop: Arc::clone(&stop),
                    seen: Arc::clone(&seen),
                });
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let clients = clients.into_iter().map(|client| tokio::spawn(client.run()));
                for client in clients.collect::<Vec<_>>() {
                    // A panic is printed, and shows as a gap.
                    let _ = client.await;
                }
            });
        });
        Ok(Honest { thread, stop, seen })
    }

    /// Stops them; says what they saw.
    pub(super) fn stop(self) -> Result<Seen, String> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        joined.map_err(|_| "the honest clients ended early".to_owned())?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(*seen)
    }
}

struct Client {
    url: String,
    keeps_connection: bool,
    key: Bytes,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

impl Client {
    async fn run(self) {
        let Ok(mut asker) = Asker::new(&self.url, TIMEOUT) else {
            return;
        };
        let mut acknowledged = Instant::now();
        loop {
            let put = asker.put(&self.key, Bytes::from_static(&[7; 128])).await;
            self.note(put.is_ok(), acknowledged.elapsed());
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            if put.is_ok() {
                acknowledged = Instant::now();
            }
            if !self.keeps_connection {
                asker.disconnect();
            }
        }
    }

    /// Notes an answer, and how long ago the client began to want one that is good.
    fn note(&self, is_acknowledged: bool, gap: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.longest_gap = seen.longest_gap.max(gap);
        match is_acknowledged {
            true => seen.puts += 1,
            false => seen.failed += 1,
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
