//! Values in snapshots: their kinds, and the elements of those that have some.

use crate::value::{Form, Hash, List, Set, Sorted, Str, Value};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};

const STRING: u8 = 1;
const RAW_STRING: u8 = 2;
const LIST: u8 = 3;
const INTS: u8 = 4;
const SET: u8 = 5;
const PACKED: u8 = 6;
const HASH: u8 = 7;
const SMALL_SORTED: u8 = 8;
const LARGE_SORTED: u8 = 9;
const SUM_STRING: u8 = 10;

/// Elements of one record, at most.
const ELEMENTS_MAX: usize = 128;

/// Writes a text, its length before it.
pub(super) fn text(bytes: &[u8], out: &mut Encoder) {
    out.varint(bytes.len() as u64);
    out.slice(bytes);
}

/// The kind of a value, as snapshots write it.
pub(super) fn kind(value: &Value) -> u8 {
    match value {
        Value::Str(value) => match value.form {
            Form::Given => STRING,
            Form::Sum => SUM_STRING,
            Form::Raw => RAW_STRING,
        },
        Value::List(_) => LIST,
        Value::Set(Set::Ints(_)) => INTS,
        Value::Set(Set::Names(_)) => SET,
        Value::Hash(Hash::Packed(_)) => PACKED,
        Value::Hash(Hash::Names(_)) => HASH,
        Value::Sorted(Sorted {
            is_large: false, ..
        }) => SMALL_SORTED,
        Value::Sorted(_) => LARGE_SORTED,
    }
}

/// The number of a value's elements; none for a string.
pub(super) fn len(value: &Value) -> usize {
    match value {
        Value::Str(_) => 0,
        Value::List(list) => list.len(),
        Value::Set(set) => set.len(),
        Value::Hash(hash) => hash.len(),
        Value::Sorted(sorted) => sorted.len(),
    }
}

/// Writes elements from a position on: one at least, and more while there is room. How many.
pub(super) fn write(value: &Value, from: usize, room: usize, out: &mut Encoder) -> usize {
    match value {
        Value::Str(_) => 0,
        Value::List(list) => {
            let elements = list.iter_from(from);
            fill(elements, room, out, |((), element), out| text(element, out))
        }
        Value::Set(Set::Ints(ints)) => {
            let ints = ints[from..].iter();
            fill(ints, room, out, |int, out| out.u64(int.cast_unsigned()))
        }
        Value::Set(Set::Names(names)) => {
            let names = names.iter_from(from);
            fill(names, room, out, |(name, ()), out| text(name.text(), out))
        }
        Value::Hash(Hash::Packed(packed)) => fill(
            packed.iter().skip(from),
            room,
            out,
            |(field, value), out| {
                text(field, out);
                text(value, out);
            },
        ),
        Value::Hash(Hash::Names(names)) => {
            fill(names.iter_from(from), room, out, |(name, value), out| {
                text(name.text(), out);
                text(value, out);
            })
        }
        Value::Sorted(sorted) => fill(sorted.iter_from(from), room, out, |ranked, out| {
            out.u64(ranked.score.to_bits());
            text(&ranked.member, out);
        }),
    }
}

fn fill<T>(
    elements: impl Iterator<Item = T>,
    room: usize,
    out: &mut Encoder,
    write: impl Fn(T, &mut Encoder),
) -> usize {
    let mut count = 0;
    for element in elements.take(ELEMENTS_MAX) {
        write(element, out);
        count += 1;
        if out.len() >= room {
            break;
        }
    }
    count
}

/// Reads a value as it is before its elements come: a string is whole.
pub(super) fn read_head(input: &mut Decoder) -> Result<Value, WireError> {
    let value = match input.u8()? {
        STRING => Value::Str(Str::new(&input.bytes()?)),
        SUM_STRING => Value::Str(Str {
            form: Form::Sum,
            ..Str::new(&input.bytes()?)
        }),
        RAW_STRING => Value::Str(Str::raw(Bytes::copy_from_slice(&input.bytes()?))),
        LIST => Value::List(List::default()),
        INTS => Value::Set(Set::default()),
        SET => Value::Set(Set::Names(crate::tree::Tree::default())),
        PACKED => Value::Hash(Hash::default()),
        HASH => Value::Hash(Hash::Names(crate::tree::Tree::default())),
        SMALL_SORTED => Value::Sorted(Sorted::default()),
        LARGE_SORTED => Value::Sorted(Sorted::large()),
        kind => return Err(WireError::Tag("kind of a value", kind)),
    };
    Ok(value)
}

/// Reads one more element of a value.
pub(super) fn read(value: &mut Value, input: &mut Decoder) -> Result<(), WireError> {
    let is_new = match value {
        Value::Str(_) => return Err(WireError::Range("elements of a string")),
        Value::List(list) => {
            list.push((), input.bytes()?[..].into());
            true
        }
        Value::Set(set @ Set::Ints(_)) => {
            let int = input.u64()?.cast_signed();
            set.insert(int.to_string().as_bytes())
        }
        Value::Set(set) => set.insert(&input.bytes()?),
        Value::Hash(hash) => {
            let field = input.bytes()?;
            !hash.set(&field, &input.bytes()?)
        }
        Value::Sorted(sorted) => {
            let score = f64::from_bits(input.u64()?);
            if score.is_nan() {
                return Err(WireError::Range("score"));
            }
            sorted.set(&input.bytes()?, score).is_none()
        }
    };
    match is_new {
        true => Ok(()),
        false => Err(WireError::Range("elements that repeat")),
    }
}
