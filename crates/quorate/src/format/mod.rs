//! The compact binary form of whatever serde can write: no names, no types, numbers as varints.
//!
//! Fields and variants are told apart by their place alone. A variant may be added at the end of an enum; everything
//! else needs a new type, for old commands stay in logs and snapshots.

mod read;
mod write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Most values that are inside each other, so that no bytes from elsewhere exhaust the stack.
const DEPTH_MAX: usize = 128;

/// Why a value has no binary form, or bytes are not the form of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatError(String);

impl FormatError {
    /// An error with these words for people.
    #[must_use]
    pub fn new(why: impl fmt::Display) -> FormatError {
        FormatError(why.to_string())
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

impl serde::ser::Error for FormatError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        FormatError::new(why)
    }
}

/// One more level of values inside each other.
fn deepen(depth: &mut usize) -> Result<(), FormatError> {
    if *depth == DEPTH_MAX {
        let why = format!("more than {DEPTH_MAX} values are inside each other");
        return Err(FormatError(why));
    }
    *depth += 1;
    Ok(())
}

impl serde::de::Error for FormatError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        FormatError::new(why)
    }
}

/// The binary form of a value.
///
/// # Errors
/// What the type's own `Serialize` says, or that more than 128 values are inside each other. The derived one never
/// fails on a type without recursion and `#[serde(flatten)]`.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, FormatError> {
    let mut out = Vec::new();
    value.serialize(&mut write::Writer::new(&mut out))?;
    Ok(out)
}

/// The value whose binary form these bytes are, all of them.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    let mut reader = read::Reader::new(bytes);
    let value = T::deserialize(&mut reader)?;
    match reader.left() {
        0 => Ok(value),
        left => Err(FormatError(format!("{left} bytes follow the value"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    enum Shape {
        Empty,
        Whole(u64),
        Pair(i32, String),
        Named {
            wide: Option<u128>,
            flags: [bool; 3],
        },
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct All {
        shapes: Vec<Shape>,
        map: BTreeMap<String, (char, f64, f32)>,
        unit: (),
        small: (u8, i8, u16, i16, u32, i64, i128),
        boxed: Box<str>,
        nested: Option<Option<u8>>,
    }

    fn all() -> All {
        All {
            shapes: vec![
                Shape::Empty,
                Shape::Whole(u64::MAX),
                Shape::Pair(i32::MIN, "text".to_owned()),
                Shape::Named {
                    wide: Some(u128::MAX),
                    flags: [true, false, true],
                },
            ],
            map: BTreeMap::from([("key".to_owned(), ('\u{1f980}', -0.5, f32::MAX))]),
            unit: (),
            small: (255, -128, 65_535, -1, 7, i64::MIN, i128::MIN),
            boxed: "box".into(),
            nested: Some(None),
        }
    }

    #[test]
    fn every_kind_of_value_comes_back() {
        let bytes = encode(&all()).unwrap();
        assert_eq!(decode::<All>(&bytes), Ok(all()));
    }

    /// The form must not change: it is in logs on disk.
    #[test]
    fn the_form_is_what_it_was() {
        let shape = Shape::Named {
            wide: Some(300),
            flags: [true, false, true],
        };
        let mut expected = vec![3, 1, 0xac, 2];
        expected.extend([1, 0, 1]);
        assert_eq!(encode(&shape).unwrap(), expected);
        assert_eq!(
            encode(&Shape::Pair(-1, "ab".into())).unwrap(),
            [2, 1, 2, b'a', b'b']
        );
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    enum Chain {
        End,
        Next(Box<Chain>),
        Pair(u8, Box<Chain>),
        Wrapped { inner: Option<Box<Chain>> },
    }

    fn chain(links: usize, link: fn(Box<Chain>) -> Chain) -> Chain {
        (0..links).fold(Chain::End, |chain, _| link(Box::new(chain)))
    }

    #[test]
    fn values_are_inside_each_other_up_to_a_depth() {
        let wrapped = |chain| Chain::Wrapped { inner: Some(chain) };
        let pair = |chain| Chain::Pair(7, chain);
        for (link, most) in [
            (Chain::Next as fn(_) -> _, DEPTH_MAX - 1),
            (pair, DEPTH_MAX - 1),
            (wrapped, (DEPTH_MAX - 1) / 2),
        ] {
            let deepest = encode(&chain(most, link)).unwrap();
            assert_eq!(decode::<Chain>(&deepest), Ok(chain(most, link)));
            assert!(encode(&chain(most + 1, link)).is_err());
        }
        let endless = vec![1; 1 << 20];
        let error = decode::<Chain>(&endless).unwrap_err();
        assert!(error.to_string().contains("inside each other"), "{error}");
    }

    #[test]
    fn no_bytes_panic_or_reserve_more_than_they_are() {
        let bytes = encode(&all()).unwrap();
        for cut in 0..bytes.len() {
            assert!(decode::<All>(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = decode::<All>(&damaged);
            }
        }
        let endless = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(decode::<Vec<u8>>(&endless).is_err());
        assert!(decode::<Vec<()>>(&endless).is_err());
        assert!(decode::<String>(&endless).is_err());
        assert!(decode::<u8>(&[1, 2]).is_err(), "bytes that follow");
    }
}
