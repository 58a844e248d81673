//! The encoding of messages and records: one field after the other, and a number before each kind.

use super::messages::{
    Accept, Commit, Conflict, Header, Kept, Message, PreAccept, Record, Said, Shown, Validate,
    Validated,
};
use super::state::{Deps, Phase};
use crate::shared::ballot::Ballot;
use crate::shared::decided::{decode_ids, encode_ids};
use crate::shared::lags::Probe;
use crate::shared::question::QuestionName;
use quorate_core::{Decoder, Encoder, Entry, EntryId, MemberSet, Slot, Wire, WireError};

/// Something that messages and records are made of.
trait Part: Sized {
    fn put(&self, out: &mut Encoder);
    fn take(input: &mut Decoder) -> Result<Self, WireError>;
}

/// Parts that have an encoding by themselves.
macro_rules! parts {
    ($($part:ty),+ $(,)?) => {
        $(impl Part for $part {
            fn put(&self, out: &mut Encoder) {
                Wire::encode(self, out);
            }

            fn take(input: &mut Decoder) -> Result<Self, WireError> {
                Wire::decode(input)
            }
        })+
    };
}

/// Parts that are made of others, in this order.
macro_rules! made_of {
    ($($whole:ident: $($field:ident)+;)+) => {
        $(impl Part for $whole {
            fn put(&self, out: &mut Encoder) {
                $(self.$field.put(out);)+
            }

            fn take(input: &mut Decoder) -> Result<Self, WireError> {
                Ok($whole { $($field: Part::take(input)?),+ })
            }
        })+
    };
}

/// Kinds, each with its number and what follows it.
macro_rules! kinds {
    ($whole:ident, $what:literal: $($tag:literal $kind:ident($($it:ident)*);)+) => {
        impl Part for $whole {
            fn put(&self, out: &mut Encoder) {
                match self {
                    $($whole::$kind($($it),*) => {
                        out.u8($tag);
                        $($it.put(out);)*
                    })+
                }
            }

            fn take(input: &mut Decoder) -> Result<Self, WireError> {
                match input.u8()? {
                    $($tag => {
                        $(let $it = Part::take(input)?;)*
                        Ok($whole::$kind($($it),*))
                    })+
                    tag => Err(WireError::Tag($what, tag)),
                }
            }
        }
    };
}

parts!(
    Ballot,
    Deps,
    Entry,
    EntryId,
    Phase,
    QuestionName,
    Slot,
    Option<Deps>,
    Option<Entry>
);

made_of! {
    Header: delivered durable;
    Message: header said;
    PreAccept: entry deps quorum keep_at_ns sent_ns;
    Probe: sent_ns arrived_ns;
    Accept: id ballot value deps;
    Commit: id is_void entry deps;
    Shown: id ballot accepted phase is_void entry deps initial quorum is_coordinating;
    Validate: ballot entry deps;
    Validated: id ballot conflicts after;
    Conflict: id is_committed;
    Kept: id version entry phase ballot accepted is_void deps initial quorum;
}

kinds! { Said, "epaxos message":
    0 PreAccept(it);
    1 PreAcceptA(id deps probe);
    2 Accept(it);
    3 AcceptA(id ballot);
    4 Commit(it);
    5 Recover(id ballot);
    6 RecoverA(it);
    7 Nack(id ballot);
    8 Validate(it);
    9 ValidateA(it);
    10 Waiting(id count deps);
    11 Ask(ids);
    12 Progress(is_question);
    13 ReadQ(question);
    14 ReadA(question slot);
}

impl Part for bool {
    fn put(&self, out: &mut Encoder) {
        out.u8(u8::from(*self));
    }

    fn take(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(WireError::Tag("epaxos flag", tag)),
        }
    }
}

impl Part for u64 {
    fn put(&self, out: &mut Encoder) {
        out.varint(*self);
    }

    fn take(input: &mut Decoder) -> Result<Self, WireError> {
        input.varint()
    }
}

impl Part for MemberSet {
    fn put(&self, out: &mut Encoder) {
        out.varint(self.bits());
    }

    fn take(input: &mut Decoder) -> Result<Self, WireError> {
        input.varint().map(MemberSet::from_bits)
    }
}

impl Part for Vec<EntryId> {
    fn put(&self, out: &mut Encoder) {
        encode_ids(self, out);
    }

    fn take(input: &mut Decoder) -> Result<Self, WireError> {
        decode_ids(input)
    }
}

/// Bytes of a conflict, at least.
const CONFLICT_BYTES_MIN: usize = 11;

impl Part for Vec<Conflict> {
    fn put(&self, out: &mut Encoder) {
        out.varint(self.len() as u64);
        self.iter().for_each(|conflict| conflict.put(out));
    }

    fn take(input: &mut Decoder) -> Result<Self, WireError> {
        let count = input.count(CONFLICT_BYTES_MIN)?;
        (0..count).map(|_| Conflict::take(input)).collect()
    }
}

impl Wire for Deps {
    fn encode(&self, out: &mut Encoder) {
        let ids: Vec<EntryId> = self.ids.iter().copied().collect();
        ids.put(out);
        self.after.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let ids = decode_ids(input)?;
        if !ids.is_sorted_by(|one, next| one < next) {
            return Err(WireError::Range("order of dependencies"));
        }
        Ok(Deps {
            ids: ids.into_iter().collect(),
            after: Slot::decode(input)?,
        })
    }
}

impl Wire for Phase {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self {
            Phase::Unknown => 0,
            Phase::PreAccepted => 1,
            Phase::Accepted => 2,
            Phase::Committed => 3,
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(Phase::Unknown),
            1 => Ok(Phase::PreAccepted),
            2 => Ok(Phase::Accepted),
            3 => Ok(Phase::Committed),
            tag => Err(WireError::Tag("epaxos phase", tag)),
        }
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Encoder) {
        self.put(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Message::take(input)
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Instance(kept) => {
                out.u8(0);
                kept.put(out);
            }
            Record::Delivered(slot) => {
                out.u8(1);
                slot.encode(out);
            }
            Record::Lost => out.u8(2),
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Kept::take(input).map(Record::Instance),
            1 => Slot::decode(input).map(Record::Delivered),
            2 => Ok(Record::Lost),
            tag => Err(WireError::Tag("epaxos record", tag)),
        }
    }
}
