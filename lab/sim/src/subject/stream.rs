//! The stream of effects as the application under test: its commands are those of drivers, which stand beside replicas.
//!
//! What clients of the cluster itself ask is harmless: pieces of an epoch that never begins, of whatever length, and
//! where the stream stands. Epochs and lengths never go back, in an order that real time allows.

use super::{Ask, Asked, Subject, Who, Workload};
use crate::judge::{self, Journal};
use crate::plan::Load;
use crate::values::Values;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Payload, Wire};
use quorate_etcd_store::Flaw;
use quorate_plain_store::Store as PlainStore;
use quorate_redis_effects::{
    Command, MemoryFiles, Outcome, Shared, Stream, StreamQuery, StreamState,
};
use std::rc::Rc;
use std::sync::Arc;

/// What a client asks of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Submits a piece of so many bytes that no epoch takes.
    Piece(usize),
    /// Asks where the stream stands.
    State,
}

/// Where the stream stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Returned {
    /// When the answer arrived.
    stamp: u64,
    epoch: u64,
    /// The length, where that was told.
    len: Option<u64>,
}

impl Subject for Stream {
    type Request = Request;
    type Returned = Returned;
    type Workload = StreamLoad;
    const HAS_SERVERS: bool = true;

    fn fresh(_: Option<Flaw>) -> Stream {
        Stream::new(Shared::new(Arc::new(MemoryFiles), Box::new(|| {})))
    }

    fn limit(load: &mut Load) {
        PlainStore::limit(load);
    }

    fn put(_: u8, _: u64, bytes: usize) -> Request {
        Request::Piece(bytes)
    }

    fn get(_: u8) -> Request {
        Request::State
    }

    fn command(request: &Request, _: Option<usize>) -> (Bytes, Vec<Payload>) {
        let Request::Piece(bytes) = request else {
            unreachable!("reads are not commands");
        };
        let piece = Command::Effects {
            epoch: u64::MAX,
            start: 0,
            bytes: vec![b'.'; (*bytes).max(1)].into(),
            last: true,
        };
        (piece.to_bytes(), Vec::new())
    }

    fn read(_: &Request) -> StreamQuery {
        StreamQuery
    }

    fn response(
        request: &Request,
        result: &Bytes,
        _: &Values,
        stamp: u64,
    ) -> Result<Returned, String> {
        match Outcome::from_bytes(result.clone()) {
            Ok(Outcome::Void { epoch, .. }) => Ok(Returned {
                stamp,
                epoch,
                len: None,
            }),
            other => Err(format!("{request:?} was answered {other:?}")),
        }
    }

    fn got(state: &StreamState, _: &Values, stamp: u64) -> Result<Returned, String> {
        Ok(Returned {
            stamp,
            epoch: state.epoch,
            len: Some(state.len),
        })
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        Some(Arc::clone(Stream::shared(self)))
    }

    fn stream_state(state: &StreamState) -> Option<StreamState> {
        Some(*state)
    }

    fn judge(
        history: Vec<Asked<Stream>>,
        _: Vec<judge::Op>,
        _: &[judge::Sight],
        _: &Journal,
    ) -> Result<(), String> {
        // What was told before a request began is the least that it may be told.
        let mut told: Vec<Returned> = (history.iter())
            .filter_map(|asked| asked.returned.clone())
            .collect();
        told.sort_by_key(|returned| returned.stamp);
        let mut asked: Vec<(u64, &Returned)> = (history.iter())
            .filter_map(|asked| Some((asked.invoked, asked.returned.as_ref()?)))
            .collect();
        asked.sort_by_key(|(invoked, _)| *invoked);
        let (mut before, mut epoch, mut len) = (told.iter().peekable(), 0, 0);
        for (invoked, returned) in asked {
            while let Some(earlier) = before.next_if(|earlier| earlier.stamp < invoked) {
                epoch = epoch.max(earlier.epoch);
                len = len.max(earlier.len.unwrap_or(0));
            }
            if returned.epoch < epoch || returned.len.is_some_and(|told| told < len) {
                return Err(format!(
                    "after epoch {epoch} and length {len}, {returned:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Draws harmless pieces and questions.
pub(crate) struct StreamLoad;

impl Workload<Stream> for StreamLoad {
    fn new(_: &Load, _: Rng) -> StreamLoad {
        StreamLoad
    }

    fn draw(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Ask<Request> {
        if rng.u8(..10) < 3 {
            return Ask::Read(Rc::new(Request::State));
        }
        let change = Rc::new(self.change(rng, who, next_value));
        match rng.bool() {
            true => Ask::Command(change),
            false => Ask::Write(change),
        }
    }

    fn change(&mut self, rng: &mut Rng, _: &Who, _: &mut u64) -> Request {
        Request::Piece(rng.usize(1..200))
    }

    fn arrive(&mut self, rng: &mut Rng, _: &mut u64) -> (u8, Request) {
        (0, Request::Piece(rng.usize(1..200)))
    }

    fn learn(&mut self, _: usize, _: u8, _: &Request, _: &Returned) {}
}
