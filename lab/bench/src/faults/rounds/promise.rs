//! Acknowledged writes of a round, which must be found from then on.

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use quorate_load::load::Verdict;
use quorate_load::load::ledger::Expectation;
use quorate_load::load::payload::{KeyRange, Payload};
use quorate_load::load::rpc::{Call, Channel};
use quorate_tooling::scrape;

use super::COMMAND;
use crate::faults::state::{ask, connect};

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

    /// How many executions of the round's writes each endpoint tells of: every write has a key of its own, whose
    /// version counts them.
    pub(super) async fn executed(
        &self,
        endpoints: &[String],
    ) -> Result<Vec<(String, u64)>, String> {
        let mut executed = Vec::new();
        for url in endpoints {
            let mut channel = connect(url).await?;
            let request = RangeRequest {
                keys_only: true,
                ..self.payload.own_range().request()
            };
            let answer: RangeResponse = ask(&mut channel, Call::Range, &request).await?;
            let times = answer.kvs.iter().map(|kv| kv.version.unsigned_abs()).sum();
            executed.push((url.clone(), times));
        }
        Ok(executed)
    }
}

/// Whether the store holds keys besides those of the rounds and the shared ones.
pub(super) async fn foreign_keys(
    promises: &[Promise],
    url: &str,
    revision: i64,
) -> Result<i64, String> {
    let mut channel = connect(url).await?;
    let everything = KeyRange {
        first: Bytes::from_static(b"\0"),
        end: Bytes::from_static(b"\0"),
    };
    let mut foreign = count(&mut channel, everything, revision).await?;
    let shared = KeyRange::prefixed(&format!("{COMMAND}/"));
    foreign -= count(&mut channel, shared, revision).await?;
    for promise in promises {
        foreign -= count(&mut channel, promise.payload.own_range(), revision).await?;
    }
    Ok(foreign)
}

async fn count(channel: &mut Channel, range: KeyRange, revision: i64) -> Result<i64, String> {
    let request = RangeRequest {
        revision,
        count_only: true,
        ..range.request()
    };
    let answer: RangeResponse = ask(channel, Call::Range, &request).await?;
    Ok(answer.count)
}
