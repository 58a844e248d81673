//! The encoding of what messages and records are made of.

use crate::chora::log::Position;
use crate::chora::messages::{Header, Logged, Proposal, Pulse, RANGES_MAX, RECOVER_MAX, Value};
use crate::chora::pattern::{SEGMENTS_MAX, Segment, ViewInit};
use crate::shared::lives::Lives;
use quorate_core::{Decoder, Encoder, Entry, Epoch, MemberIndex, Slot, Wire, WireError};
use std::sync::Arc;

/// Places of proposers in a pattern, at most: some may come more than once.
const PATTERN_MAX: usize = 4 * Epoch::MEMBERS_MAX;
/// Views and slots stay below, so that what is counted from them cannot overflow.
const NUMBER_END: u64 = 1 << 62;

fn number(input: &mut Decoder, what: &'static str) -> Result<u64, WireError> {
    let number = input.varint()?;
    (number < NUMBER_END)
        .then_some(number)
        .ok_or(WireError::Range(what))
}

pub(super) fn slot(input: &mut Decoder) -> Result<Slot, WireError> {
    number(input, "slot").map(Slot)
}

pub(super) fn view(input: &mut Decoder) -> Result<u64, WireError> {
    number(input, "view")
}

pub(super) fn flag(input: &mut Decoder) -> Result<bool, WireError> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        tag => Err(WireError::Tag("flag", tag)),
    }
}

/// A list of at most `count_max` items, each of at least `bytes_min`.
fn list<T>(
    input: &mut Decoder,
    bytes_min: usize,
    count_max: usize,
    decode: impl Fn(&mut Decoder) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = input.count(bytes_min)?;
    if count > count_max {
        return Err(WireError::Range("count"));
    }
    (0..count).map(|_| decode(input)).collect()
}

impl Wire for Position {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.eview);
        self.end.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Position {
            eview: view(input)?,
            end: slot(input)?,
        })
    }
}

impl Wire for ViewInit {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.view);
        self.initiator.encode(out);
        self.at.encode(out);
        out.varint(self.pattern.len() as u64);
        self.pattern.iter().for_each(|member| member.encode(out));
        out.varint(self.segments.len() as u64);
        for segment in &self.segments {
            out.varint(segment.eview);
            segment.first.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let init = ViewInit {
            view: view(input)?,
            initiator: MemberIndex::decode(input)?,
            at: slot(input)?,
            pattern: list(input, 1, PATTERN_MAX, MemberIndex::decode)?,
            segments: list(input, 2, SEGMENTS_MAX, |input| {
                Ok(Segment {
                    eview: view(input)?,
                    first: slot(input)?,
                })
            })?,
        };
        init.is_valid(Epoch::MEMBERS_MAX)
            .then_some(init)
            .ok_or(WireError::Range("view init"))
    }
}

impl Wire for Value {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Value::Noop => out.u8(0),
            Value::Entry(entry) => {
                out.u8(1);
                entry.encode(out);
            }
            Value::Init(init) => {
                out.u8(2);
                init.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(Value::Noop),
            1 => Entry::decode(input).map(Value::Entry),
            2 => ViewInit::decode(input).map(|init| Value::Init(Arc::new(init))),
            tag => Err(WireError::Tag("chora value", tag)),
        }
    }
}

impl Wire for Logged {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        out.varint(self.eview);
        self.value.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Logged {
            slot: slot(input)?,
            eview: view(input)?,
            value: Value::decode(input)?,
        })
    }
}

impl Wire for Proposal {
    fn encode(&self, out: &mut Encoder) {
        self.skip_from.encode(out);
        self.slot.encode(out);
        self.value.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Proposal {
            skip_from: slot(input)?,
            slot: slot(input)?,
            value: Option::decode(input)?,
        })
    }
}

impl Wire for Header {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.view);
        self.start.encode(out);
        out.varint(self.round);
        out.varint(self.pace_ns);
        out.u64(self.sent_ns);
        self.ack.encode(out);
        self.commit.encode(out);
        self.latest.encode(out);
        out.u8(u8::from(self.asks));
        self.lives.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let view = view(input)?;
        let start = match flag(input)? {
            true => Some(slot(input)?),
            false => None,
        };
        Ok(Header {
            view,
            start,
            round: number(input, "round")?,
            pace_ns: number(input, "pace")?,
            sent_ns: input.u64()?,
            ack: slot(input)?,
            commit: slot(input)?,
            latest: slot(input)?,
            asks: flag(input)?,
            lives: Lives::decode(input)?,
        })
    }
}

impl Wire for Pulse {
    fn encode(&self, out: &mut Encoder) {
        self.header.encode(out);
        self.proposal.encode(out);
        out.varint(self.nack.len() as u64);
        for slots in &self.nack {
            slots.start.encode(out);
            slots.end.encode(out);
        }
        out.varint(self.recover.len() as u64);
        self.recover.iter().for_each(|logged| logged.encode(out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Pulse {
            header: Header::decode(input)?,
            proposal: Option::decode(input)?,
            nack: list(input, 2, RANGES_MAX, |input| Ok(slot(input)?..slot(input)?))?,
            recover: list(input, 3, RECOVER_MAX, Logged::decode)?,
        })
    }
}
