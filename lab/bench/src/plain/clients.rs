//! Clients, each with one request at a time, spread over the replicas.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use quorate_sim::versions::{Op, Seen, Version, What};
use serde_json::{Value, json};

use super::http::{Connection, HttpAnswer};
use quorate_load::load::Keys;
use quorate_tooling::scrape::authority;

/// What clients do.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    /// Keys there are.
    pub(crate) keys: Arc<Keys>,
    /// How often a write is of two keys instead of one.
    pub(crate) two_keys: f64,
    /// How often something is read instead.
    pub(crate) reads: f64,
    /// The least time from one request of a client to its next.
    pub(crate) pace: Duration,
    /// How long an answer may take.
    pub(crate) patience: Duration,
}

/// A request that was answered or given up.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    /// What was asked and answered, in ns since the clients began; `None` for a read without an answer.
    pub(crate) op: Option<Op>,
    /// From asking to the answer.
    pub(crate) took: Duration,
    /// When it ended, since the clients began.
    pub(crate) at: Duration,
    /// Whether it was answered.
    pub(crate) is_answered: bool,
}

/// Clients at work on a thread of their own.
#[derive(Debug)]
pub(crate) struct Clients {
    began: Instant,
    is_over: Arc<AtomicBool>,
    done: Arc<Mutex<Vec<Done>>>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Starts so many, each at the server that is next in turn.
    pub(crate) fn start(
        endpoints: &[String],
        count: usize,
        mix: &Mix,
        seed: u64,
    ) -> Result<Clients, String> {
        let servers = endpoints
            .iter()
            .map(|url| authority(url).map(str::to_owned));
        let servers: Arc<[String]> = servers.collect::<Result<Vec<_>, _>>()?.into();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let (began, is_over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let done = Arc::new(Mutex::new(Vec::new()));
        let values = Arc::new(AtomicU64::new(0));
        let clients: Vec<Client> = (0..count)
            .map(|index| Client {
                servers: servers.clone(),
                server: index % servers.len(),
                connection: None,
                rng: Rng::with_seed(seed.wrapping_add(index as u64)),
                mix: mix.clone(),
                values: values.clone(),
                began,
                is_over: is_over.clone(),
                done: done.clone(),
            })
            .collect();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let tasks: Vec<_> = clients
                    .into_iter()
                    .map(|one| tokio::spawn(one.run()))
                    .collect();
                for task in tasks {
                    // A client that panicked has said so.
                    let _ = task.await;
                }
            });
        });
        Ok(Clients {
            began,
            is_over,
            done,
            thread: Some(thread),
        })
    }

    /// How long they are at it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What ended since the last call.
    pub(crate) fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends them, and gives what is left.
    pub(crate) fn stop(mut self) -> Vec<Done> {
        self.end();
        self.take()
    }

    fn end(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.end();
    }
}

struct Client {
    servers: Arc<[String]>,
    server: usize,
    connection: Option<Connection>,
    rng: Rng,
    mix: Mix,
    /// Every value is written once.
    values: Arc<AtomicU64>,
    began: Instant,
    is_over: Arc<AtomicBool>,
    done: Arc<Mutex<Vec<Done>>>,
}

/// What is asked.
enum Asked {
    Write { keys: Vec<Bytes>, value: Bytes },
    Read(Vec<Bytes>),
}

impl Client {
    async fn run(mut self) {
        while !self.is_over.load(Relaxed) {
            let next = Instant::now() + self.mix.pace;
            self.once().await;
            if !self.mix.pace.is_zero() {
                tokio::time::sleep_until(next.into()).await;
            }
        }
    }

