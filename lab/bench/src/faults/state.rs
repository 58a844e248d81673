//! Questions to the replicas of a cluster once its load has ended.

use std::fmt;
use std::time::{Duration, Instant};

use prost::Message;
use quorate_etcd_api::etcdserverpb::{
    HashKvRequest, HashKvResponse, StatusRequest, StatusResponse,
};
use quorate_load::load::rpc::{Call, Channel};
use quorate_tooling::scrape;

/// What one replica says of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplicaState {
    pub(super) hash: u32,
    pub(super) revision: i64,
    applied: u64,
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "hash {:08x} at revision {}, applied index {}",
            self.hash, self.revision, self.applied
        )
    }
}

/// What replicas came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Converged {
    /// The state of all of them.
    pub(super) state: ReplicaState,
    /// How long it took until they had applied the same: hashing everything takes its own time.
    pub(super) took: Duration,
}

/// Waits until all endpoints have applied the same, and then compares their hashes.
pub(super) async fn converged(
    endpoints: &[String],
    patience: Duration,
) -> Result<Converged, String> {
    let began = Instant::now();
    loop {
        let applied = of_all(endpoints, applied).await;
        if let Some(index) = unanimous(&applied) {
            let took = began.elapsed();
            let states = of_all(endpoints, state).await;
            match unanimous(&states) {
                Some(state) if state.applied == index => return Ok(Converged { state, took }),
                // Not the end yet: a write without a waiting client may still have been under way.
                _ if began.elapsed() > patience => {
                    return Err(differing("different states", endpoints, &states));
                }
                _ => {}
            }
        } else if began.elapsed() > patience {
            let what = format!("not the same applied index within {patience:?}");
            return Err(differing(&what, endpoints, &applied));
        }
        tokio::time::sleep(POLL).await;
    }
}

type ByEndpoint<A> = Vec<Result<A, String>>;

async fn of_all<A>(
    endpoints: &[String],
    question: impl AsyncFn(&str) -> Result<A, String>,
) -> ByEndpoint<A> {
    let mut answers = Vec::new();
    for url in endpoints {
        answers.push(question(url).await);
    }
    answers
}

/// The answer of all, if all gave the same.
fn unanimous<A: Copy + PartialEq>(answers: &[Result<A, String>]) -> Option<A> {
    let first = *answers.first()?.as_ref().ok()?;
    let same = |answer: &Result<A, String>| answer.as_ref() == Ok(&first);
    answers.iter().all(same).then_some(first)
}

fn differing<A: fmt::Display>(what: &str, endpoints: &[String], answers: &ByEndpoint<A>) -> String {
    let mut text = format!("the replicas have {what}");
    for (url, answer) in endpoints.iter().zip(answers) {
        text += &match answer {
            Ok(answer) => format!("; {url}: {answer}"),
            Err(error) => format!("; {url}: {error}"),
        };
    }
    text
}

async fn applied(url: &str) -> Result<u64, String> {
    let mut channel = connect(url).await?;
    let status: StatusResponse = ask(&mut channel, Call::Status, &StatusRequest {}).await?;
    Ok(status.raft_applied_index)
}

async fn state(url: &str) -> Result<ReplicaState, String> {
    let mut channel = connect(url).await?;
    let request = HashKvRequest { revision: 0 };
    let found: HashKvResponse = ask(&mut channel, Call::HashKv, &request).await?;
    Ok(ReplicaState {
        hash: found.hash,
        revision: found.hash_revision,
        applied: applied(url).await?,
    })
}

pub(super) async fn connect(url: &str) -> Result<Channel, String> {
    Channel::connect(scrape::authority(url)?, PATIENCE).await
}

pub(super) async fn ask<A: Message + Default>(
    channel: &mut Channel,
    call: Call,
    request: &impl Message,
) -> Result<A, String> {
    match tokio::time::timeout(PATIENCE, channel.call(call, request)).await {
        Ok(answer) => answer.map_err(|failure| failure.text),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
