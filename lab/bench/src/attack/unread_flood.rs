//! Small reads as fast as they can be sent, on connections that nobody reads.

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::RangeRequest;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::session::framed;
use super::{Target, wire};

/// Sends requests on connections until these take no more, and keeps them.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let request = framed(&RangeRequest {
        key: Bytes::from_static(b"flood"),
        ..RangeRequest::default()
    });
    let mut attackers = JoinSet::new();
    for authority in &target.clients {
        for _ in 0..CONNECTIONS {
            let (authority, request, over) = (authority.clone(), request.clone(), target.over);
            attackers.spawn(async move { flood(&authority, &request, over).await });
        }
    }
    let mut sent = 0;
    while let Some(attacker) = attackers.join_next().await {
        sent += attacker.map_err(|error| error.to_string())?;
    }
    Ok(format!("{sent} reads sent"))
}

/// How many requests were sent.
async fn flood(authority: &str, request: &[u8], over: Instant) -> u64 {
    let Ok(mut connection) = wire::connect(authority, wire::PREFACE).await else {
        return 0;
    };
    let mut sent = 0;
    loop {
        let stream = 2 * sent as u32 + 1;
        let mut bytes = wire::call(stream, "/etcdserverpb.KV/Range");
        bytes.extend(wire::last_data(stream, request));
        match timeout_at(over, connection.write_all(&bytes)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => return sent,
        }
    }
}

/// To each replica.
const CONNECTIONS: usize = 10;
