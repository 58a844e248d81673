//! Large reads whose answers are not taken.

use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::RangeRequest;
use tokio::task::JoinSet;

use super::Target;
use super::session::{Session, Told, framed, told};
use quorate_load::trial::Asker;

/// Writes values; then clients ask for all of them, and read nothing.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let url = format!("http://{}", target.clients[0]);
    let mut asker = Asker::new(&url, PATIENCE)?;
    for number in 0..VALUES {
        let key = Bytes::from(format!("{PREFIX}{number:04}"));
        let value = Bytes::from(vec![number as u8; VALUE_BYTES]);
        asker.insist_put(PATIENCE, &key, value).await?;
    }
    let all = framed(&RangeRequest {
        key: Bytes::from_static(PREFIX.as_bytes()),
        // The first key after all that begin so.
        range_end: Bytes::from_static(b"unread0"),
        ..RangeRequest::default()
    });
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        for authority in &target.clients {
            let (authority, all) = (authority.clone(), all.clone());
            readers.spawn(async move { read_nothing(&authority, all).await });
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (mut answered, mut refused) = (Vec::new(), 0);
    while let Some(reader) = readers.join_next().await {
        match reader.map_err(|error| error.to_string())?? {
            (session, Told::Answer { body }) => answered.push((session, body)),
            (_, Told::Exhausted) => refused += 1,
        }
    }
    target.until_over().await;
    Ok(format!(
        "{} answers not read, {refused} refused",
        answered.len()
    ))
}

async fn read_nothing(authority: &str, request: Bytes) -> Result<(Session, Told), String> {
    let mut session = Session::connect(authority, 0).await?;
    let (answer, mut body) = session.call("KV/Range").await?;
    (body.send_data(request, true)).map_err(|error| format!("HTTP/2: {error}"))?;
    Ok((session, told(answer).await?))
}

const PREFIX: &str = "unread/";
const VALUES: usize = 32;
const VALUE_BYTES: usize = 1 << 20;
/// Of each replica.
const READERS: usize = 60;
/// Between two readers of a replica: the attack is on memory, not on processors.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);
