//! The application of a group with the Redis face: the embedded store, or the stream of effects of real servers.
//!
//! It is one type, so that host and machines are compiled once for both. The first epoch of a group says which it is,
//! and bodies say it again with their first byte.

use bytes::Bytes;
use quorate_core::{Application, At, Countdown, Payload, Touches};
use quorate_redis_effects as effects;
use quorate_redis_effects::{BODY_TAG, Stream, StreamQuery, StreamState};
use quorate_redis_store as store;
use quorate_redis_store::Store;

/// The state machine behind the Redis face.
#[derive(Debug)]
pub enum RedisApplication {
    /// The store of this program.
    Embedded(Store),
    /// The stream of what an unmodified server does.
    Effects(Stream),
}

/// A read of either application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// A read of the embedded store.
    Embedded(store::Query),
    /// A question for the state of the stream.
    Effects(StreamQuery),
}

/// The answer to a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The embedded store's answer.
    Embedded(store::Answer),
    /// The state of the stream.
    Effects(StreamState),
    /// The query is not of this application.
    Unknown,
}

/// A snapshot of either application.
#[derive(Debug)]
pub enum Cut {
    /// A snapshot of the embedded store.
    Embedded(<Store as Application>::Cut),
    /// A snapshot of the stream.
    Effects(effects::Cut),
}

/// Whether a body is for the stream of effects.
fn is_of_stream(body: &Bytes) -> bool {
    body.first() == Some(&BODY_TAG)
}

/// What the command with this body touches. All effects are of one stream.
fn touches(body: &Bytes) -> Option<Vec<u32>> {
    match is_of_stream(body) {
        true => None,
        false => Store::touches().and_then(|touches| touches(body)),
    }
}

/// Calls a method of whichever application it is.
macro_rules! either {
    ($self:ident, $app:ident => $call:expr) => {
        match $self {
            RedisApplication::Embedded($app) => $call,
            RedisApplication::Effects($app) => $call,
        }
    };
}

impl Application for RedisApplication {
    type Query = Query;
    type Answer = Answer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        either!(self, app => app.apply(at, body, payloads))
    }

    fn grows(body: &Bytes) -> bool {
        match is_of_stream(body) {
            true => Stream::grows(body),
            false => Store::grows(body),
        }
    }

    fn touches() -> Option<Touches> {
        Some(touches)
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        either!(self, app => app.is_retractable(body))
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        either!(self, app => app.attempt(at, body))
    }

    fn keep(&mut self) {
        either!(self, app => app.keep());
    }

    fn retract(&mut self) {
        either!(self, app => app.retract());
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        either!(self, app => app.take_countdowns())
    }

    fn tidy(&mut self) -> bool {
        either!(self, app => app.tidy())
    }

    fn query(&self, query: &Query) -> Answer {
        match (self, query) {
            (RedisApplication::Embedded(app), Query::Embedded(query)) => {
                Answer::Embedded(app.query(query))
            }
            (RedisApplication::Effects(app), Query::Effects(query)) => {
                Answer::Effects(app.query(query))
            }
            _ => Answer::Unknown,
        }
    }

    fn cut(&mut self) -> Cut {
        match self {
            RedisApplication::Embedded(app) => Cut::Embedded(app.cut()),
            RedisApplication::Effects(app) => Cut::Effects(app.cut()),
        }
    }

    fn cut_digest(&self, cut: &Cut) -> Option<u64> {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.cut_digest(cut),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.cut_digest(cut),
            _ => None,
        }
    }

    fn has_cut_digests(&self) -> bool {
        either!(self, app => app.has_cut_digests())
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.piece(cut, bytes),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.piece(cut, bytes),
            _ => None,
        }
    }

    fn release(&mut self, cut: Cut) {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.release(cut),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.release(cut),
            _ => {}
        }
    }

    fn empty(&self) -> Self {
        match self {
            RedisApplication::Embedded(app) => RedisApplication::Embedded(app.empty()),
            RedisApplication::Effects(app) => RedisApplication::Effects(app.empty()),
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        either!(self, app => app.load(piece))
    }

    fn loaded(&mut self) -> Result<(), String> {
        either!(self, app => app.loaded())
    }

    fn installed(&mut self) {
        either!(self, app => app.installed());
    }
}
