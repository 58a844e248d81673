//! Following another server as its replica would: what it has comes as an RDB, and then its stream, on a thread of
//! its own.

use super::source::{Source, SourceAddress, Trouble};
use super::spool::Spool;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long a server may say nothing before the stream: it may have to save everything first.
const SAVES_WITHIN: Duration = Duration::from_secs(120);
/// How long a server may say nothing in the stream: it says something every ten seconds, unless it was told otherwise.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// How often the server is told how far its stream is safe.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);
/// What a file without a length ends with, in bytes.
const MARK_BYTES: usize = 40;

/// What is followed, and from where on.
pub(super) struct Wanted {
    pub(super) source: Arc<SourceAddress>,
    /// The replication id and the offset of what is here already.
    pub(super) place: Option<(String, u64)>,
    /// Where the RDB is to be.
    pub(super) rdb: PathBuf,
    pub(super) spool: Arc<Spool>,
    /// Bytes of the RDB that came.
    pub(super) received: Arc<AtomicU64>,
}

/// How following began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Begun {
    /// What follows is the stream behind what is here.
    Continued {
        /// The replication id from now on.
        id: String,
    },
    /// Everything the server had at an offset is in the RDB, and what follows is the stream since then.
    Anew {
        /// The replication id.
        id: String,
        /// The offset at which the RDB was taken.
        offset: u64,
    },
}

/// A thread that follows, until this is dropped.
pub(super) struct Follower {
    spool: Arc<Spool>,
    begun: mpsc::Receiver<Result<Begun, Trouble>>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Begins to follow.
    pub(super) fn start(wanted: Wanted) -> std::io::Result<Follower> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let spool = Arc::clone(&wanted.spool);
        let (tell, begun) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("follower".to_owned())
            .spawn(move || {
                let spool = Arc::clone(&wanted.spool);
                let (Trouble::Fatal(why) | Trouble::Broken(why)) =
                    runtime.block_on(follow(wanted, tell));
                spool.end(why);
            })?;
        Ok(Follower {
            spool,
            begun,
            thread: Some(thread),
        })
    }

    /// How following began, once it did; `None` if that was not within a time.
    pub(super) fn begun(&self, within: Duration) -> Option<Result<Begun, Trouble>> {
        match self.begun.recv_timeout(within) {
            Ok(begun) => Some(begun),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Some(Err(Trouble::Broken("the follower ended".to_owned())))
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.spool.leave();
        if let Some(thread) = self.thread.take() {
            // It has said why it ended, if it did so by itself.
            let _ = thread.join();
        }
    }
}

/// Follows until that ends; why it did.
async fn follow(wanted: Wanted, tell: mpsc::Sender<Result<Begun, Trouble>>) -> Trouble {
    let attached = async {
        let attach = attach(&wanted);
        tokio::select! {
            attached = attach => attached,
            () = left(&wanted.spool) => Err(Trouble::Broken("nobody follows".to_owned())),
        }
    };
    let (mut source, begun) = match attached.await {
        Ok(attached) => attached,
        Err(trouble) => {
            // Who waits for it may be gone.
            let _ = tell.send(Err(trouble.clone()));
            return trouble;
        }
    };
    let _ = tell.send(Ok(begun));
    match stream(&mut source, &wanted.spool).await {
        Ok(()) => Trouble::Broken("nobody follows".to_owned()),
        Err(trouble) => trouble,
    }
}

/// Until nobody takes what comes.
async fn left(spool: &Spool) {
    let mut ticks = interval(Duration::from_millis(50));
    while !spool.is_unwanted() {
        ticks.tick().await;
    }
}

