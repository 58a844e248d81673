//! From a value to its binary form.

use super::{FormatError, deepen};
use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

type Written = Result<(), FormatError>;

/// Appends values to a buffer.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// How many values are around the next one.
    depth: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, depth: 0 }
    }

    /// Writes a value that is all there is inside another.
    fn inside<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        deepen(&mut self.depth)?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Begins a value with parts.
    fn begun(&mut self) -> Result<&mut Self, FormatError> {
        deepen(&mut self.depth)?;
        Ok(self)
    }

    fn varint(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// A number with a sign: those near zero are short, whatever their sign.
    fn zigzag(&mut self, value: i128) {
        self.varint(((value << 1) ^ (value >> 127)) as u128);
    }

    fn length(&mut self, length: usize) {
        self.varint(length as u128);
    }

    fn known(&mut self, length: Option<usize>) -> Written {
        let unknown =
            || FormatError::custom("a sequence or map whose length is not known before its end");
        self.length(length.ok_or_else(unknown)?);
        Ok(())
    }
}

/// Methods of [`Serializer`] that write a number.
macro_rules! numbers {
    ($($name:ident $number:ty, $wide:ident;)*) => {
        $(fn $name(self, value: $number) -> Written {
            self.$wide(value.into());
            Ok(())
        })*
    };
}

impl Serializer for &mut Writer<'_> {
    type Ok = ();
    type Error = FormatError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers! {
        serialize_u16 u16, varint;
        serialize_u32 u32, varint;
        serialize_u64 u64, varint;
        serialize_u128 u128, varint;
        serialize_i16 i16, zigzag;
        serialize_i32 i32, zigzag;
        serialize_i64 i64, zigzag;
        serialize_i128 i128, zigzag;
        serialize_char char, varint;
    }

    fn serialize_bool(self, value: bool) -> Written {
        self.out.push(value.into());
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.out.push(value);
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.out.push(value as u8);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Written {
        self.out.extend(value.to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Written {
        self.out.extend(value.to_le_bytes());
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Written {
        self.serialize_bytes(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        self.length(value.len());
        self.out.extend(value);
        Ok(())
    }

    fn serialize_none(self) -> Written {
        self.serialize_bool(false)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        self.out.push(1);
        self.inside(value)
    }

    fn serialize_unit(self) -> Written {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, variant: u32, _: &'static str) -> Written {
        self.varint(variant.into());
        self.inside(&())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        self.inside(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        value: &T,
    ) -> Written {
        self.varint(variant.into());
        self.inside(value)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, FormatError> {
        self.known(length)?;
        self.begun()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, FormatError> {
        self.begun()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, FormatError> {
        self.begun()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, FormatError> {
        self.varint(variant.into());
        self.begun()
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, FormatError> {
        self.known(length)?;
        self.begun()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, FormatError> {
        self.begun()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, FormatError> {
        self.varint(variant.into());
        self.begun()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The parts of a value that has several: one after the other.
macro_rules! parts {
    ($($part:ident, $method:ident($($name:ty)?);)*) => {
        $(impl $part for &mut Writer<'_> {
            type Ok = ();
            type Error = FormatError;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Written {
                value.serialize(&mut **self)
            }

            fn end(self) -> Written {
                self.depth -= 1;
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq, serialize_element();
    SerializeTuple, serialize_element();
    SerializeTupleStruct, serialize_field();
    SerializeTupleVariant, serialize_field();
    SerializeStruct, serialize_field(&'static str);
    SerializeStructVariant, serialize_field(&'static str);
}

impl SerializeMap for &mut Writer<'_> {
    type Ok = ();
    type Error = FormatError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        value.serialize(&mut **self)
    }

    fn end(self) -> Written {
        self.depth -= 1;
        Ok(())
    }
}
