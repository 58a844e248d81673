//! Small responses to watches that are not read for a while, and more watches asked for meanwhile, where many other
//! clients are connected: each connection has little to send ahead then.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::session::Session;
use super::watch_stream::{Asking, Reading, open};
use super::{Target, wire};
use quorate_load::trial::Asker;

/// On one connection to each replica, a stream watches all keys, and another one asks for watches. Nothing is read
/// until the attack is over; then all must be there.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut crowd = Vec::new();
    for authority in &target.clients {
        for _ in 0..CROWD {
            let connected = wire::connect(authority, wire::PREFACE).await;
            crowd.push(connected.map_err(|error| format!("connect: {error}"))?);
        }
    }
    let mut unread = Vec::new();
    for authority in &target.clients {
        unread.push(Unread::open(authority).await?);
    }
    target.until_over().await;
    let url = format!("http://{}", target.clients[0]);
    let last = Bytes::from_static(b"unread/last");
    let mut asker = Asker::new(&url, PATIENCE)?;
    asker.insist_put(PATIENCE, &last, Bytes::new()).await?;
    let mut events = 0;
    for one in unread {
        let read = timeout(PATIENCE, one.read(&last)).await;
        events += read.map_err(|_| "the responses did not come".to_owned())??;
    }
    Ok(format!("{events} events read late"))
}

struct Unread {
    session: Session,
    /// Streams of requests that are open.
    _asking: [Asking; 2],
    events: Reading,
    acknowledgements: Reading,
}

impl Unread {
    async fn open(authority: &str) -> Result<Unread, String> {
        let mut session = Session::connect_with(authority, STREAM_BYTES, CONNECTION_BYTES).await?;
        let (mut all, events) = open(&mut session).await?;
        all.create(vec![0], vec![0]).await?;
        let (mut asking, acknowledgements) = open(&mut session).await?;
        for number in 0..WATCHES {
            let create = asking.create(format!("unread/{number}").into(), Vec::new());
            let sent = timeout(PATIENCE, create).await;
            sent.map_err(|_| "the server takes no more watches".to_owned())??;
            if number % PER_PAUSE == 0 {
                sleep(PAUSE).await;
            }
        }
        Ok(Unread {
            session,
            _asking: [all, asking],
            events,
            acknowledgements,
        })
    }

    /// Reads all; says how many events there were up to that of this key.
    async fn read(mut self, last: &Bytes) -> Result<usize, String> {
        for number in 0..WATCHES {
            let response = self.acknowledgements.next().await?;
            if !response.created || response.canceled {
                let why = response.cancel_reason;
                return Err(format!("watch {number} was refused: {why}"));
            }
        }
        let mut count = 0;
        loop {
            let response = self.events.next().await?;
            count += response.events.len();
            let mut keys = response.events.iter().filter_map(|event| event.kv.as_ref());
            if keys.any(|kv| kv.key == *last) {
                break;
            }
        }
        match self.session.is_over() {
            true => Err("the server ended the connection".to_owned()),
            false => Ok(count),
        }
    }
}

/// Other connections to each replica.
const CROWD: usize = 100;
/// On the connection to each replica.
const WATCHES: usize = 20_000;
/// Watches asked for at once, and the time between two such times.
const PER_PAUSE: usize = 50;
const PAUSE: Duration = Duration::from_millis(1);
/// A stream brings so many bytes that are not read.
const STREAM_BYTES: u32 = 64 << 10;
/// The client's own library is not to end the connection.
const CONNECTION_BYTES: u32 = (1 << 31) - 1;
const PATIENCE: Duration = Duration::from_secs(60);
