//! Puts and gets through one endpoint, each with a time limit, over a connection that is made again
//! when it is lost.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::{PutRequest, PutResponse, RangeRequest, RangeResponse};

use crate::load::rpc::{Call, Channel};
use quorate_tooling::scrape;

/// Asks one endpoint.
#[derive(Debug)]
pub struct Asker {
    authority: String,
    channel: Option<Channel>,
    timeout: Duration,
}

impl Asker {
    /// Asks `url`, and gives each question up after `timeout`.
    pub fn new(url: &str, timeout: Duration) -> Result<Asker, String> {
        Ok(Asker {
            authority: scrape::authority(url)?.to_owned(),
            channel: None,
            timeout,
        })
    }

    /// Puts a value.
    pub async fn put(&mut self, key: &Bytes, value: Bytes) -> Result<(), String> {
        let request = PutRequest {
            key: key.clone(),
            value,
            ..PutRequest::default()
        };
        let answer: Result<PutResponse, String> = self.ask(Call::Put, &request).await;
        answer.map(drop)
    }

    /// Reads a value, linearizably.
    pub async fn get(&mut self, key: &Bytes) -> Result<Option<Bytes>, String> {
        let request = RangeRequest {
            key: key.clone(),
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.ask(Call::Range, &request).await?;
        Ok(answer.kvs.into_iter().next().map(|kv| kv.value))
    }

    /// Puts a value, again and again until that is acknowledged or the patience has an end.
    pub async fn insist_put(
        &mut self,
        patience: Duration,
        key: &Bytes,
        value: Bytes,
    ) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        loop {
            let answer = self.put(key, value.clone()).await;
            if answer.is_ok() || !paused_before(deadline).await {
                return answer;
            }
        }
    }

    /// Reads a value, again and again until there is an answer or the patience has an end.
    pub async fn insist_get(
        &mut self,
        patience: Duration,
        key: &Bytes,
    ) -> Result<Option<Bytes>, String> {
        let deadline = Instant::now() + patience;
        loop {
            let answer = self.get(key).await;
            if answer.is_ok() || !paused_before(deadline).await {
                return answer;
            }
        }
    }

    /// Gives the connection up; the next question makes another one.
    pub fn disconnect(&mut self) {
        self.channel = None;
    }

    async fn ask<A: Message + Default>(
        &mut self,
        call: Call,
        request: &impl Message,
    ) -> Result<A, String> {
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.attempt(call, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                // What comes late on this connection is of no use.
                self.channel = None;
                Err(format!("no answer within {} s", timeout.as_secs_f64()))
            }
        }
    }

    async fn attempt<A: Message + Default>(
        &mut self,
        call: Call,
        request: &impl Message,
    ) -> Result<A, String> {
        let channel = match &mut self.channel {
            Some(channel) => channel,
            None => {
                let channel = Channel::connect(&self.authority, CONNECT_PATIENCE).await?;
                self.channel.insert(channel)
            }
        };
        let answer = channel.call(call, request).await;
        answer.map_err(|failure| {
            if failure.connection_lost {
                self.channel = None;
            }
            failure.text
        })
    }
}

/// Waits a moment, and says whether there is time for another attempt.
async fn paused_before(deadline: Instant) -> bool {
    tokio::time::sleep(PAUSE).await;
    Instant::now() < deadline
}

const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
