//! The encoding of messages and records.

use super::config::{LANES_MAX, LISTED_MAX};
use super::messages::{
    Accept, Accepted, Ask, Beat, Held, LaneNo, LaneRecord, Learn, Mark, Message, Named, Place,
    Placed, Promise, Proposal, Record, Round, Shown, Stamp, Step, Vote, Votes,
};
use crate::shared::lags::Probe;
use quorate_core::{Decoder, Encoder, Wire, WireError};

impl Wire for Stamp {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let stamp = Stamp(input.varint()?);
        match stamp <= Stamp::LAST {
            true => Ok(stamp),
            false => Err(WireError::Range("time")),
        }
    }
}

impl Wire for LaneNo {
    fn encode(&self, out: &mut Encoder) {
        out.u8(self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let lane = input.u8()?;
        match usize::from(lane) < LANES_MAX {
            true => Ok(LaneNo(lane)),
            false => Err(WireError::Range("lane")),
        }
    }
}

/// Something of which a message has no more than honest replicas hold.
trait Listed: Wire {
    const BYTES_MIN: usize;
}

fn all_out<T: Listed>(all: &[T], out: &mut Encoder) {
    out.varint(all.len() as u64);
    for one in all {
        one.encode(out);
    }
}

fn all_in<T: Listed>(input: &mut Decoder) -> Result<Vec<T>, WireError> {
    let count = input.count(T::BYTES_MIN)?;
    if count > LISTED_MAX {
        return Err(WireError::Range("positions"));
    }
    (0..count).map(|_| T::decode(input)).collect()
}

/// How a field is written: by itself, as a list, or as a yes or no.
macro_rules! field_out {
    (list, $value:expr, $out:ident) => {
        all_out(&$value, $out)
    };
    (flag, $value:expr, $out:ident) => {
        $out.u8(u8::from($value))
    };
    (time, $value:expr, $out:ident) => {
        $out.u64($value)
    };
    (one, $value:expr, $out:ident) => {
        $value.encode($out)
    };
}

macro_rules! field_in {
    (list, $input:ident) => {
        all_in($input)?
    };
    (flag, $input:ident) => {
        match $input.u8()? {
            0 => false,
            1 => true,
            tag => return Err(WireError::Tag("domino flag", tag)),
        }
    };
    (time, $input:ident) => {
        $input.u64()?
    };
    (one, $input:ident) => {
        Wire::decode($input)?
    };
}

/// Structs as their fields, one after the other.
macro_rules! structs {
    ($($type:ident { $($field:ident: $how:ident),+ $(,)? })+) => {
        $(impl Wire for $type {
            fn encode(&self, out: &mut Encoder) {
                $(field_out!($how, self.$field, out);)+
            }

            fn decode(input: &mut Decoder) -> Result<Self, WireError> {
                Ok($type { $($field: field_in!($how, input)),+ })
            }
        })+
    };
}

structs! {
    Named { stamp: one, id: one }
    Placed { stamp: one, entry: one }
    Proposal { stamp: one, sent_ns: time, entry: one }
    Probe { sent_ns: time, arrived_ns: time }
    Vote { ballot: one, named: one, is_for: flag, probe: one }
    Votes { ballot: one, from: one, nat: one, named: list }
    Learn { lane: one, since: one, from: one, through: one, named: list }
    Beat { learned: list, votes: one }
    Accept { lane: one, ballot: one, since: one, prev: one, through: one, sent_ns: time, placed: list }
    Accepted { lane: one, ballot: one, through: one, probe: one }
    Step { through: one, ballot: one }
    Round { ballot: one, nat: one }
    Held { ballot: one, is_classic: flag, id: one }
    Shown { stamp: one, held: one, entry: one }
    Mark { next: one, walk: one }
    Promise { lane: one, ballot: one, mark: one, steps: list, round: one, shown: list }
    Ask { mark: one, until: one }
    LaneRecord { lane: one, promised: one, steps: list, round: one }
    Place { lane: one, stamp: one, ballot: one, is_classic: flag }
}

/// The fewest bytes that elements of lists take.
macro_rules! listed {
    ($($type:ident $bytes:literal),+) => {
        $(impl Listed for $type {
            const BYTES_MIN: usize = $bytes;
        })+
    };
}

listed!(Named 3, Placed 3, Learn 5, Step 2, Shown 5, Place 4);

/// An enum as a tag and what follows it.
macro_rules! tagged {
    ($type:ident $what:literal { $($tag:literal => $variant:ident($($part:ident),*)),+ $(,)? }) => {
        impl Wire for $type {
            fn encode(&self, out: &mut Encoder) {
                match self {
                    $($type::$variant($($part),*) => {
                        out.u8($tag);
                        $($part.encode(out);)*
                    })+
                }
            }

            fn decode(input: &mut Decoder) -> Result<Self, WireError> {
                Ok(match input.u8()? {
                    $($tag => {
                        $(let $part = Wire::decode(input)?;)*
                        $type::$variant($($part),*)
                    })+
                    tag => return Err(WireError::Tag($what, tag)),
                })
            }
        }
    };
}

tagged! {
    Message "domino message" {
        0 => Propose(proposal),
        1 => Vote(vote),
        2 => Beat(beat),
        3 => Accept(accept),
        4 => Accepted(accepted),
        5 => Prepare(lane, ballot),
        6 => Promise(promise),
        7 => Nack(lane, ballot),
        8 => Ask(ask),
        9 => Mark(mark),
        10 => ReadQ(query),
        11 => ReadA(query, stamp),
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Entry(entry, places) => {
                out.u8(0);
                entry.encode(out);
                all_out(places, out);
            }
            Record::Lane(lane) => {
                out.u8(1);
                lane.encode(out);
            }
            Record::Reserve(stamp) => {
                out.u8(2);
                stamp.encode(out);
            }
            Record::Lost => out.u8(3),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(Record::Entry(Wire::decode(input)?, all_in(input)?)),
            1 => Wire::decode(input).map(Record::Lane),
            2 => Wire::decode(input).map(Record::Reserve),
            3 => Ok(Record::Lost),
            tag => Err(WireError::Tag("domino record", tag)),
        }
    }
}
