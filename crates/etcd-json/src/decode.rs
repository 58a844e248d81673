//! From JSON to the protobuf encoding.

use super::types::{Field, Kind, MessageType, Shape};
use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose::NO_PAD};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Why JSON is not a message of this kind, for the one who sent it: it may quote what was sent.
#[derive(Debug)]
pub struct DecodeError(serde_json::Error);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DecodeError {}

/// Appends the protobuf encoding of the message that `json` begins with to `out`; that of an empty one, which is
/// nothing, where there is none. What comes after the message is not looked at.
///
/// # Errors
/// It does not begin with a message of this kind, or with one that is nested too deeply. What was appended then is of
/// no use.
pub fn decode(
    json: &[u8],
    kind: &'static MessageType,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let mut json = serde_json::Deserializer::from_slice(json);
    let message = Message { kind, out };
    message.deserialize(&mut json).map_err(DecodeError)
}

/// Takes an object as a message of this kind, which is appended to `out`.
struct Message<'a> {
    kind: &'static MessageType,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object, a {}", self.kind.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = 0_u64;
        let mut union = None;
        while let Some(named) = map.next_key_seed(Name(self.kind))? {
            let Some((at, field)) = named else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let bit = 1 << at;
            if seen & bit != 0 {
                let why = format_args!("duplicate field {:?}", field.name);
                return Err(A::Error::custom(why));
            }
            seen |= bit;
            let is_set = map.next_value_seed(FieldValue {
                field,
                is_element: false,
                out: &mut *self.out,
            })?;
            if let Shape::Union(name) = field.shape
                && is_set
                && let Some(other) = union.replace(field.name)
            {
                let field = field.name;
                let why =
                    format_args!("{field:?} and {other:?} are both set, of which {name} is one");
                return Err(A::Error::custom(why));
            }
        }
        Ok(())
    }
}

/// Takes a name as that of a field; `None` if there is no such field.
struct Name(&'static MessageType);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(usize, &'static Field)>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Option<(usize, &'static Field)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name))
    }
}

/// Takes what a field has, or one element of it. Says whether there is something.
struct FieldValue<'a> {
    field: &'static Field,
    /// This is an element of a repeated field.
    is_element: bool,
    out: &'a mut Vec<u8>,
}

