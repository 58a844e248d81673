//! What a participant hears: reports, signs of life, and why there is no session.

use super::Report;
use crate::wire::{Reader, WireError, Writer};
use std::fmt;

/// A message from a gateway to a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerMessage {
    /// The participant is logged in.
    LoggedIn,
    /// There is no session, or not any more; the connection ends.
    Ended(SessionEnd),
    /// The gateway is there.
    Heartbeat,
    /// Something about the participant's requests and orders.
    Report(Report),
}

/// Why there is no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// The token is not the participant's, or there is no such participant.
    Token,
    /// Orders of a connection that was lost are being cancelled.
    Cancelling,
    /// The first message was no log-in, or a second one was.
    Login,
    /// The gateway has too many requests under way.
    Full,
    /// Nothing came from the participant for too long.
    Idle,
}

impl SessionEnd {
    /// All reasons, by their codes.
    const ALL: [SessionEnd; 5] = [
        SessionEnd::Token,
        SessionEnd::Cancelling,
        SessionEnd::Login,
        SessionEnd::Full,
        SessionEnd::Idle,
    ];
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionEnd::Token => "the participant's token is wrong or missing",
            SessionEnd::Cancelling => {
                "orders of a connection that was lost are being cancelled: try again"
            }
            SessionEnd::Login => "a session begins with a log-in, and has one",
            SessionEnd::Full => "the gateway has too many requests under way: log in and try again",
            SessionEnd::Idle => "nothing came for too long: heartbeats say that you are there",
        })
    }
}

impl ServerMessage {
    /// The bytes of the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            ServerMessage::LoggedIn => out.u8(b'S'),
            ServerMessage::Ended(why) => {
                let code = SessionEnd::ALL.iter().position(|one| one == why);
                out.u8(b'J');
                out.u8(code.map_or(u8::MAX, |code| code as u8));
            }
            ServerMessage::Heartbeat => out.u8(b'H'),
            ServerMessage::Report(report) => return report.to_bytes(),
        }
        out.bytes
    }

    /// The message in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<ServerMessage, WireError> {
        Reader::whole(bytes, ServerMessage::read)
    }

    /// Takes the first message out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why no message can ever begin so; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<ServerMessage>, WireError> {
        Reader::take(received, ServerMessage::read)
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut behind = from.clone();
        let message = match behind.u8()? {
            b'S' => ServerMessage::LoggedIn,
            b'H' => ServerMessage::Heartbeat,
            b'J' => {
                let why = SessionEnd::ALL.get(usize::from(behind.u8()?));
                ServerMessage::Ended(*why.ok_or(WireError::Value("reason"))?)
            }
            _ => return Report::read(from).map(ServerMessage::Report),
        };
        *from = behind;
        Ok(message)
    }
}
