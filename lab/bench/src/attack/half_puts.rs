//! Puts of which the first two thirds come.

use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::PutRequest;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Target;
use super::session::{Session, Told, framed, told};

/// Begins one put after the other on a few connections, and ends none.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let put = framed(&PutRequest {
        key: Bytes::from_static(b"half"),
        value: vec![7; VALUE_BYTES].into(),
        ..PutRequest::default()
    });
    let half = put.slice(..VALUE_BYTES / 3 * 2);
    let mut attackers = JoinSet::new();
    for authority in &target.clients {
        for _ in 0..CONNECTIONS {
            let (authority, half, over) = (authority.clone(), half.clone(), target.over);
            attackers.spawn(async move { keep_beginning(&authority, &half, over).await });
        }
    }
    let (mut begun, mut refused) = (0, 0);
    while let Some(attacker) = attackers.join_next().await {
        let counts = attacker.map_err(|error| error.to_string())?;
        begun += counts.begun;
        refused += counts.refused;
    }
    Ok(format!("{begun} puts begun, {refused} of them refused"))
}

/// How many puts there were.
struct PutCounts {
    begun: u64,
    refused: u64,
}

async fn keep_beginning(authority: &str, half: &Bytes, over: Instant) -> PutCounts {
    let (mut begun, mut refused) = (0, 0);
    while Instant::now() < over {
        let Ok(mut session) = Session::connect(authority, u32::from(u16::MAX)).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut open = JoinSet::new();
        while Instant::now() < over && !session.is_over() {
            let Ok(Ok((answer, mut body))) = timeout_at(over, session.call("KV/Put")).await else {
                break;
            };
            // What the server does not take yet waits here, and is the same bytes for all.
            if body.send_data(half.clone(), false).is_err() {
                break;
            }
            begun += 1;
            open.spawn(async move {
                let told = told(answer).await;
                drop(body);
                matches!(told, Ok(Told::Exhausted))
            });
            while let Some(ended) = open.try_join_next() {
                refused += u64::from(ended.unwrap_or(false));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    PutCounts { begun, refused }
}

/// A little less than a replica takes.
const VALUE_BYTES: usize = 3 << 19;
/// To each replica.
const CONNECTIONS: usize = 2;
/// Between two puts on a connection: the attack is on memory, not on processors.
const PAUSE: Duration = Duration::from_millis(20);