/// Attaches to the server, and receives its RDB where one is needed.
async fn attach(wanted: &Wanted) -> Result<(Source, Begun), Trouble> {
    let mut source = wanted.source.connect().await?;
    source.info().await?;
    // Those that do not know a capability say so, and go on.
    source
        .ask(&["REPLCONF", "capa", "eof", "capa", "psync2"])
        .await?;
    let (id, from) = match &wanted.place {
        Some((id, offset)) => (&id[..], (offset + 1).to_string()),
        None => ("?", "-1".to_owned()),
    };
    source.send(&["PSYNC", id, &from]).await?;
    let line = source.line(SAVES_WITHIN).await?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    match (&words[..], &wanted.place) {
        (["+FULLRESYNC", id, offset], _) => {
            let offset = offset.parse();
            let offset = offset.map_err(|_| source.broken(&"an offset that is no number"))?;
            let id = (*id).to_owned();
            receive_rdb(&mut source, wanted).await?;
            Ok((source, Begun::Anew { id, offset }))
        }
        (["+CONTINUE", rest @ ..], Some((id, _))) => {
            let id = rest.first().map_or(&id[..], |id| id);
            let id = id.to_owned();
            Ok((source, Begun::Continued { id }))
        }
        _ => Err(match line.strip_prefix('-') {
            Some(why) => source.refused(Some("PSYNC"), why),
            None => source.broken(&"it does not give its stream"),
        }),
    }
}

/// Receives the RDB, be its length told before it or its end marked behind it.
async fn receive_rdb(source: &mut Source, wanted: &Wanted) -> Result<(), Trouble> {
    let of_file =
        |error: &std::io::Error| Trouble::Fatal(format!("{}: {error}", wanted.rdb.display()));
    let head = source.line(SAVES_WITHIN).await?;
    let mut file = File::create(&wanted.rdb).map_err(|error| of_file(&error))?;
    if let Some(mark) = head.strip_prefix(b"$EOF:") {
        if mark.len() != MARK_BYTES {
            return Err(source.broken(&"a mark of another length"));
        }
        let mark = mark.to_vec();
        loop {
            // The mark may come in parts.
            let found = source
                .input
                .windows(MARK_BYTES)
                .position(|part| part == mark);
            let whole = found.unwrap_or_else(|| source.input.len().saturating_sub(MARK_BYTES - 1));
            let part = source.input.split_to(whole);
            file.write_all(&part).map_err(|error| of_file(&error))?;
            wanted
                .received
                .fetch_add(part.len() as u64, Ordering::Relaxed);
            if found.is_some() {
                drop(source.input.split_to(MARK_BYTES));
                break;
            }
            receive(source).await?;
        }
    } else {
        let length = head.strip_prefix(b"$").map(String::from_utf8_lossy);
        let length = length.and_then(|length| length.parse::<u64>().ok());
        let mut left = length.ok_or_else(|| source.broken(&"a file without a length"))?;
        loop {
            let bytes = usize::try_from(left).unwrap_or(usize::MAX);
            let part = source.input.split_to(bytes.min(source.input.len()));
            file.write_all(&part).map_err(|error| of_file(&error))?;
            wanted
                .received
                .fetch_add(part.len() as u64, Ordering::Relaxed);
            left -= part.len() as u64;
            if left == 0 {
                break;
            }
            receive(source).await?;
        }
    }
    file.flush().map_err(|error| of_file(&error))
}

async fn receive(source: &mut Source) -> Result<(), Trouble> {
    let read = timeout(SILENCE_MAX, source.more()).await;
    read.unwrap_or_else(|_| Err(source.broken(&"it says nothing")))
}

/// Receives the stream, until nobody takes it.
async fn stream(source: &mut Source, spool: &Spool) -> Result<(), Trouble> {
    let mut ticks = interval(ACKNOWLEDGE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = 0;
    loop {
        if !source.input.is_empty() {
            let bytes = source.input.split();
            silent = 0;
            spool.push(&bytes).map_err(|error| source.broken(&error))?;
        }
        let is_tick = tokio::select! {
            read = source.more() => read.map(|()| false)?,
            _ = ticks.tick() => true,
            () = left(spool) => return Ok(()),
        };
        if is_tick {
            silent += 1;
            if silent > SILENCE_MAX.as_secs() {
                return Err(source.broken(&"it says nothing"));
            }
            let safe = spool.safe().to_string();
            source.send(&["REPLCONF", "ACK", &safe]).await?;
            let flushed = source.connection.flush().await;
            flushed.map_err(|error| source.broken(&error))?;
        }
    }
}
