//! One pass over all values: written through all replicas in turn, or read through one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use crate::trial::{Asker, Values};

/// What values there are.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) values: Values,
    pub(super) count: u64,
    pub(super) size: usize,
    pub(super) clients: u16,
}

impl Plan {
    /// Bytes of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.count * self.size as u64
    }
}

/// A pass that is about to be run.
#[derive(Debug)]
pub(super) struct Pass {
    plan: Plan,
    /// Clients are spread over these.
    endpoints: Vec<String>,
    is_write: bool,
    next: AtomicU64,
    bar: ProgressBar,
}

impl Pass {
    pub(super) fn write(plan: &Plan, endpoints: &[String]) -> Pass {
        Pass::new(plan, endpoints.to_vec(), true)
    }

    pub(super) fn read(plan: &Plan, url: &str) -> Pass {
        Pass::new(plan, vec![url.to_owned()], false)
    }

    fn new(plan: &Plan, endpoints: Vec<String>, is_write: bool) -> Pass {
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta} left");
        // Where nobody looks, nothing is drawn.
        let bar = ProgressBar::new(plan.bytes())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Pass {
            plan: plan.clone(),
            endpoints,
            is_write,
            next: 0.into(),
            bar,
        }
    }

    /// Bytes it moves.
    pub(super) fn bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// A message, if a value could not be written or read at all.
    pub(super) async fn run(self) -> Result<Vec<String>, String> {
        let pass = Arc::new(self);
        let mut clients = JoinSet::new();
        for client in 0..pass.plan.clients {
            let pass = pass.clone();
            clients.spawn(async move { pass.client(client).await });
        }
        let mut wrong = Vec::new();
        while let Some(client) = clients.join_next().await {
            wrong.extend(client.map_err(|error| format!("a client failed: {error}"))??);
        }
        pass.bar.finish_and_clear();
        Ok(wrong)
    }

    /// Takes one value after the other until all are taken.
    async fn client(&self, client: u16) -> Result<Vec<String>, String> {
        let url = &self.endpoints[usize::from(client) % self.endpoints.len()];
        let mut asker = Asker::new(url, TIMEOUT)?;
        let mut wrong = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.plan.count {
                return Ok(wrong);
            }
            let done = match self.is_write {
                true => self.put(&mut asker, number).await.map(|()| None),
                false => self.compare(&mut asker, number).await,
            };
            wrong.extend(done.map_err(|error| format!("{url}: value {number}: {error}"))?);
            self.bar.inc(self.plan.size as u64);
        }
    }

    async fn put(&self, asker: &mut Asker, number: u64) -> Result<(), String> {
        let Plan { values, size, .. } = self.plan;
        let (key, value) = (values.key(number), values.value(number, size));
        asker.insist_put(PATIENCE, &key, value).await
    }

    async fn compare(&self, asker: &mut Asker, number: u64) -> Result<Option<String>, String> {
        let Plan { values, size, .. } = self.plan;
        let key = values.key(number);
        let found = asker.insist_get(PATIENCE, &key).await?;
        let difference = values.difference(number, size, found.as_deref());
        let named = |what| format!("value {number} through {}: {what}", self.endpoints[0]);
        Ok(difference.map(named))
    }
}

/// A value of the greatest length passes within this on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);
