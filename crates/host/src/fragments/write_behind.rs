//! Long records on their way to the disk: their bytes go behind everything else.
//!
//! The head of such a record is written like any other. Its body follows in steps, which the driver
//! writes and syncs while the log's flushes go on. Nothing in front waits for a body, so a record of
//! the log that names its fragments waits for it by its ticket. A step begins only when the head is
//! written: its segment has a file then, and the sync of the step covers the head as well.

use crate::api::Write;
use crate::position::Position;
use bytes::Bytes;
use std::collections::VecDeque;

/// The bodies that are not on stable storage, in the order they are written.
#[derive(Debug)]
pub(super) struct WriteBehind {
    step_bytes: u32,
    bodies: VecDeque<Body>,
    /// Bodies that ever came, and those of them that are on stable storage. The ticket of a body is
    /// how many there were with it.
    came: u64,
    done: u64,
    /// Where the step ends that the driver performs, of the first body.
    in_flight: Option<u32>,
}

/// The bytes of one record behind its head.
#[derive(Debug)]
pub(super) struct Body {
    /// Where the record begins.
    pub(super) at: Position,
    pub(super) segment_bytes: u32,
    /// The fragments and where they are, one behind the other.
    pub(super) pieces: Vec<(u32, Bytes)>,
    /// The next byte to be written, and where they end.
    pub(super) next: u32,
    pub(super) end: u32,
    /// Whether it was moved here: where it was may not go before this is on stable storage.
    pub(super) is_move: bool,
}

impl Default for WriteBehind {
    fn default() -> Self {
        WriteBehind {
            step_bytes: u32::MAX,
            bodies: VecDeque::new(),
            came: 0,
            done: 0,
            in_flight: None,
        }
    }
}

impl WriteBehind {
    /// Writes about so many bytes in one step.
    pub(super) fn in_steps_of(&mut self, bytes: usize) {
        self.step_bytes = u32::try_from(bytes.max(1)).unwrap_or(u32::MAX);
    }

    pub(super) fn push(&mut self, body: Body) {
        self.came += 1;
        self.bodies.push_back(body);
    }

    /// The next step, of a body whose head lies before `written`; `None` while one is under way.
    pub(super) fn take(&mut self, written: Position) -> Option<Write> {
        let body = self.bodies.front_mut()?;
        if self.in_flight.is_some() || body.at >= written {
            return None;
        }
        let (from, to) = (
            body.next,
            body.end.min(body.next.saturating_add(self.step_bytes)),
        );
        let pieces = body.pieces.iter();
        let chunks = pieces.filter_map(|(offset, bytes)| {
            let end = offset + bytes.len() as u32;
            let (first, last) = (from.max(*offset), to.min(end));
            (first < last).then(|| bytes.slice((first - offset) as usize..(last - offset) as usize))
        });
        let write = Write {
            segment: body.at.segment,
            segment_bytes: body.segment_bytes,
            offset: from,
            chunks: chunks.collect(),
        };
        body.next = to;
        self.in_flight = Some(to);
        Some(write)
    }

    /// The step under way is on stable storage.
    pub(super) fn stored(&mut self) {
        let to = self.in_flight.take().expect("a step was taken");
        let body = self.bodies.front().expect("a step is of the first body");
        if to == body.end {
            self.bodies.pop_front();
            self.done += 1;
        }
    }

    /// Whether everything up to this ticket is on stable storage.
    pub(super) fn is_done(&self, ticket: u64) -> bool {
        ticket <= self.done
    }

    /// The bytes of a fragment that is on its way, and the ticket of its record.
    pub(super) fn find(&self, at: Position) -> Option<(&Bytes, u64)> {
        let place = self.bodies.partition_point(|body| body.at <= at);
        let place = place.checked_sub(1)?;
        let body = &self.bodies[place];
        let is_it =
            |(offset, _): &&(u32, Bytes)| body.at.segment == at.segment && *offset == at.offset;
        let (_, bytes) = body.pieces.iter().find(is_it)?;
        Some((bytes, self.done + place as u64 + 1))
    }

    /// Where the first record begins in a segment whose body is on its way.
    pub(super) fn first_in(&self, segment: u64) -> Option<u32> {
        let mut bodies = self.bodies.iter();
        let first = bodies.find(|body| body.at.segment == segment);
        first.map(|body| body.at.offset)
    }

    /// Where the last record begins whose body is on its way.
    pub(super) fn last(&self) -> Option<Position> {
        self.bodies.back().map(|body| body.at)
    }

    /// Bytes that are on their way; of those that were moved only, if asked.
    pub(super) fn bytes(&self, only_moved: bool) -> usize {
        let bodies = self.bodies.iter();
        let bodies = bodies.filter(|body| body.is_move || !only_moved);
        bodies.map(|body| (body.end - body.next) as usize).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Whether something that was moved is not on stable storage yet.
    pub(super) fn has_moves(&self) -> bool {
        self.bodies.iter().any(|body| body.is_move)
    }
}
