//! Closed-loop clients: each write has a key of its own, each read is of a value that was
//! acknowledged and is compared with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Asker, Values};

/// What all clients share.
#[derive(Debug, Clone)]
pub struct Load {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    values: Values,
    val_size: usize,
    read_share: f64,
    endpoints: Mutex<Vec<String>>,
    next: AtomicU64,
    /// Numbers of the values that were acknowledged.
    kept: Mutex<Vec<u64>>,
    /// When requests failed, since the load began.
    failed: Mutex<Vec<Duration>>,
    is_over: AtomicBool,
}

/// An operation that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the load began.
    pub sent: Duration,
    /// Since the load began.
    pub done: Duration,
    /// Whether the operation wrote; it read otherwise.
    pub is_write: bool,
}

/// What a client did.
type Told = Result<Vec<Sample>, String>;

impl Load {
    /// Load of values of `val_size` bytes; `read_share` of the operations read, from 0 to 1.
    pub fn new(seed: u64, val_size: usize, read_share: f64, endpoints: &[String]) -> Load {
        let shared = Shared {
            values: Values::new(seed),
            val_size,
            read_share,
            endpoints: endpoints.to_vec().into(),
            next: 0.into(),
            kept: Mutex::default(),
            failed: Mutex::default(),
            is_over: false.into(),
        };
        Load {
            shared: shared.into(),
        }
    }

    /// Writes so many values before the load begins.
    pub async fn fill(&self, count: u64) -> Result<(), String> {
        let mut clients = JoinSet::new();
        for client in 0..FILLERS {
            let shared = self.shared.clone();
            clients.spawn(async move {
                let mut asker = shared.asker(client as usize)?;
                loop {
                    let number = shared.next.fetch_add(1, SeqCst);
                    if number >= count {
                        return Ok::<(), String>(());
                    }
                    let key = shared.values.key(number);
                    let value = shared.values.value(number, shared.val_size);
                    asker.insist_put(PATIENCE, &key, value).await?;
                    shared.kept().push(number);
                }
            });
        }
        while let Some(client) = clients.join_next().await {
            client.map_err(|error| format!("a client failed: {error}"))??;
        }
        Ok(())
    }

    /// Starts the clients.
    pub fn start(&self, runtime: &Runtime, clients: u16, began: Instant) -> JoinSet<Told> {
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let shared = self.shared.clone();
            let client = async move { shared.client(client.into(), began).await };
            tasks.spawn_on(client, runtime.handle());
        }
        tasks
    }

    /// From now on, clients that lose theirs go on with one of these.
    pub fn go_on_with(&self, endpoints: &[String]) {
        *self.shared.endpoints() = endpoints.to_vec();
    }

    /// Ends the load, and gives all that was acknowledged in the order in which it was.
    pub async fn stop(&self, mut clients: JoinSet<Told>) -> Told {
        self.shared.is_over.store(true, SeqCst);
        let mut samples = Vec::new();
        while let Some(client) = clients.join_next().await {
            samples.extend(client.map_err(|error| format!("a client failed: {error}"))??);
        }
        samples.sort_by_key(|sample| sample.done);
        Ok(samples)
    }

    /// When requests failed, since the load began.
    pub fn failures(&self) -> Vec<Duration> {
        self.shared.failed().clone()
    }

    /// Reads every value that was acknowledged through each replica; what is wrong.
    pub async fn verify(&self, endpoints: &[String]) -> Result<Vec<String>, String> {
        let mut readers = JoinSet::new();
        for url in endpoints {
            for part in 0..READERS {
                let (shared, url) = (self.shared.clone(), url.clone());
                readers.spawn(async move { shared.read_part(&url, part).await });
            }
        }
        let mut wrong = Vec::new();
        while let Some(reader) = readers.join_next().await {
            wrong.extend(reader.map_err(|error| format!("a reader failed: {error}"))??);
        }
        Ok(wrong)
    }
}

impl Shared {
    /// Sends one operation after the other until the load is over.
    async fn client(&self, client: usize, began: Instant) -> Told {
        let mut random = fastrand::Rng::with_seed(client as u64);
        let mut at = client;
        let mut asker = self.asker(at)?;
        let mut samples = Vec::new();
        while !self.is_over.load(SeqCst) {
            let is_write = random.f64() >= self.read_share;
            let sent = began.elapsed();
            let answer = match is_write {
                true => self.write(&mut asker).await,
                false => self.read(&mut asker, &mut random).await,
            };
            match answer {
                Ok(None) => samples.push(Sample {
                    sent,
                    done: began.elapsed(),
                    is_write,
                }),
                Ok(Some(difference)) => return Err(difference),
                Err(_) => {
                    self.failed().push(began.elapsed());
                    at += 1;
                    asker = self.asker(at)?;
                    // When all are gone, they are not asked as fast as can be.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(samples)
    }

    fn asker(&self, at: usize) -> Result<Asker, String> {
        let url = {
            let endpoints = self.endpoints();
            endpoints[at % endpoints.len()].clone()
        };
        Asker::new(&url, TIMEOUT)
    }

    fn endpoints(&self) -> MutexGuard<'_, Vec<String>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, asker: &mut Asker) -> Result<Option<String>, String> {
        let number = self.next.fetch_add(1, SeqCst);
        let value = self.values.value(number, self.val_size);
        asker.put(&self.values.key(number), value).await?;
        self.kept().push(number);
        Ok(None)
    }

    /// Reads any value that was acknowledged before; how it differs, if it does.
    async fn read(
        &self,
        asker: &mut Asker,
        random: &mut fastrand::Rng,
    ) -> Result<Option<String>, String> {
        let number = {
            let kept = self.kept();
            match kept.len() {
                0 => return Ok(None),
                len => kept[random.usize(..len)],
            }
        };
        let found = asker.get(&self.values.key(number)).await?;
        let difference = self
            .values
            .difference(number, self.val_size, found.as_deref());
        Ok(difference.map(|what| format!("a read under load of value {number}: {what}")))
    }

    /// Reads one of [`READERS`] equal parts of all that was acknowledged.
    async fn read_part(&self, url: &str, part: usize) -> Result<Vec<String>, String> {
        let mut asker = Asker::new(url, TIMEOUT)?;
        let mut wrong = Vec::new();
        let all = self.kept().clone();
        for number in all.into_iter().skip(part).step_by(READERS) {
            let named = |what: String| format!("value {number} through {url}: {what}");
            let found = asker.insist_get(PATIENCE, &self.values.key(number)).await;
            let found = found.map_err(named)?;
            let difference = self
                .values
                .difference(number, self.val_size, found.as_deref());
            wrong.extend(difference.map(named));
        }
        Ok(wrong)
    }

    fn failed(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<u64>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FILLERS: u32 = 16;
/// At each replica: what was written is read in less time than it was written in.
const READERS: usize = 64;
/// Longer than a replica lets a request wait.
const TIMEOUT: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
