//! A client of the own server: its bytes go there at once, and the answers leave when they may.

use crate::hub::{Counted, Hub, Place, Waiting};
use crate::limits::{CLIENT_HELD_BYTES_MAX, KEPT_BYTES, RelayLimits};
use crate::metered::{charge, read, write_all};
use bytes::Bytes;
use quorate_server::{Account, Charge};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// Answers of one client, in order.
struct Held {
    hub: Rc<Hub>,
    /// Wakes the client when some of them may leave, or came.
    woken: Rc<Notify>,
    answers: RefCell<Answers>,
}

#[derive(Default)]
struct Answers {
    held: VecDeque<Answer>,
    /// Bytes of held answers, with what keeping them takes.
    bytes: usize,
    /// Whether the server has said its last.
    is_over: bool,
}

/// Bytes that may leave once their label is released.
struct Answer {
    label: u64,
    bytes: Bytes,
    since: Instant,
    charge: Charge,
}

impl Held {
    fn push(&self, bytes: Bytes, charge: Charge) {
        let kept = bytes.len() + KEPT_BYTES;
        let label = self.hub.hold(kept, &self.woken);
        let mut answers = self.answers.borrow_mut();
        answers.bytes += kept;
        answers.held.push_back(Answer {
            label,
            bytes,
            since: Instant::now(),
            charge,
        });
    }

    /// The next answers that may leave, and what is charged for them.
    fn pop(&self) -> Option<(Bytes, Charge)> {
        let mut answers = self.answers.borrow_mut();
        if answers.held.front()?.label > self.hub.released() {
            return None;
        }
        let Answer { bytes, charge, .. } = answers.held.pop_front()?;
        answers.bytes -= bytes.len() + KEPT_BYTES;
        Some((bytes, charge))
    }

    fn is_full(&self) -> bool {
        self.answers.borrow().bytes >= CLIENT_HELD_BYTES_MAX
    }

    fn is_over(&self) -> bool {
        let answers = self.answers.borrow();
        answers.is_over && answers.held.is_empty()
    }

    /// Since when the oldest answer waits.
    fn oldest(&self) -> Option<Instant> {
        let answers = self.answers.borrow();
        answers.held.front().map(|answer| answer.since)
    }
}

/// A client's connection to the own server.
pub(crate) struct Local {
    pub(crate) hub: Rc<Hub>,
    pub(crate) limits: RelayLimits,
    /// What is charged for the bytes of this client.
    pub(crate) account: Account,
    pub(crate) server: UnixStream,
    /// The place it was found at.
    pub(crate) place: Place,
    pub(crate) places: watch::Receiver<Place>,
    pub(crate) served: Counted,
}

impl Local {
    /// Relays until one side ends, or clients are served elsewhere; `first` are bytes that came already.
    pub(crate) async fn relay(
        self,
        client: impl AsyncRead + AsyncWrite + Unpin,
        first: Bytes,
    ) -> io::Result<()> {
        let Local {
            hub,
            limits,
            account,
            server,
            place,
            mut places,
            served,
        } = self;
        let waiting = Waiting::new(&hub);
        let held = Held {
            hub: Rc::clone(&hub),
            woken: Rc::new(Notify::new()),
            answers: RefCell::default(),
        };
        // Freed for others to read between awaits: all is on one thread.
        let space = Notify::new();
        let (from_client, to_client) = tokio::io::split(client);
        let (from_server, to_server) = server.into_split();
        let asker = Asker {
            hub: &hub,
            waiting: &waiting,
            account: &account,
            patience: limits.answer_max,
        };
        let asking = asker.ask(from_client, to_server, first);
        let collecting = collect(&held, &space, from_server, (&account, limits.answer_max));
        let telling = tell(&held, &space, &waiting, to_client, (&account, limits));
        // Whoever ends in order leaves the others to finish: a client may close its half and read on.
        let talk = async { tokio::try_join!(asking, collecting, telling).map(drop) };
        let ended = tokio::select! {
            biased;
            _ = places.wait_for(|now| *now != place) => Ok(()),
            ended = talk => ended,
        };
        drop(served);
        ended
    }
}

/// What passes a client's bytes on to the server.
struct Asker<'a> {
    hub: &'a Hub,
    waiting: &'a Waiting,
    account: &'a Account,
    /// How long bytes wait for room in the budget.
    patience: Duration,
}

impl Asker<'_> {
    async fn ask(
        self,
        mut client: impl AsyncRead + Unpin,
        mut server: OwnedWriteHalf,
        first: Bytes,
    ) -> io::Result<()> {
        let mut paused = self.hub.watch_paused();
        let mut asked = first;
        loop {
            if asked.is_empty() {
                // An error means that the hub is gone, and with it everything.
                let _ = paused.wait_for(|paused| !*paused).await;
                asked = read(&mut client).await?;
                if asked.is_empty() {
                    return server.shutdown().await;
                }
            }
            self.waiting.set(true);
            let _charge = charge(self.account, asked.len(), self.patience).await?;
            match server.write_all_buf(&mut asked).await {
                // It says why, and what it says is read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
    }
}

/// Takes the server's answers as they come, and charges an account for them, which has room within a time.
async fn collect(
    held: &Held,
    space: &Notify,
    mut server: OwnedReadHalf,
    (account, patience): (&Account, Duration),
) -> io::Result<()> {
    loop {
        while held.is_full() {
            space.notified().await;
        }
        match read(&mut server).await {
            Ok(bytes) if !bytes.is_empty() => {
                let charge = charge(account, bytes.len(), patience).await?;
                held.push(bytes, charge);
            }
            Ok(_) | Err(_) => {
                held.answers.borrow_mut().is_over = true;
                held.woken.notify_one();
                return Ok(());
            }
        }
    }
}

/// Gives the client the answers that may leave.
async fn tell(
    held: &Held,
    space: &Notify,
    waiting: &Waiting,
    mut client: impl AsyncWrite + Unpin,
    (account, limits): (&Account, RelayLimits),
) -> io::Result<()> {
    loop {
        let mut wrote = false;
        while let Some((bytes, _charge)) = held.pop() {
            space.notify_one();
            write_all(&mut client, &bytes, account, limits.stall_max).await?;
            wrote = true;
        }
        if wrote {
            client.flush().await?;
            waiting.set(held.oldest().is_some());
        }
        if held.is_over() {
            // The end of the server's answers is the end of the connection, whatever the client still sends.
            client.shutdown().await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match held.oldest() {
            None => held.woken.notified().await,
            // Without a proof nobody knows what became of the requests.
            Some(since) => tokio::select! {
                () = held.woken.notified() => {}
                () = sleep_until(since + limits.answer_max) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            },
        }
    }
}