impl FieldValue<'_> {
    /// Whether what is to come is one value, and not a list of them.
    fn is_one(&self) -> bool {
        self.is_element || self.field.shape != Shape::Repeated
    }

    /// Writes a number, unless it is left out.
    fn varint(self, value: u64) -> bool {
        if value != 0 || self.field.shape != Shape::Single {
            encode_key(self.field.number, WireType::Varint, self.out);
            encode_varint(value, self.out);
        }
        true
    }

    /// Writes what has a length: `write` appends it.
    fn delimited<E>(self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<bool, E> {
        let out = self.out;
        let begin = out.len();
        encode_key(self.field.number, WireType::LengthDelimited, out);
        let length_at = out.len();
        // Short messages come most, whose length takes one byte.
        out.push(0);
        write(out)?;
        let length = out.len() - length_at - 1;
        let is_message = matches!(self.field.kind, Kind::Message(_));
        if length == 0 && self.field.shape == Shape::Single && !is_message {
            out.truncate(begin);
            return Ok(true);
        }
        let mut prefix = Vec::with_capacity(5);
        encode_varint(length as u64, &mut prefix);
        out.splice(length_at..=length_at, prefix);
        Ok(true)
    }

    fn integer<E: Error>(self, number: Integer) -> Result<bool, E> {
        let value = match self.field.kind {
            _ if !self.is_one() => None,
            Kind::I64 => number.signed().map(i64::cast_unsigned),
            Kind::U64 => number.0.try_into().ok(),
            Kind::U32 => u32::try_from(number.0).ok().map(u64::from),
            // Negative numbers are as long as those of 64 bits.
            Kind::Enum(_) => number.signed().and_then(|number| {
                let number = i32::try_from(number).ok()?;
                Some(i64::from(number).cast_unsigned())
            }),
            Kind::Bool | Kind::Bytes | Kind::Text | Kind::Message(_) => None,
        };
        match value {
            Some(value) => Ok(self.varint(value)),
            None => Err(self.unfit(format_args!("the number {}", number.0))),
        }
    }

    fn text<E: Error>(self, text: &str) -> Result<bool, E> {
        match self.field.kind {
            _ if !self.is_one() => Err(self.unfit("a text")),
            Kind::Text => self.delimited(|out| {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }),
            Kind::Bytes => self.delimited(|out| {
                base64(text, out).map_err(|error| E::custom(format_args!("base64: {error}")))
            }),
            Kind::Enum(names) => {
                match names.iter().position(|name| *name == text) {
                    Some(value) => Ok(self.varint(value as u64)),
                    // Names that are not known are passed over, as fields are.
                    None => Ok(false),
                }
            }
            Kind::I64 | Kind::U64 | Kind::U32 => match Integer::in_text(text) {
                Some(number) => self.integer(number),
                None => Err(self.unfit("a text that is no integer")),
            },
            Kind::Bool | Kind::Message(_) => Err(self.unfit("a text")),
        }
    }

    /// What came is nothing for this field.
    fn unfit<E: Error>(&self, came: impl fmt::Display) -> E {
        E::custom(format_args!("{came}, where {} is {self}", self.field.name))
    }
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_one() {
            write!(f, "a list of which each is ")?;
        }
        match self.field.kind {
            Kind::Bool => write!(f, "true or false"),
            Kind::I64 => write!(f, "an integer of 64 bits"),
            Kind::U64 => write!(f, "an unsigned integer of 64 bits"),
            Kind::U32 => write!(f, "an unsigned integer of 32 bits"),
            Kind::Bytes => write!(f, "a text in base64"),
            Kind::Text => write!(f, "a text"),
            Kind::Enum(names) => write!(f, "one of {}", names.join(", ")),
            Kind::Message(kind) => write!(f, "an object, a {}", kind.name),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldValue<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldValue<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} for {}", self.field.name)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        match self.is_element {
            true => Err(self.unfit("null")),
            false => Ok(false),
        }
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        match self.field.kind {
            Kind::Bool if self.is_one() => Ok(self.varint(flag.into())),
            _ => Err(self.unfit(flag)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<bool, E> {
        self.integer(Integer(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<bool, E> {
        self.integer(Integer(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<bool, E> {
        match Integer::exactly(number) {
            Some(integer) => self.integer(integer),
            None => Err(self.unfit(format_args!("the number {number}"))),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        self.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        if self.is_one() {
            return Err(self.unfit("a list"));
        }
        let FieldValue { field, out, .. } = self;
        loop {
            let element = FieldValue {
                field,
                is_element: true,
                out: &mut *out,
            };
            if list.next_element_seed(element)?.is_none() {
                return Ok(true);
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        match self.field.kind {
            Kind::Message(kind) if self.is_one() => {
                self.delimited(|out| Message { kind, out }.visit_map(map))
            }
            _ => Err(self.unfit("an object")),
        }
    }
}

/// A whole number, as JSON has it.
#[derive(Clone, Copy)]
struct Integer(i128);

impl Integer {
    fn signed(self) -> Option<i64> {
        self.0.try_into().ok()
    }

    /// A number with a fraction of zero, or with an exponent, if it is exactly what was written.
    fn exactly(number: f64) -> Option<Integer> {
        /// From here on not every integer is one of these numbers.
        const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
        let is_whole = number.fract() == 0.0 && number.abs() < EXACT_BELOW;
        is_whole.then_some(Integer(number as i128))
    }

    /// A number that is written as a text.
    fn in_text(text: &str) -> Option<Integer> {
        if text.starts_with(|c: char| c.is_ascii_whitespace())
            || text.ends_with(|c: char| c.is_ascii_whitespace())
        {
            return None;
        }
        let number: serde_json::Number = serde_json::from_str(text).ok()?;
        let signed = number.as_i64().map(|number| Integer(number.into()));
        let unsigned = number.as_u64().map(|number| Integer(number.into()));
        let signed = signed.or(unsigned);
        signed.or_else(|| Integer::exactly(number.as_f64()?))
    }
}

/// Padded and not, with bits left over in the last symbol as decoders elsewhere take them.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
const LENIENT_NO_PAD: GeneralPurposeConfig = NO_PAD.with_decode_allow_trailing_bits(true);
const ENGINES: [[GeneralPurpose; 2]; 2] = [
    [
        GeneralPurpose::new(&STANDARD, LENIENT),
        GeneralPurpose::new(&STANDARD, LENIENT_NO_PAD),
    ],
    [
        GeneralPurpose::new(&URL_SAFE, LENIENT),
        GeneralPurpose::new(&URL_SAFE, LENIENT_NO_PAD),
    ],
];

/// Appends what a text in base64 stands for. Lines may be broken, as some programs write them.
fn base64(text: &str, out: &mut Vec<u8>) -> Result<(), base64::DecodeError> {
    let text = match text.contains(['\r', '\n']) {
        true => Cow::Owned(text.replace(['\r', '\n'], "")),
        false => Cow::Borrowed(text),
    };
    let is_url_safe = text.contains(['-', '_']);
    let is_unpadded = !text.len().is_multiple_of(4);
    let engine = &ENGINES[usize::from(is_url_safe)][usize::from(is_unpadded)];
    engine.decode_vec(text.as_bytes(), out)
}
