//! What is asked of the replicas once the load has ended.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::{
    HashKvRequest, HashKvResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse,
};

use super::clients::{SHARED, Session};
use super::record::Record;
use quorate_load::load::Verdict;
use quorate_load::load::ledger::Expectation;
use quorate_load::load::payload::Payload;
use quorate_load::load::rpc::{Call, Channel};
use quorate_sim::judge::{Op, Request, Response, Returned};
use quorate_tooling::scrape;

/// What one replica says of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) hash: u32,
    pub(crate) revision: i64,
    applied: u64,
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "hash {:08x} at revision {}, applied index {}",
            self.hash, self.revision, self.applied
        )
    }
}

/// Waits until all endpoints have applied the same, and then compares their hashes. Also says how
/// long it took until they had: hashing everything takes its own time.
pub(crate) async fn converged(
    endpoints: &[String],
    patience: Duration,
) -> Result<(State, Duration), String> {
    let began = Instant::now();
    loop {
        let applied = of_all(endpoints, applied).await;
        if let Some(index) = unanimous(&applied) {
            let caught_up = began.elapsed();
            let states = of_all(endpoints, state).await;
            match unanimous(&states) {
                Some(state) if state.applied == index => return Ok((state, caught_up)),
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

type Answers<A> = Vec<Result<A, String>>;

async fn of_all<A>(
    endpoints: &[String],
    question: impl AsyncFn(&str) -> Result<A, String>,
) -> Answers<A> {
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

fn differing<A: fmt::Display>(what: &str, endpoints: &[String], answers: &Answers<A>) -> String {
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

async fn state(url: &str) -> Result<State, String> {
    let mut channel = connect(url).await?;
    let request = HashKvRequest { revision: 0 };
    let found: HashKvResponse = ask(&mut channel, Call::HashKv, &request).await?;
    Ok(State {
        hash: found.hash,
        revision: found.hash_revision,
        applied: applied(url).await?,
    })
}

/// Writes that were acknowledged in one round, to be found from then on.
pub(super) struct Promise {
    pub(super) round: u16,
    pub(super) payload: Payload,
    pub(super) expectations: Vec<Expectation>,
}

impl Promise {
    /// Reads every write through every endpoint and returns what is wrong.
    pub(super) async fn kept(&self, endpoints: &[String]) -> Result<Vec<String>, String> {
        let mut verdict = Verdict::default();
        let named = endpoints
            .iter()
            .map(|url| Ok((url.clone(), scrape::authority(url)?.to_owned())))
            .collect::<Result<Vec<_>, String>>()?;
        verdict
            .read_back(&named, &self.payload, self.expectations.clone())
            .await;
        let mut wrong: Vec<String> = Vec::new();
        for readback in &verdict.readbacks {
            if readback.error.is_some() || readback.lost + readback.stale + readback.altered > 0 {
                wrong.push(format!("writes of round {}: {readback}", self.round + 1));
            }
        }
        wrong.extend(verdict.examples);
        Ok(wrong)
    }
}

impl Promise {
    /// How many executions of the round's writes each endpoint tells of: every write has a key of its own, whose
    /// version counts them.
    pub(super) async fn executed(
        &self,
        endpoints: &[String],
    ) -> Result<Vec<(String, u64)>, String> {
        let mut executed = Vec::new();
        for url in endpoints {
            let mut channel = connect(url).await?;
            let (key, range_end) = self.payload.own_range();
            let request = RangeRequest {
                key,
                range_end,
                keys_only: true,
                ..RangeRequest::default()
            };
            let answer: RangeResponse = ask(&mut channel, Call::Range, &request).await?;
            let times = answer.kvs.iter().map(|kv| kv.version.unsigned_abs()).sum();
            executed.push((url.clone(), times));
        }
        Ok(executed)
    }
}

/// Reads all shared keys through every endpoint, into the history; returns the last revision seen.
pub(super) async fn read_shared(
    session: &Session,
    endpoints: &[String],
    record: &mut Record,
) -> Result<i64, String> {
    let mut last = 0;
    for (number, url) in endpoints.iter().enumerate() {
        let mut channel = connect(url).await?;
        let (key, range_end) = session.shared_range();
        let request = RangeRequest {
            key,
            range_end,
            ..RangeRequest::default()
        };
        let invoked = session.stamp();
        let answer: RangeResponse = ask(&mut channel, Call::Range, &request)
            .await
            .map_err(|error| format!("{url}: {error}"))?;
        let returned = Returned::new(session.stamp(), Response::Range(answer));
        last = last.max(returned.revision);
        record.add(Op {
            client: session.reader(number) as usize,
            request: Request::Range(request),
            invoked,
            returned: Some(returned),
            reader: 0,
        });
    }
    Ok(last)
}

/// Whether the store holds keys besides those of the rounds and the shared ones.
pub(super) async fn foreign_keys(
    promises: &[Promise],
    url: &str,
    revision: i64,
) -> Result<i64, String> {
    let mut channel = connect(url).await?;
    let everything = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    let mut foreign = count(&mut channel, everything, revision).await?;
    // '0' is the byte after '/'.
    let end = format!("{}0", SHARED.trim_end_matches('/'));
    foreign -= count(&mut channel, (SHARED.into(), end.into()), revision).await?;
    for promise in promises {
        foreign -= count(&mut channel, promise.payload.own_range(), revision).await?;
    }
    Ok(foreign)
}

async fn count(
    channel: &mut Channel,
    (key, range_end): (Bytes, Bytes),
    revision: i64,
) -> Result<i64, String> {
    let request = RangeRequest {
        key,
        range_end,
        revision,
        count_only: true,
        ..RangeRequest::default()
    };
    let answer: RangeResponse = ask(channel, Call::Range, &request).await?;
    Ok(answer.count)
}

async fn connect(url: &str) -> Result<Channel, String> {
    Channel::connect(scrape::authority(url)?, PATIENCE).await
}

async fn ask<A: Message + Default>(
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
