//! One connection: bytes in, requests, replies, messages of channels, bytes out.

use crate::blocked::Blocked;
use crate::clients::Unblocked;
use crate::limits::REPLIES_BYTES_MAX;
use crate::session::{Closing, Session, Step};
use bytes::BytesMut;
use quorate_face_common::ROOM_PATIENCE;
use quorate_resp::{Limits as RequestLimits, RequestParser};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Bytes that are read at once from a client that sends little, and from one that sends much.
const READ_BYTES: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// Room for a long argument is made in such steps, in bytes.
const ARGUMENT_STEP_BYTES: usize = 1 << 20;
/// How long a client that broke the protocol may take to read why, and bytes of it that are thrown away meanwhile.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
const GOODBYE_BYTES_MAX: usize = 1 << 20;

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client is told no more.
    Closed,
    /// The client has been told everything, and may read it.
    Told,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        tracing::debug!(%error, "a client's connection failed");
        End::Closed
    }
}

/// A connection and its session.
struct Connected {
    session: Session,
    parser: RequestParser,
    input: BytesMut,
    /// Bytes to read at once.
    read_bytes: usize,
}

/// Serves a connection until its client or an order ends it.
pub(crate) async fn serve_connection(session: Session, stopping: watch::Receiver<bool>) {
    let client = Arc::clone(&session.client);
    let mailbox = Arc::clone(&session.subscriber.mailbox);
    let bytes_max = session.server.limits.request_bytes_max;
    let limits = RequestLimits {
        bulk_bytes_max: bytes_max.min(RequestLimits::default().bulk_bytes_max),
        request_bytes_max: bytes_max.saturating_add(READ_BYTES_MAX),
        ..RequestLimits::default()
    };
    let mut connected = Connected {
        session,
        parser: RequestParser::new(limits),
        input: BytesMut::new(),
        read_bytes: READ_BYTES,
    };
    tokio::select! {
        () = client.ordered_to_close() => {}
        () = mailbox.filled() => tracing::debug!(from = %client.from, "a subscriber does not read: closed"),
        end = connected.run(stopping) => if matches!(end, End::Told) {
            connected.say_goodbye().await;
        }
    }
}

impl Connected {
    async fn run(&mut self, mut stopping: watch::Receiver<bool>) -> End {
        loop {
            let step = self.take_requests().await;
            if let Err(end) = self.deliver(step).await {
                return end;
            }
            if *stopping.borrow() {
                return End::Told;
            }
            if self.session.look_at_users().is_err() {
                return End::Closed;
            }
            let waited = match self.session.blocked.is_some() {
                true => self.wait_for_element(&mut stopping).await,
                false => self.wait(&mut stopping).await,
            };
            if let Err(end) = waited {
                return end;
            }
        }
    }

    /// Takes all requests that are complete, so that their replies are ready; none behind one that has to wait.
    async fn take_requests(&mut self) -> Step {
        while self.session.blocked.is_none() {
            self.parser.set_stranger(self.session.user.is_none());
            match self.parser.next(&mut self.input) {
                Ok(Some(args)) => {
                    self.session.look_at_users()?;
                    self.session.handle(args).await?;
                }
                Ok(None) => {
                    self.session.flush().await?;
                    break;
                }
                Err(why) => {
                    self.session.flush().await?;
                    self.session.error(&format!("ERR {why}"));
                    return Err(Closing::AfterReplies);
                }
            }
            self.session.write_many().await?;
        }
        self.session.show();
        Ok(())
    }

    /// Sends replies and messages that are ready.
    async fn deliver(&mut self, step: Step) -> Result<(), End> {
        if step == Err(Closing::Now) {
            return Err(End::Closed);
        }
        self.session.write().await?;
        if step.is_err() {
            return Err(End::Told);
        }
        let messages = self.session.subscriber.mailbox.take();
        for message in &messages {
            self.session.out.raw(message);
            if self.session.out.len() >= REPLIES_BYTES_MAX {
                self.session.write().await?;
            }
        }
        Ok(self.session.write().await?)
    }

