//! The encoding of records, and of what messages are made of.

mod message;

use super::digest::{Footprint, Sums};
use super::messages::{Body, LogMod, Outcome, Placed, Record, StartView, Vc};
use quorate_core::{Decoder, Encoder, Entry, EntryId, Epoch, Slot, Wire, WireError};

/// Entries that one message or record names, at most.
const NAMED_MAX: usize = 1 << 17;

/// Views and slots, at most.
pub(super) const NUMBER_MAX: u64 = 1 << 56;

pub(super) const ID_BYTES_MIN: usize = 10;
const PLACED_BYTES_MIN: usize = 18;
pub(super) const BODY_BYTES_MIN: usize = 21;
const SUM_BYTES: usize = 20;

pub(super) fn list<T: Wire>(items: &[T], out: &mut Encoder) {
    out.varint(items.len() as u64);
    items.iter().for_each(|item| item.encode(out));
}

pub(super) fn listed<T: Wire>(input: &mut Decoder, bytes_min: usize) -> Result<Vec<T>, WireError> {
    let count = input.count(bytes_min)?;
    if count > NAMED_MAX {
        return Err(WireError::Range("entries in a message"));
    }
    (0..count).map(|_| T::decode(input)).collect()
}

pub(super) fn counts(cv: &[u64], out: &mut Encoder) {
    out.varint(cv.len() as u64);
    cv.iter().for_each(|count| out.varint(*count));
}

pub(super) fn counted(input: &mut Decoder) -> Result<Vec<u64>, WireError> {
    let count = input.count(1)?;
    if count > Epoch::MEMBERS_MAX {
        return Err(WireError::Range("members"));
    }
    (0..count).map(|_| input.varint()).collect()
}

/// A view: there is always a next one.
pub(super) fn view(input: &mut Decoder) -> Result<u64, WireError> {
    let view = input.varint()?;
    (view <= NUMBER_MAX)
        .then_some(view)
        .ok_or(WireError::Range("view"))
}

/// A slot: so many others follow it as any log has.
pub(super) fn slot(input: &mut Decoder) -> Result<Slot, WireError> {
    let slot = Slot::decode(input)?;
    (slot.0 <= NUMBER_MAX)
        .then_some(slot)
        .ok_or(WireError::Range("slot"))
}

pub(super) fn wide(value: u128, out: &mut Encoder) {
    out.slice(&value.to_le_bytes());
}

pub(super) fn widened(input: &mut Decoder) -> Result<u128, WireError> {
    input.array().map(u128::from_le_bytes)
}

impl Wire for Placed {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        out.u64(self.deadline);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Placed {
            id: EntryId::decode(input)?,
            deadline: input.u64()?,
        })
    }
}

impl Wire for Body {
    fn encode(&self, out: &mut Encoder) {
        self.footprint.encode(out);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Body {
            footprint: Footprint::decode(input)?,
            entry: Entry::decode(input)?,
        })
    }
}

impl Wire for Sums {
    fn encode(&self, out: &mut Encoder) {
        wide(self.total, out);
        wide(self.all, out);
        let buckets = self.buckets.ascending();
        out.varint(buckets.len() as u64);
        for (bucket, sum) in buckets {
            out.u32(bucket);
            wide(sum, out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (total, all) = (widened(input)?, widened(input)?);
        let mut buckets: Vec<(u32, u128)> = Vec::new();
        for _ in 0..input.count(SUM_BYTES)? {
            let (bucket, sum) = (input.u32()?, widened(input)?);
            let is_next = buckets.last().is_none_or(|(last, _)| *last < bucket);
            if !is_next || sum == 0 {
                return Err(WireError::Range("sums of buckets"));
            }
            buckets.push((bucket, sum));
        }
        Ok(Sums {
            total,
            all,
            buckets: buckets.into_iter().collect(),
        })
    }
}

impl Wire for Outcome {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        out.u64(self.deadline);
        out.varint(self.results.len() as u64);
        self.results.iter().for_each(|result| out.bytes(result));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (slot, deadline) = (slot(input)?, input.u64()?);
        let count = input.count(1)?;
        let results: Result<_, _> = (0..count).map(|_| input.bytes()).collect();
        Ok(Outcome {
            slot,
            deadline,
            results: results?,
        })
    }
}

impl Wire for LogMod {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.view);
        self.first.encode(out);
        list(&self.entries, out);
        self.cp.encode(out);
        counts(&self.cv, out);
        self.sums.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(LogMod {
            view: view(input)?,
            first: slot(input)?,
            entries: listed(input, PLACED_BYTES_MIN)?,
            cp: slot(input)?,
            cv: counted(input)?,
            sums: Option::decode(input)?,
        })
    }
}

impl Wire for Vc {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.view);
        out.varint(self.lnv);
        self.first.encode(out);
        list(&self.log, out);
        list(&self.un, out);
        counts(&self.cv, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Vc {
            view: view(input)?,
            lnv: view(input)?,
            first: slot(input)?,
            log: listed(input, PLACED_BYTES_MIN)?,
            un: listed(input, PLACED_BYTES_MIN)?,
            cv: counted(input)?,
        })
    }
}

impl Wire for StartView {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.view);
        out.u64(self.nonce);
        self.first.encode(out);
        list(&self.log, out);
        self.sums.encode(out);
        self.cp.encode(out);
        counts(&self.cv, out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(StartView {
            view: view(input)?,
            nonce: input.u64()?,
            first: slot(input)?,
            log: listed(input, PLACED_BYTES_MIN)?,
            sums: Sums::decode(input)?,
            cp: slot(input)?,
            cv: counted(input)?,
        })
    }
}

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Append {
                view,
                slot,
                deadline,
                body,
            } => {
                out.u8(0);
                out.varint(*view);
                slot.encode(out);
                out.u64(*deadline);
                body.encode(out);
            }
            Record::Sync { view, slot, placed } => {
                out.u8(1);
                out.varint(*view);
                slot.encode(out);
                placed.encode(out);
            }
            Record::Unsynced {
                view,
                deadline,
                body,
            } => {
                out.u8(2);
                out.varint(*view);
                out.u64(*deadline);
                body.encode(out);
            }
            Record::View { view } => {
                out.u8(3);
                out.varint(*view);
            }
            Record::Start { view, first, log } => {
                out.u8(4);
                out.varint(*view);
                first.encode(out);
                list(log, out);
            }
            Record::Life { cv, is_recovering } => {
                out.u8(if *is_recovering { 6 } else { 5 });
                counts(cv, out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Record::Append {
                view: view(input)?,
                slot: slot(input)?,
                deadline: input.u64()?,
                body: Body::decode(input)?,
            },
            1 => Record::Sync {
                view: view(input)?,
                slot: slot(input)?,
                placed: Placed::decode(input)?,
            },
            2 => Record::Unsynced {
                view: view(input)?,
                deadline: input.u64()?,
                body: Body::decode(input)?,
            },
            3 => Record::View { view: view(input)? },
            4 => Record::Start {
                view: view(input)?,
                first: slot(input)?,
                log: listed(input, PLACED_BYTES_MIN)?,
            },
            tag @ (5 | 6) => Record::Life {
                cv: counted(input)?,
                is_recovering: tag == 6,
            },
            tag => return Err(WireError::Tag("nezha record", tag)),
        })
    }
}
