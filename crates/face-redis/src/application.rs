//! The application of a group with the Redis face: the embedded store, the stream of effects of real servers, or
//! commands for real servers.
//!
//! It is one type, because a face is over one. The first epoch of a group says which it is, and bodies say it again
//! with their first byte.

use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Countdown, Payload};
use quorate_redis_commands as commands;
use quorate_redis_commands::{Commands, CommandsAnswer, CommandsQuery};
use quorate_redis_effects as effects;
use quorate_redis_effects::{Stream, StreamQuery, StreamState};
use quorate_redis_store as store;
use quorate_redis_store::Store;

/// The state machine behind the Redis face.
#[derive(Debug)]
pub enum RedisApplication {
    /// The store of this program.
    Embedded(Store),
    /// The stream of what an unmodified server does.
    Effects(Stream),
    /// Commands that every replica's server carries out.
    Commands(Commands),
}

/// A read of one of the applications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// A read of the embedded store.
    Embedded(store::Query),
    /// A question for the state of the stream.
    Effects(StreamQuery),
    /// A question for what commands came to.
    Commands(CommandsQuery),
}

/// The answer to a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The embedded store's answer.
    Embedded(store::Answer),
    /// The state of the stream.
    Effects(StreamState),
    /// What commands came to.
    Commands(CommandsAnswer),
    /// The query is not of this application.
    Unknown,
}

/// A snapshot of one of the applications.
#[derive(Debug)]
pub enum Cut {
    /// A snapshot of the embedded store.
    Embedded(<Store as Application>::Cut),
    /// A snapshot of the stream.
    Effects(effects::Cut),
    /// A snapshot of what commands came to.
    Commands(commands::Cut),
}

impl RedisApplication {
    /// What the bodies of commands say by themselves: each says which of the applications it is for.
    const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows: |body| (properties_of(body).grows)(body),
        touches: Some(|body| {
            properties_of(body)
                .touches
                .and_then(|touches| touches(body))
        }),
        ..CommandProperties::UNKNOWN
    };
}

/// The properties of commands of the application that this body is for.
fn properties_of(body: &Bytes) -> CommandProperties {
    match body.first() {
        Some(&effects::BODY_TAG) => Stream::COMMAND_PROPERTIES,
        Some(&commands::BODY_TAG) => Commands::COMMAND_PROPERTIES,
        _ => Store::COMMAND_PROPERTIES,
    }
}

/// Calls a method of whichever application it is.
macro_rules! whichever {
    ($self:ident, $app:ident => $call:expr) => {
        match $self {
            RedisApplication::Embedded($app) => $call,
            RedisApplication::Effects($app) => $call,
            RedisApplication::Commands($app) => $call,
        }
    };
}

impl Application for RedisApplication {
    type Query = Query;
    type Answer = Answer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        whichever!(self, app => app.apply(at, body, payloads))
    }

    fn command_properties(&self) -> CommandProperties {
        RedisApplication::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        whichever!(self, app => app.is_retractable(body))
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        whichever!(self, app => app.attempt(at, body))
    }

    fn keep(&mut self) {
        whichever!(self, app => app.keep());
    }

    fn retract(&mut self) {
        whichever!(self, app => app.retract());
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        whichever!(self, app => app.take_countdowns())
    }

    fn tidy(&mut self) -> bool {
        whichever!(self, app => app.tidy())
    }

    fn query(&self, query: &Query) -> Answer {
        match (self, query) {
            (RedisApplication::Embedded(app), Query::Embedded(query)) => {
                Answer::Embedded(app.query(query))
            }
            (RedisApplication::Effects(app), Query::Effects(query)) => {
                Answer::Effects(app.query(query))
            }
            (RedisApplication::Commands(app), Query::Commands(query)) => {
                Answer::Commands(app.query(query))
            }
            _ => Answer::Unknown,
        }
    }

    fn cut(&mut self) -> Cut {
        match self {
            RedisApplication::Embedded(app) => Cut::Embedded(app.cut()),
            RedisApplication::Effects(app) => Cut::Effects(app.cut()),
            RedisApplication::Commands(app) => Cut::Commands(app.cut()),
        }
    }

    fn cut_digest(&self, cut: &Cut) -> Option<u64> {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.cut_digest(cut),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.cut_digest(cut),
            (RedisApplication::Commands(app), Cut::Commands(cut)) => app.cut_digest(cut),
            _ => None,
        }
    }

    fn has_cut_digests(&self) -> bool {
        whichever!(self, app => app.has_cut_digests())
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.piece(cut, bytes),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.piece(cut, bytes),
            (RedisApplication::Commands(app), Cut::Commands(cut)) => app.piece(cut, bytes),
            _ => None,
        }
    }

    fn release(&mut self, cut: Cut) {
        match (self, cut) {
            (RedisApplication::Embedded(app), Cut::Embedded(cut)) => app.release(cut),
            (RedisApplication::Effects(app), Cut::Effects(cut)) => app.release(cut),
            (RedisApplication::Commands(app), Cut::Commands(cut)) => app.release(cut),
            _ => {}
        }
    }

    fn empty(&self) -> Self {
        match self {
            RedisApplication::Embedded(app) => RedisApplication::Embedded(app.empty()),
            RedisApplication::Effects(app) => RedisApplication::Effects(app.empty()),
            RedisApplication::Commands(app) => RedisApplication::Commands(app.empty()),
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        whichever!(self, app => app.load(piece))
    }

    fn loaded(&mut self) -> Result<(), String> {
        whichever!(self, app => app.loaded())
    }

    fn installed(&mut self) {
        whichever!(self, app => app.installed());
    }
}