    /// Waits until there are bytes to read, messages to send, or it is time to end.
    async fn wait(&mut self, stopping: &mut watch::Receiver<bool>) -> Result<(), End> {
        let mailbox = Arc::clone(&self.session.subscriber.mailbox);
        let is_incomplete = !self.input.is_empty();
        let mut users = self.session.users.clone();
        let silence_max = self.session.server.limits.silence_max;
        tokio::select! {
            read = self.read() => match read? {
                0 => Err(End::Closed),
                _ => Ok(()),
            },
            () = mailbox.arrived() => Ok(()),
            // The sender is there as long as the replica.
            Ok(()) = users.changed() => Ok(()),
            // An error means that nobody is left to say so: then it is time as well.
            _ = stopping.wait_for(|stop| *stop) => Err(End::Told),
            // It begins, and reads a clock, when it is first asked.
            () = async { sleep(silence_max).await }, if is_incomplete => Err(End::Closed),
        }
    }

    /// Waits on until there may be an element, the client's time is over, or the client is gone.
    async fn wait_for_element(&mut self, stopping: &mut watch::Receiver<bool>) -> Result<(), End> {
        let Some((waiter, deadline)) = self.session.blocked.as_ref().map(Blocked::awaited) else {
            return Ok(());
        };
        let is_over = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mailbox = Arc::clone(&self.session.subscriber.mailbox);
        let client = Arc::clone(&self.session.client);
        let mut users = self.session.users.clone();
        let has_room = self.input.len() < READ_BYTES_MAX;
        let is_due = tokio::select! {
            () = waiter.due() => true,
            () = is_over => {
                self.session.end_waiting(Unblocked::TimedOut);
                false
            }
            how = client.ordered_on() => {
                self.session.end_waiting(how);
                false
            }
            // What it sends meanwhile waits, too.
            read = self.read(), if has_room => match read? {
                0 => return Err(End::Closed),
                _ => false,
            },
            () = mailbox.arrived() => false,
            Ok(()) = users.changed() => false,
            _ = stopping.wait_for(|stop| *stop) => return Err(End::Told),
        };
        let step = match is_due {
            true => self.session.retry().await,
            false => Ok(()),
        };
        self.deliver(step).await
    }

    /// Reads what has come, for which there has to be room.
    async fn read(&mut self) -> io::Result<usize> {
        if self.input.is_empty() && self.input.capacity() > READ_BYTES {
            self.input = BytesMut::new();
        }
        let missing = self.parser.missing_bytes(self.input.len());
        let more = missing.min(ARGUMENT_STEP_BYTES).max(self.read_bytes);
        let held = self.session.held_bytes() - self.session.input_bytes;
        let wanted = held + self.input.len() + more;
        if let Some(more) = wanted.checked_sub(self.session.charge.bytes())
            && self.session.charge.try_add(more).is_err()
        {
            let added = self
                .session
                .charge
                .add_by(more, Instant::now() + ROOM_PATIENCE);
            added
                .await
                .map_err(|why| io::Error::new(io::ErrorKind::OutOfMemory, why))?;
        }
        self.input.reserve(more);
        let read = self.session.stream.read_buf(&mut self.input).await?;
        self.session.input_bytes = self.input.capacity();
        self.read_bytes = match read >= self.read_bytes {
            true => (2 * self.read_bytes).min(READ_BYTES_MAX),
            false => (self.read_bytes / 2).max(READ_BYTES),
        };
        Ok(read)
    }

    /// Has the client read the last replies: a connection that is closed while bytes of its client wait loses them.
    async fn say_goodbye(&mut self) {
        let goodbye = async {
            self.session.stream.shutdown().await?;
            let (mut thrown, mut space) = (0, vec![0; READ_BYTES]);
            while thrown < GOODBYE_BYTES_MAX {
                match self.session.stream.read(&mut space).await? {
                    0 => break,
                    read => thrown += read,
                }
            }
            Ok::<_, io::Error>(())
        };
        let _ = timeout(GOODBYE_MAX, goodbye).await;
    }
}
