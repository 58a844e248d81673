//! WebSockets (RFC 6455), the server's side, without extensions.
//!
//! [`is_wanted`] and [`accept`] turn a request into one, on a connection that is then taken over
//! ([`Takeover`](crate::Takeover)). A [`Reader`] gives the messages of the client and a [`Writer`] sends messages to
//! it; each belongs to one task, or to one half of a task.

mod handshake;
mod sha1;
#[cfg(test)]
mod tests;

pub use handshake::{accept, is_wanted};

use bytes::{BufMut, Bytes, BytesMut};
use quorate_server::Charge;
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The longest content of frames that are not part of a message.
const CONTROL_BYTES_MAX: usize = 125;
/// Up to here a length is said in the second byte of a frame, and in two bytes more.
const SHORT_MAX: usize = 125;
const MIDDLE_MAX: usize = u16::MAX as usize;
/// A longer frame takes memory only as it comes.
const PIECE_BYTES: usize = 64 << 10;

/// Why a WebSocket is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// All was said.
    Normal,
    /// The client does not keep to the protocol.
    Protocol,
    /// A message is longer than may be.
    TooLong,
    /// There is no room for a message.
    NoRoom,
}

impl CloseReason {
    /// The number and the words that the client is told.
    fn told(self) -> (u16, &'static str) {
        match self {
            CloseReason::Normal => (1000, ""),
            CloseReason::Protocol => (1002, "not a frame that a client may send"),
            CloseReason::TooLong => (1009, "the message is too long"),
            CloseReason::NoRoom => (1013, "too many requests: try again later"),
        }
    }
}

/// What a client says.
#[derive(Debug)]
pub enum Incoming {
    /// A message, of either kind.
    Message(Bytes),
    /// A question whether the server is there, to be answered with a pong of the same content.
    Ping(Bytes),
    /// There is nothing more to come, and the connection is to be closed for this reason.
    End(CloseReason),
    /// The connection has failed.
    Failed(io::Error),
}

/// The side of a WebSocket that reads.
pub struct Reader<T> {
    io: BufReader<T>,
    message_bytes_max: usize,
    /// What is received of a message is charged here until it is given out.
    charge: Charge,
    /// The message so far, if a frame of it came that is not its last.
    begun: Option<BytesMut>,
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// The beginning of a frame.
struct FrameHead {
    is_final: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
}

/// Why reading ends.
enum Stop {
    Closed(CloseReason),
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Failed(error)
    }
}

impl<T: AsyncRead + Unpin> Reader<T> {
    /// Reads messages of so many bytes at most.
    pub fn new(io: T, message_bytes_max: usize, charge: Charge) -> Self {
        Reader {
            io: BufReader::new(io),
            message_bytes_max,
            charge,
            begun: None,
        }
    }

    /// What the client says next. A message's charge lasts as long as its bytes.
    pub async fn next(&mut self) -> Incoming {
        match self.read().await {
            Ok(incoming) => incoming,
            Err(Stop::Closed(reason)) => Incoming::End(reason),
            Err(Stop::Failed(error)) => Incoming::Failed(error),
        }
    }

    async fn read(&mut self) -> Result<Incoming, Stop> {
        loop {
            let head = self.head().await?;
            match head.opcode {
                CLOSE => {
                    self.content(&head, BytesMut::new()).await?;
                    return Err(Stop::Closed(CloseReason::Normal));
                }
                PING => {
                    let content = self.content(&head, BytesMut::new()).await?;
                    return Ok(Incoming::Ping(self.charge.take().attach(content)));
                }
                PONG => {
                    let content = self.content(&head, BytesMut::new()).await?;
                    self.charge.give_back(content.len());
                }
                TEXT | BINARY | CONTINUATION => {
                    let begun = self.begun.take();
                    if begun.is_some() != (head.opcode == CONTINUATION) {
                        return Err(Stop::Closed(CloseReason::Protocol));
                    }
                    let message = self.content(&head, begun.unwrap_or_default()).await?;
                    if head.is_final {
                        return Ok(Incoming::Message(self.charge.take().attach(message)));
                    }
                    self.begun = Some(message);
                }
                _ => return Err(Stop::Closed(CloseReason::Protocol)),
            }
        }
    }

    async fn head(&mut self) -> Result<FrameHead, Stop> {
        let mut first = [0; 2];
        self.io.read_exact(&mut first).await?;
        let [flags, length] = first;
        let opcode = flags & 0x0f;
        let is_final = flags & FINAL != 0;
        let length = match usize::from(length & !MASKED) {
            short @ ..=SHORT_MAX => short as u64,
            126 => self.io.read_u16().await?.into(),
            _ => self.io.read_u64().await?,
        };
        let is_control = opcode >= CLOSE;
        if flags & RESERVED != 0
            || first[1] & MASKED == 0
            || is_control && (!is_final || length > CONTROL_BYTES_MAX as u64)
        {
            return Err(Stop::Closed(CloseReason::Protocol));
        }
        let mut mask = [0; 4];
        self.io.read_exact(&mut mask).await?;
        Ok(FrameHead {
            is_final,
            opcode,
            length,
            mask,
        })
    }

    /// Appends the content of a frame to `message`.
    async fn content(&mut self, head: &FrameHead, mut message: BytesMut) -> Result<BytesMut, Stop> {
        let too_long = Stop::Closed(CloseReason::TooLong);
        let Ok(mut left) = usize::try_from(head.length) else {
            return Err(too_long);
        };
        if left > self.message_bytes_max.saturating_sub(message.len()) {
            return Err(too_long);
        }
        let begin = message.len();
        while left > 0 {
            let piece = left.min(PIECE_BYTES);
            let no_room = |_| Stop::Closed(CloseReason::NoRoom);
            self.charge.add(piece).map_err(no_room)?;
            let at = message.len();
            message.resize(at + piece, 0);
            self.io.read_exact(&mut message[at..]).await?;
            left -= piece;
        }
        let masks = head.mask.iter().cycle();
        for (byte, mask) in message[begin..].iter_mut().zip(masks) {
            *byte ^= mask;
        }
        Ok(message)
    }
}

/// The side of a WebSocket that writes.
#[derive(Debug)]
pub struct Writer<T> {
    io: T,
}

impl<T: AsyncWrite + Unpin> Writer<T> {
    /// Writes to this connection.
    pub fn new(io: T) -> Self {
        Writer { io }
    }

    /// Sends a message of text.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.frame(TEXT, text).await
    }

    /// Answers a ping.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn pong(&mut self, content: &[u8]) -> io::Result<()> {
        self.frame(PONG, content).await
    }

    /// Says that nothing more comes, and why.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn close(&mut self, reason: CloseReason) -> io::Result<()> {
        let (number, words) = reason.told();
        let content = [&number.to_be_bytes(), words.as_bytes()].concat();
        self.frame(CLOSE, &content).await?;
        self.io.shutdown().await
    }

    async fn frame(&mut self, opcode: u8, content: &[u8]) -> io::Result<()> {
        let mut head = BytesMut::with_capacity(10);
        head.put_u8(FINAL | opcode);
        match content.len() {
            short @ ..=SHORT_MAX => head.put_u8(short as u8),
            middle @ ..=MIDDLE_MAX => {
                head.put_u8(126);
                head.put_u16(middle as u16);
            }
            long => {
                head.put_u8(127);
                head.put_u64(long as u64);
            }
        }
        self.io.write_all(&head).await?;
        self.io.write_all(content).await?;
        self.io.flush().await
    }
}
