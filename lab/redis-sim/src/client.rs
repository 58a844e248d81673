//! A client and its question.

use bytes::BytesMut;

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The client has no question.
    Idle,
    /// No server has the question yet.
    Waiting(usize),
    /// A server was given the question, at this time.
    Given(usize, u64),
}

/// A client in its loop.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) index: usize,
    pub(crate) home: usize,
    pub(crate) phase: Phase,
    /// The replica and the epoch of its connection, and the connection's number.
    pub(crate) connection: Option<(usize, u64, u64)>,
    pub(crate) input: BytesMut,
    pub(crate) replies_left: usize,
}

impl Client {
    pub(crate) fn new(index: usize, home: usize) -> Client {
        Client {
            index,
            home,
            phase: Phase::Idle,
            connection: None,
            input: BytesMut::new(),
            replies_left: 0,
        }
    }
}
