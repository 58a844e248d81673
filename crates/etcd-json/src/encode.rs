//! From the protobuf encoding to JSON.

use super::types::{Field, Kind, MessageType, Shape};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::fmt::{self, Write};

/// Messages within messages, at most: as many as the decoder of protobuf takes.
const DEPTH_MAX: usize = 100;

/// Why bytes are not the encoding of a message of this kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodeError(&'static str);

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message cannot be written as JSON: {}", self.0)
    }
}

impl std::error::Error for EncodeError {}

const CUT_OFF: EncodeError = EncodeError("it ends in the middle of a field");
const WRONG_TYPE: EncodeError = EncodeError("a field has another type than it should");
const TOO_DEEP: EncodeError = EncodeError("messages are nested too deeply");
const NO_TEXT: EncodeError = EncodeError("a text is not UTF-8");

/// Appends a message to `out`.
///
/// # Errors
/// The bytes are not a message of this kind. What was appended then is of no use.
pub fn encode(message: &[u8], kind: &MessageType, out: &mut String) -> Result<(), EncodeError> {
    object(message, kind, DEPTH_MAX, out)
}

/// Appends a text in quotes to `out`.
pub fn encode_text(text: &str, out: &mut String) {
    out.push('"');
    for symbol in text.chars() {
        match symbol {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => number(out, format_args!("\\u{:04x}", u32::from(symbol))),
            _ => out.push(symbol),
        }
    }
    out.push('"');
}

/// What a field has on the wire.
#[derive(Clone, Copy)]
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Takes the next field: its number, and its value if it is of a type that these messages have.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Result<Option<(u32, Option<Value<'a>>)>, EncodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (field, wire_type) = decode_key(bytes).map_err(|_| CUT_OFF)?;
    let length = match wire_type {
        WireType::Varint => {
            let value = decode_varint(bytes).map_err(|_| CUT_OFF)?;
            return Ok(Some((field, Some(Value::Varint(value)))));
        }
        WireType::LengthDelimited => {
            let length = decode_varint(bytes).map_err(|_| CUT_OFF)?;
            usize::try_from(length).map_err(|_| CUT_OFF)?
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::StartGroup | WireType::EndGroup => return Err(WRONG_TYPE),
    };
    let content = bytes.get(..length).ok_or(CUT_OFF)?;
    bytes.advance(length);
    let is_fixed = wire_type != WireType::LengthDelimited;
    Ok(Some((field, (!is_fixed).then_some(Value::Bytes(content)))))
}

fn object(
    message: &[u8],
    kind: &MessageType,
    depth_left: usize,
    out: &mut String,
) -> Result<(), EncodeError> {
    let deeper = depth_left.checked_sub(1).ok_or(TOO_DEEP)?;
    out.push('{');
    let mut is_first = true;
    for field in kind.fields {
        let mut name = |out: &mut String| {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            out.push('"');
            out.push_str(field.name);
            out.push_str("\":");
        };
        match field.shape {
            Shape::Repeated => list(message, field, deeper, &mut name, out)?,
            Shape::Single | Shape::Union(_) => {
                if let Some(value) = last(message, field)? {
                    name(out);
                    single(value, field.kind, deeper, out)?;
                }
            }
        }
    }
    out.push('}');
    Ok(())
}

/// The value of a field that is there at most once, unless it is left out.
fn last<'a>(mut message: &'a [u8], field: &Field) -> Result<Option<Value<'a>>, EncodeError> {
    let mut found = None;
    while let Some((number, value)) = next_field(&mut message)? {
        if number == field.number {
            found = Some(value.ok_or(WRONG_TYPE)?);
        }
    }
    let is_shown = matches!(field.shape, Shape::Union(_)) || matches!(field.kind, Kind::Message(_));
    Ok(found.filter(|value| {
        is_shown
            || match value {
                Value::Varint(number) => *number != 0,
                Value::Bytes(bytes) => !bytes.is_empty(),
            }
    }))
}

/// A field with all its elements, if it has one.
fn list(
    mut message: &[u8],
    field: &Field,
    depth_left: usize,
    name: &mut impl FnMut(&mut String),
    out: &mut String,
) -> Result<(), EncodeError> {
    let mut count = 0;
    let mut element = |value, out: &mut String| {
        match count {
            0 => {
                name(out);
                out.push('[');
            }
            _ => out.push(','),
        }
        count += 1;
        single(value, field.kind, depth_left, out)
    };
    while let Some((number, value)) = next_field(&mut message)? {
        if number != field.number {
            continue;
        }
        match (value.ok_or(WRONG_TYPE)?, field.kind) {
            // Numbers may come all in one piece.
            (Value::Bytes(mut packed), Kind::Enum(_)) => {
                while !packed.is_empty() {
                    let number = decode_varint(&mut packed).map_err(|_| CUT_OFF)?;
                    element(Value::Varint(number), out)?;
                }
            }
            (value, _) => element(value, out)?,
        }
    }
    if count > 0 {
        out.push(']');
    }
    Ok(())
}

fn single(
    value: Value<'_>,
    kind: Kind,
    depth_left: usize,
    out: &mut String,
) -> Result<(), EncodeError> {
    match (kind, value) {
        (Kind::Bool, Value::Varint(flag)) => out.push_str(if flag == 0 { "false" } else { "true" }),
        (Kind::I64, Value::Varint(signed)) => {
            number(out, format_args!("\"{}\"", signed.cast_signed()));
        }
        (Kind::U64, Value::Varint(unsigned)) => number(out, format_args!("\"{unsigned}\"")),
        // What is longer than the type is cut off, as decoders of protobuf do.
        (Kind::U32, Value::Varint(unsigned)) => number(out, format_args!("{}", unsigned as u32)),
        (Kind::Enum(names), Value::Varint(value)) => {
            let value = value as i32;
            match usize::try_from(value).ok().and_then(|at| names.get(at)) {
                Some(name) => encode_text(name, out),
                None => number(out, format_args!("{value}")),
            }
        }
        (Kind::Bytes, Value::Bytes(bytes)) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        (Kind::Text, Value::Bytes(bytes)) => {
            encode_text(std::str::from_utf8(bytes).map_err(|_| NO_TEXT)?, out);
        }
        (Kind::Message(kind), Value::Bytes(bytes)) => object(bytes, kind, depth_left, out)?,
        _ => return Err(WRONG_TYPE),
    }
    Ok(())
}

/// Appends a number; a text in memory takes everything.
fn number(out: &mut String, written: fmt::Arguments<'_>) {
    let _ = out.write_fmt(written);
}
