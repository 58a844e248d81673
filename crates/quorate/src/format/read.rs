//! From a binary form to the value.

use super::{FormatError, deepen};
use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

type Read<T> = Result<T, FormatError>;

/// Most elements of a sequence that takes no bytes for any of them, such as one of units.
const EMPTY_ELEMENTS_MAX: usize = 1 << 20;

/// Takes values from the front of some bytes.
pub(super) struct Reader<'de> {
    bytes: &'de [u8],
    /// How many values are around the next one.
    depth: usize,
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Reader<'de> {
        Reader { bytes, depth: 0 }
    }

    /// How many bytes nobody has taken.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, count: usize) -> Read<&'de [u8]> {
        let too_short = || FormatError::custom(format!("{count} bytes are missing at the end"));
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(too_short)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let bytes = self.take(N)?.try_into();
        bytes.map_err(|_| FormatError::custom("bytes are missing at the end"))
    }

    fn byte(&mut self) -> Read<u8> {
        self.array().map(|[byte]| byte)
    }

    fn varint(&mut self) -> Read<u128> {
        let mut value = 0_u128;
        for shift in (0..u128::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FormatError::custom("a number has more than 128 bits"))
    }

    fn zigzag(&mut self) -> Read<i128> {
        let value = self.varint()?;
        Ok((value >> 1) as i128 ^ -((value & 1) as i128))
    }

    fn length(&mut self) -> Read<usize> {
        let length = self.varint()?;
        let bounded = usize::try_from(length).ok();
        let bounded = bounded.filter(|length| *length <= self.bytes.len().max(EMPTY_ELEMENTS_MAX));
        bounded.ok_or_else(|| {
            FormatError::custom(format!("{length} elements do not fit into the bytes"))
        })
    }

    fn bytes(&mut self) -> Read<&'de [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> Read<&'de str> {
        std::str::from_utf8(self.bytes()?).map_err(FormatError::custom)
    }

    /// Reads what is inside a value.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        deepen(&mut self.depth)?;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn parts<V: Visitor<'de>>(&mut self, left: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Elements { reader: self, left })
    }

    fn flag(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FormatError::custom(format!(
                "{other} is neither true nor false"
            ))),
        }
    }
}

/// A number that must fit into a smaller type.
fn narrow<W: Copy + std::fmt::Display, N: TryFrom<W>>(wide: W) -> Read<N> {
    N::try_from(wide).map_err(|_| FormatError::custom(format!("{wide} is too large a number here")))
}

/// Methods of [`Deserializer`] that read a number.
macro_rules! numbers {
    ($($name:ident, $visit:ident, $wide:ident;)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            visitor.$visit(narrow(self.$wide()?)?)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = FormatError;

    numbers! {
        deserialize_u16, visit_u16, varint;
        deserialize_u32, visit_u32, varint;
        deserialize_u64, visit_u64, varint;
        deserialize_u128, visit_u128, varint;
        deserialize_i16, visit_i16, zigzag;
        deserialize_i32, visit_i32, zigzag;
        deserialize_i64, visit_i64, zigzag;
        deserialize_i128, visit_i128, zigzag;
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Read<V::Value> {
        let why = "this form does not tell types: flattened fields and untagged enums cannot be read from it";
        Err(FormatError::custom(why))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_i8(self.byte()? as i8)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_f32(f32::from_le_bytes(self.array()?))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_f64(f64::from_le_bytes(self.array()?))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let number: u32 = narrow(self.varint()?)?;
        let none = || FormatError::custom(format!("{number} is no character"));
        visitor.visit_char(char::from_u32(number).ok_or_else(none)?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.flag()? {
            true => self.inside(|reader| visitor.visit_some(reader)),
            false => visitor.visit_none(),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        self.inside(|reader| visitor.visit_newtype_struct(reader))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.length()?;
        self.deserialize_tuple(left, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Read<V::Value> {
        self.inside(|reader| reader.parts(left, visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_tuple(left, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.length()?;
        self.inside(|reader| visitor.visit_map(Elements { reader, left }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.inside(|reader| visitor.visit_enum(reader))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Elements of a sequence, or entries of a map, that are still to come.
struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: usize,
}

impl<'de> Elements<'_, 'de> {
    fn next<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = FormatError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        self.next(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = FormatError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        self.next(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = FormatError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Self)> {
        let variant: U32Deserializer<FormatError> =
            narrow::<_, u32>(self.varint()?)?.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = FormatError;

    fn unit_variant(self) -> Read<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<T::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Read<V::Value> {
        self.parts(left, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.parts(fields.len(), visitor)
    }
}
