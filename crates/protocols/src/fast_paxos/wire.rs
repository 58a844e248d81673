//! The encoding of messages and records.

use super::config::SLOTS_MAX;
use super::messages::{Accept, Commit, FastVote, Known, Message, Promise, Record, Shown, Vote};
use quorate_core::{Decoder, Encoder, Wire, WireError};

/// Encodes a struct of named fields as one value after the other, and reads it back.
macro_rules! wire_of_fields {
    ($($type:ident { $($field:ident),+ }),+ $(,)?) => {
        $(impl Wire for $type {
            fn encode(&self, out: &mut Encoder) {
                $(self.$field.encode(out);)+
            }

            fn decode(input: &mut Decoder) -> Result<Self, WireError> {
                $(let $field = get(input)?;)+
                Ok($type { $($field),+ })
            }
        })+
    };
}

wire_of_fields! {
    FastVote { ballot, slot, entry },
    Accept { ballot, slot, value },
    Shown { slot, vote },
    Known { ballot, mark },
}

/// Writes a tag and what follows it.
macro_rules! put {
    ($out:expr, $tag:expr $(, $value:expr)*) => {{
        $out.u8($tag);
        $($value.encode($out);)*
    }};
}

/// Reads a value of whatever type is wanted.
fn get<T: Wire>(input: &mut Decoder) -> Result<T, WireError> {
    T::decode(input)
}

/// Writes a list.
fn put_all<T: Wire>(all: &[T], out: &mut Encoder) {
    out.varint(all.len() as u64);
    all.iter().for_each(|one| one.encode(out));
}

/// Reads a list of no more elements than honest replicas keep slots, each of at least `bytes_min` bytes.
fn get_all<T: Wire>(input: &mut Decoder, bytes_min: usize) -> Result<Vec<T>, WireError> {
    match input.count(bytes_min)? {
        count if count > SLOTS_MAX => Err(WireError::Range("slots")),
        count => (0..count).map(|_| get(input)).collect(),
    }
}

const NAME_BYTES_MIN: usize = 1;
const SHOWN_BYTES_MIN: usize = 5;

impl Wire for Vote {
    fn encode(&self, out: &mut Encoder) {
        put!(out, u8::from(self.is_classic), self.ballot, self.value);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let is_classic = match input.u8()? {
            0 => false,
            1 => true,
            tag => return Err(WireError::Tag("fast-paxos vote", tag)),
        };
        Ok(Vote {
            is_classic,
            ballot: get(input)?,
            value: get(input)?,
        })
    }
}

impl Wire for Commit {
    fn encode(&self, out: &mut Encoder) {
        self.ballot.encode(out);
        self.any.encode(out);
        self.first.encode(out);
        put_all(&self.names, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Commit {
            ballot: get(input)?,
            any: get(input)?,
            first: get(input)?,
            names: get_all(input, NAME_BYTES_MIN)?,
        })
    }
}

impl Wire for Promise {
    fn encode(&self, out: &mut Encoder) {
        self.ballot.encode(out);
        self.delivered.encode(out);
        put_all(&self.shown, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Promise {
            ballot: get(input)?,
            delivered: get(input)?,
            shown: get_all(input, SHOWN_BYTES_MIN)?,
        })
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Message::Propose(entry) => put!(out, 0, entry),
            Message::FastVote(vote) => put!(out, 1, vote),
            Message::Accept(accept) => put!(out, 2, accept),
            Message::Accepted(ballot, slot) => put!(out, 3, ballot, slot),
            Message::Commit(commit) => put!(out, 4, commit),
            Message::Prepare(ballot, from) => put!(out, 5, ballot, from),
            Message::Promise(promise) => put!(out, 6, promise),
            Message::Nack(promised) => put!(out, 7, promised),
            Message::Ask(next) => put!(out, 8, next),
            Message::ReadQ(query) => put!(out, 9, query),
            Message::ReadA(query, known) => put!(out, 10, query, known),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Message::Propose(get(input)?),
            1 => Message::FastVote(get(input)?),
            2 => Message::Accept(get(input)?),
            3 => Message::Accepted(get(input)?, get(input)?),
            4 => Message::Commit(get(input)?),
            5 => Message::Prepare(get(input)?, get(input)?),
            6 => Message::Promise(get(input)?),
            7 => Message::Nack(get(input)?),
            8 => Message::Ask(get(input)?),
            9 => Message::ReadQ(get(input)?),
            10 => Message::ReadA(get(input)?, get(input)?),
            tag => return Err(WireError::Tag("fast-paxos message", tag)),
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Vote(shown) => put!(out, 0, shown),
            Record::Promise(ballot) => put!(out, 1, ballot),
            Record::Lost => put!(out, 2),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Vote(get(input)?),
            1 => Record::Promise(get(input)?),
            2 => Record::Lost,
            tag => return Err(WireError::Tag("fast-paxos record", tag)),
        })
    }
}
