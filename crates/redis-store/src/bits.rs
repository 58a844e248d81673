//! Commands of bits: strings whose highest bit comes first.

use crate::context::{Exec, View};
use crate::fault::{Done, Fault};
use crate::keyspace::NEVER;
use crate::number::{integer, to_integer};
use crate::reply::Reply;
use crate::strings::{STRING_BYTES_MAX, change_bytes};
use crate::value::{Str, Value};
use bytes::Bytes;
use std::ops::Range;

const NO_OFFSET: Fault = Fault::of("ERR bit offset is not an integer or out of range");
const NO_BIT: Fault = Fault::of("ERR bit is not an integer or out of range");

/// The place of a bit.
fn to_offset(text: &[u8]) -> Result<usize, Fault> {
    let offset = integer(text).and_then(|offset| usize::try_from(offset).ok());
    offset
        .filter(|offset| offset / 8 < STRING_BYTES_MAX)
        .ok_or(NO_OFFSET)
}

fn bit(bytes: &[u8], at: usize) -> bool {
    bytes
        .get(at / 8)
        .is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
}

pub(crate) fn setbit(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let at = to_offset(&args[2])?;
    let is_set = match integer(&args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(NO_BIT),
    };
    let key = &args[1];
    if exec.get::<Str>(key)?.is_none() {
        exec.put(key, Value::Str(Str::default()), NEVER);
    }
    let Some(value) = exec.edit::<Str>(key)? else {
        return Ok(());
    };
    out.flag(bit(&value.bytes, at));
    change_bytes(value, |bytes| {
        bytes.resize(bytes.len().max(at / 8 + 1), 0);
        let mask = 0x80 >> (at % 8);
        match is_set {
            true => bytes[at / 8] |= mask,
            false => bytes[at / 8] &= !mask,
        }
    });
    Ok(())
}

pub(crate) fn getbit(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let at = to_offset(&args[2])?;
    let value = view.get::<Str>(&args[1])?;
    out.flag(value.is_some_and(|value| bit(&value.bytes, at)));
    Ok(())
}

/// Whether a range counts bits.
fn counts_bits(word: &[u8]) -> Result<bool, Fault> {
    match &word.to_ascii_uppercase()[..] {
        b"BIT" => Ok(true),
        b"BYTE" => Ok(false),
        _ => Err(Fault::SYNTAX),
    }
}

/// The bits from `start` to `end`, both inclusive, in bits or bytes, of a string of so many bytes.
fn bits(start: i64, end: i64, is_bits: bool, bytes: usize) -> Range<usize> {
    let (unit, len) = if is_bits { (1, bytes * 8) } else { (8, bytes) };
    let place = |at: i64| match at < 0 {
        true => at.saturating_add(len as i64).max(0) as usize,
        false => at as usize,
    };
    let (start, end) = (place(start), place(end).saturating_add(1).min(len));
    start.min(end) * unit..end * unit
}

pub(crate) fn bitcount(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let Some(value) = view.get::<Str>(&args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let bytes = &value.bytes;
    let range = match &args[2..] {
        [] => 0..bytes.len() * 8,
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (to_integer(start)?, to_integer(end)?);
            if start < 0 && end < 0 && start > end {
                out.integer(0);
                return Ok(());
            }
            let is_bits = unit.first().map_or(Ok(false), |unit| counts_bits(unit))?;
            bits(start, end, is_bits, bytes.len())
        }
        _ => return Err(Fault::SYNTAX),
    };
    let (first, last) = (range.start.div_ceil(8), range.end / 8);
    let count: usize = match first <= last {
        true => {
            let whole = bytes[first..last]
                .iter()
                .map(|byte| byte.count_ones() as usize);
            let edges = (range.start..first * 8).chain(last * 8..range.end);
            whole.sum::<usize>() + edges.filter(|at| bit(bytes, *at)).count()
        }
        false => range.filter(|at| bit(bytes, *at)).count(),
    };
    out.count(count);
    Ok(())
}

pub(crate) fn bitpos(view: &View<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let sought = match to_integer(&args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Fault::of("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = view.get::<Str>(&args[1])? else {
        out.integer(if sought { -1 } else { 0 });
        return Ok(());
    };
    let bytes = &value.bytes;
    let (range, has_end) = match &args[3..] {
        [] => (0..bytes.len() * 8, false),
        [start] => (bits(to_integer(start)?, -1, false, bytes.len()), false),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let start = to_integer(start)?;
            let is_bits = unit.first().map_or(Ok(false), |unit| counts_bits(unit))?;
            (bits(start, to_integer(end)?, is_bits, bytes.len()), true)
        }
        _ => return Err(Fault::SYNTAX),
    };
    let is_empty = range.is_empty();
    out.integer(match first_bit(bytes, range, sought) {
        Some(at) => at as i64,
        // Behind a string without an end that was asked for are zeros.
        None if !sought && !has_end && !is_empty => bytes.len() as i64 * 8,
        None => -1,
    });
    Ok(())
}

/// The first bit in a range that is as sought.
fn first_bit(bytes: &[u8], range: Range<usize>, sought: bool) -> Option<usize> {
    let other = if sought { 0 } else { 0xff };
    let mut at = range.start;
    while at < range.end {
        if at.is_multiple_of(8) && at + 8 <= range.end && bytes[at / 8] == other {
            at += 8;
        } else if bit(bytes, at) == sought {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

pub(crate) fn bitop(exec: &mut Exec<'_>, args: &[Bytes], out: &mut Reply) -> Done {
    let operation: fn(u8, u8) -> u8 = match &args[1].to_ascii_uppercase()[..] {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" | b"NOT" => |one, other| one ^ other,
        _ => return Err(Fault::SYNTAX),
    };
    let is_not = args[1].eq_ignore_ascii_case(b"NOT");
    if is_not && args.len() != 4 {
        let text = "ERR BITOP NOT must be called with a single source key.";
        return Err(Fault::of(text));
    }
    let sources = args[3..].iter().map(|key| {
        let value = exec.get::<Str>(key)?;
        Ok(value.map_or_else(Bytes::new, |value| value.bytes.clone()))
    });
    let sources = sources.collect::<Result<Vec<Bytes>, Fault>>()?;
    let len = sources.iter().map(Bytes::len).max().unwrap_or(0);
    let mut result = sources[0].to_vec();
    result.resize(len, 0);
    if is_not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for source in &sources[1..] {
        let padded = source.iter().copied().chain(std::iter::repeat(0));
        let pairs = result.iter_mut().zip(padded);
        pairs.for_each(|(byte, other)| *byte = operation(*byte, other));
    }
    out.count(len);
    match len {
        0 => drop(exec.take(&args[2])),
        _ => exec.put(&args[2], Value::Str(Str::raw(result.into())), NEVER),
    }
    Ok(())
}
