//! Small values as one string each: listpacks, the ziplists before them, and sets of integers.

use crate::error::Fault;
use bytes::Bytes;

/// The kind of a string that holds elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Listpack,
    Ziplist,
    Integers,
}

impl Packing {
    /// The elements of a string, integers as text.
    pub(crate) fn elements(self, packed: &Bytes) -> Result<Vec<Bytes>, Fault> {
        let (elements, what) = match self {
            Packing::Listpack => (listpack(packed), "a listpack"),
            Packing::Ziplist => (ziplist(packed), "a ziplist"),
            Packing::Integers => (integers(packed), "a set of integers"),
        };
        elements.ok_or(Fault::Damaged(what))
    }
}

/// A place in a string.
struct Cursor<'a> {
    all: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(bytes)?;
        let taken = self.all.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn little(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    }

    /// A signed number of so many bytes as text.
    fn signed(&mut self, bytes: usize) -> Option<Bytes> {
        let spare = 64 - 8 * bytes as u32;
        let number = (self.little(bytes)? << spare).cast_signed() >> spare;
        Some(number.to_string().into())
    }

    fn text(&mut self, bytes: usize) -> Option<Bytes> {
        let from = self.at;
        self.take(bytes)?;
        Some(Bytes::copy_from_slice(&self.all[from..self.at]))
    }
}

const LAST: u8 = 0xFF;

fn listpack(packed: &Bytes) -> Option<Vec<Bytes>> {
    let mut cursor = Cursor { all: packed, at: 0 };
    let total = cursor.little(4)?;
    cursor.little(2)?;
    if total != packed.len() as u64 {
        return None;
    }
    let mut elements = Vec::new();
    loop {
        let from = cursor.at;
        let first = cursor.byte()?;
        let element = match first {
            LAST => return (cursor.at == packed.len()).then_some(elements),
            0x00..=0x7f => first.to_string().into(),
            0x80..=0xbf => cursor.text(usize::from(first & 0x3f))?,
            0xc0..=0xdf => {
                let number = i32::from(first & 0x1f) << 8 | i32::from(cursor.byte()?);
                (number << 19 >> 19).to_string().into()
            }
            0xe0..=0xef => {
                let bytes = usize::from(first & 0x0f) << 8 | usize::from(cursor.byte()?);
                cursor.text(bytes)?
            }
            0xf0 => {
                let bytes = cursor.little(4)?;
                cursor.text(usize::try_from(bytes).ok()?)?
            }
            0xf1 => cursor.signed(2)?,
            0xf2 => cursor.signed(3)?,
            0xf3 => cursor.signed(4)?,
            0xf4 => cursor.signed(8)?,
            _ => return None,
        };
        // Behind it, its length, for those who come from the other side.
        let back = match cursor.at - from {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        cursor.take(back)?;
        elements.push(element);
    }
}

fn ziplist(packed: &Bytes) -> Option<Vec<Bytes>> {
    let mut cursor = Cursor { all: packed, at: 0 };
    let total = cursor.little(4)?;
    cursor.take(6)?;
    if total != packed.len() as u64 {
        return None;
    }
    let mut elements = Vec::new();
    loop {
        // The length of the element before.
        match cursor.byte()? {
            LAST => return (cursor.at == packed.len()).then_some(elements),
            0xfe => drop(cursor.take(4)?),
            _ => {}
        }
        let first = cursor.byte()?;
        elements.push(match first {
            0x00..=0x3f => cursor.text(usize::from(first))?,
            0x40..=0x7f => {
                let bytes = usize::from(first & 0x3f) << 8 | usize::from(cursor.byte()?);
                cursor.text(bytes)?
            }
            0x80..=0xbf => {
                let bytes = cursor
                    .take(4)?
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                cursor.text(bytes)?
            }
            0xc0 => cursor.signed(2)?,
            0xd0 => cursor.signed(4)?,
            0xe0 => cursor.signed(8)?,
            0xf0 => cursor.signed(3)?,
            0xfe => cursor.signed(1)?,
            0xf1..=0xfd => ((first & 0x0f) - 1).to_string().into(),
            _ => return None,
        });
    }
}

fn integers(packed: &Bytes) -> Option<Vec<Bytes>> {
    let mut cursor = Cursor { all: packed, at: 0 };
    let width = usize::try_from(cursor.little(4)?).ok()?;
    let count = usize::try_from(cursor.little(4)?).ok()?;
    let is_whole = matches!(width, 2 | 4 | 8) && count.checked_mul(width)? + 8 == packed.len();
    if !is_whole {
        return None;
    }
    (0..count).map(|_| cursor.signed(width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(packing: Packing, packed: &[u8]) -> Option<Vec<String>> {
        let found = packing.elements(&Bytes::copy_from_slice(packed)).ok()?;
        let text = |element: &Bytes| String::from_utf8_lossy(element).into_owned();
        Some(found.iter().map(text).collect())
    }

    #[test]
    fn every_form_of_an_element_is_read() {
        let listpack = b"\x05\x01\x82ab\x03\xdf\xff\x02\xe0\x01c\x03\xf0\x01\x00\x00\x00d\x06\xf1\xfe\xff\x03\
                         \xf2\x00\x00\x80\x04\xf3\x07\x00\x00\x00\x05\xf4\x08\x00\x00\x00\x00\x00\x00\x00\x09\xff";
        let head = [
            (listpack.len() as u32 + 6).to_le_bytes().to_vec(),
            vec![9, 0],
        ]
        .concat();
        let whole = [&head[..], listpack].concat();
        let all = ["5", "ab", "-1", "c", "d", "-2", "-8388608", "7", "8"].map(str::to_owned);
        assert_eq!(elements(Packing::Listpack, &whole), Some(all.to_vec()));
        assert_eq!(elements(Packing::Listpack, &whole[..whole.len() - 1]), None);

        let ziplist = b"\x00\x02ab\x04\x40\x01c\xfe\x04\x00\x00\x00\x80\x00\x00\x00\x01d\x06\xc0\xfe\xff\
                        \x04\xd0\x07\x00\x00\x00\x06\xe0\x08\x00\x00\x00\x00\x00\x00\x00\x0a\xf0\x00\x00\x80\
                        \x05\xfe\xff\x03\xf1\x02\xfd\xff";
        let head = [
            (ziplist.len() as u32 + 10).to_le_bytes().to_vec(),
            vec![0; 6],
        ]
        .concat();
        let whole = [&head[..], ziplist].concat();
        let all = ["ab", "c", "d", "-2", "7", "8", "-8388608", "-1", "0", "12"].map(str::to_owned);
        assert_eq!(elements(Packing::Ziplist, &whole), Some(all.to_vec()));
        assert_eq!(elements(Packing::Ziplist, &whole[..whole.len() - 1]), None);

        let integers = b"\x02\x00\x00\x00\x02\x00\x00\x00\xff\xff\x03\x00";
        let all = ["-1", "3"].map(str::to_owned);
        assert_eq!(elements(Packing::Integers, integers), Some(all.to_vec()));
        assert_eq!(elements(Packing::Integers, &integers[..11]), None);
    }
}