    async fn once(&mut self) {
        let asked = self.draw();
        let asked_at = Instant::now();
        let answer = tokio::time::timeout(self.mix.patience, self.ask(&asked)).await;
        let ended = Instant::now();
        let what = match answer {
            Ok(Ok(answer)) => asked.told(&answer),
            _ => None,
        };
        if what.is_none() {
            // What is on its way on this connection is nobody's any more.
            self.connection = None;
            self.server = (self.server + 1) % self.servers.len();
            tokio::time::sleep(RETRY).await;
        }
        let is_answered = what.is_some();
        let since = |time: Instant| (time - self.began).as_nanos() as u64;
        let op = what.or_else(|| asked.unanswered()).map(|what| Op {
            began: since(asked_at),
            ended: is_answered.then(|| since(ended)),
            what,
        });
        self.done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Done {
                op,
                took: ended - asked_at,
                at: ended - self.began,
                is_answered,
            });
    }

    fn draw(&mut self) -> Asked {
        let key = |rng: &mut Rng, keys: &Keys| Bytes::from(format!("key-{}", keys.choose(rng)));
        let first = key(&mut self.rng, &self.mix.keys);
        let mut keys = vec![first];
        if self.rng.f64() < self.mix.two_keys {
            let second = key(&mut self.rng, &self.mix.keys);
            // Twice the same is one.
            if second != keys[0] {
                keys.push(second);
            }
        }
        if self.rng.f64() < self.mix.reads {
            return Asked::Read(keys);
        }
        let value = self.values.fetch_add(1, Relaxed).to_string().into();
        Asked::Write { keys, value }
    }

    async fn ask(&mut self, asked: &Asked) -> std::io::Result<HttpAnswer> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.servers[self.server]).await?),
        };
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        match asked {
            Asked::Write { keys, value } if keys.len() == 1 => {
                connection
                    .ask(&format!("PUT /kv/{}", text(&keys[0])), value)
                    .await
            }
            Asked::Write { keys, value } => {
                let puts = keys
                    .iter()
                    .map(|key| json!({"key": text(key), "value": text(value)}));
                let body = json!({"put": puts.collect::<Vec<_>>()}).to_string();
                connection.ask("POST /write", body.as_bytes()).await
            }
            Asked::Read(keys) => {
                let keys: Vec<String> = keys.iter().map(text).collect();
                let body = json!({"keys": keys}).to_string();
                connection.ask("POST /read", body.as_bytes()).await
            }
        }
    }
}

impl Asked {
    /// What an answer says; `None` if nothing.
    fn told(&self, answer: &HttpAnswer) -> Option<What> {
        match self {
            Asked::Write { keys, value } => {
                let versions = match (answer.status, answer.tag) {
                    (204, Some(version)) => vec![Version(version)],
                    (200, _) => {
                        let body: Value = serde_json::from_slice(&answer.body).ok()?;
                        let versions = body["versions"].as_array()?.iter();
                        let versions = versions.map(|version| version.as_u64().map(Version));
                        versions.collect::<Option<Vec<_>>>()?
                    }
                    _ => return None,
                };
                Some(What::Wrote {
                    keys: keys.clone(),
                    value: value.clone(),
                    versions: Some(versions),
                })
            }
            Asked::Read(keys) => {
                let body: Value = serde_json::from_slice(&answer.body).ok()?;
                let items = body["items"].as_array().filter(|_| answer.status == 200)?;
                let seen = keys.iter().zip(items).map(|(key, item)| {
                    let version = item["version"].as_u64().map(Version);
                    let value = item["value"]
                        .as_str()
                        .map(|text| Bytes::from(text.to_owned()));
                    Seen {
                        key: key.clone(),
                        item: version.map(|version| (version, value)),
                    }
                });
                Some(What::Saw(seen.collect()))
            }
        }
    }

    /// A write without an answer may have been done, or be done later.
    fn unanswered(self) -> Option<What> {
        match self {
            Asked::Write { keys, value } => Some(What::Wrote {
                keys,
                value,
                versions: None,
            }),
            Asked::Read(_) => None,
        }
    }
}

/// How long a client waits before it asks elsewhere.
const RETRY: Duration = Duration::from_millis(5);
