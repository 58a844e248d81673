//! The values of keys, in every form in which servers write them.

use crate::error::Fault;
use crate::packed::Packing;
use crate::source::Source;
use bytes::Bytes;
use std::io::Read;

/// What a key holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// The bytes of a string.
    Str(Bytes),
    /// The elements of a list, in order.
    List(Vec<Bytes>),
    /// The members of a set.
    Set(Vec<Bytes>),
    /// The fields of a hash, and their values.
    Hash(Vec<(Bytes, Bytes)>),
    /// The members of a sorted set, and their scores.
    Sorted(Vec<(Bytes, f64)>),
}

impl Value {
    /// Whether it has no elements, as some old servers wrote it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Str(_) => false,
            Value::List(elements) | Value::Set(elements) => elements.is_empty(),
            Value::Hash(fields) => fields.is_empty(),
            Value::Sorted(members) => members.is_empty(),
        }
    }
}

impl Value {
    /// The length of its longest text, in bytes.
    #[must_use]
    pub fn longest_bytes(&self) -> usize {
        let longest = match self {
            Value::Str(text) => Some(text.len()),
            Value::List(texts) | Value::Set(texts) => texts.iter().map(Bytes::len).max(),
            Value::Hash(fields) => {
                let longer = |(field, value): &(Bytes, Bytes)| field.len().max(value.len());
                fields.iter().map(longer).max()
            }
            Value::Sorted(members) => members.iter().map(|(member, _)| member.len()).max(),
        };
        longest.unwrap_or(0)
    }
}

/// Reads a value of the kind that its number says.
pub(crate) fn read<R: Read>(kind: u8, source: &mut Source<R>) -> Result<Value, Fault> {
    use Packing::{Integers, Listpack, Ziplist};
    match kind {
        0 => Ok(Value::Str(source.string()?)),
        1 => strings(source, 1).map(Value::List),
        2 => strings(source, 1).map(Value::Set),
        3 => scored(source, old_score),
        4 => strings(source, 2).and_then(pairs).map(Value::Hash),
        5 => scored(source, |source| Ok(f64::from_le_bytes(source.array()?))),
        10 => unpacked(source, Ziplist).map(Value::List),
        11 => unpacked(source, Integers).map(Value::Set),
        12 => unpacked(source, Ziplist).and_then(with_scores),
        13 => unpacked(source, Ziplist).and_then(pairs).map(Value::Hash),
        14 => nodes(source, |source| unpacked(source, Ziplist)),
        16 => unpacked(source, Listpack).and_then(pairs).map(Value::Hash),
        17 => unpacked(source, Listpack).and_then(with_scores),
        18 => nodes(source, |source| match source.length()? {
            1 => Ok(vec![source.string()?]),
            2 => unpacked(source, Listpack),
            _ => Err(Fault::Damaged("a part of a list")),
        }),
        20 => unpacked(source, Listpack).map(Value::Set),
        other => Err(refused(other)),
    }
}

/// Why a kind of value is not read.
fn refused(kind: u8) -> Fault {
    match kind {
        6 | 7 => Fault::Refused("it belongs to a module"),
        9 => Fault::Refused(
            "it is a hash as Redis before 2.6 wrote it: load and save the file with a newer one",
        ),
        15 | 19 | 21 | 26.. => Fault::Refused("it is a stream"),
        22..=25 => Fault::Refused("it is a hash whose fields have times to live"),
        _ => Fault::Damaged("a kind of value that there is not"),
    }
}

/// A count of strings, or of so many together, and these.
fn strings<R: Read>(source: &mut Source<R>, each: usize) -> Result<Vec<Bytes>, Fault> {
    let count = source.count()?;
    let count = count
        .checked_mul(each)
        .filter(|count| *count as u64 <= source.left());
    let count = count.ok_or(Fault::Short)?;
    (0..count).map(|_| source.string()).collect()
}

fn unpacked<R: Read>(source: &mut Source<R>, packing: Packing) -> Result<Vec<Bytes>, Fault> {
    packing.elements(&source.string()?)
}

/// A list in parts.
fn nodes<R: Read>(
    source: &mut Source<R>,
    read: impl Fn(&mut Source<R>) -> Result<Vec<Bytes>, Fault>,
) -> Result<Value, Fault> {
    let mut all = Vec::new();
    for _ in 0..source.count()? {
        all.append(&mut read(source)?);
    }
    Ok(Value::List(all))
}

fn pairs(elements: Vec<Bytes>) -> Result<Vec<(Bytes, Bytes)>, Fault> {
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let Some(one) = elements.next() {
        let other = elements.next();
        pairs.push((one, other.ok_or(Fault::Damaged("a field without a value"))?));
    }
    Ok(pairs)
}

fn with_scores(elements: Vec<Bytes>) -> Result<Value, Fault> {
    let scored = |(member, score): (Bytes, Bytes)| Ok((member, number(&score)?));
    let members: Result<_, Fault> = pairs(elements)?.into_iter().map(scored).collect();
    members.map(Value::Sorted)
}

fn scored<R: Read>(
    source: &mut Source<R>,
    score: impl Fn(&mut Source<R>) -> Result<f64, Fault>,
) -> Result<Value, Fault> {
    let mut members = Vec::new();
    for _ in 0..source.count()? {
        let member = source.string()?;
        let score = score(source)?;
        if score.is_nan() {
            return Err(Fault::Damaged("a score that is no number"));
        }
        members.push((member, score));
    }
    Ok(Value::Sorted(members))
}

/// A score as it was written before it had eight bytes.
fn old_score<R: Read>(source: &mut Source<R>) -> Result<f64, Fault> {
    match source.byte()? {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        length => number(&source.bytes(u64::from(length))?),
    }
}

fn number(text: &[u8]) -> Result<f64, Fault> {
    let text = std::str::from_utf8(text).ok();
    let number = text.and_then(|text| text.parse::<f64>().ok());
    let number = number.filter(|number| !number.is_nan());
    number.ok_or(Fault::Damaged("a score that is no number"))
}
