//! Numbers as text, read and written as Redis does.

mod extended;

pub(crate) use extended::{Extended, Parsed};
pub(crate) use quorate_resp::{format_double as write_float, parse_integer as integer};

use crate::fault::Fault;

/// An integer argument.
pub(crate) fn to_integer(text: &[u8]) -> Result<i64, Fault> {
    integer(text).ok_or(Fault::NO_INTEGER)
}

/// An integer argument that must not be below `least`; the error says so.
pub(crate) fn at_least(least: i64, text: &[u8], error: &'static str) -> Result<i64, Fault> {
    let number = integer(text).filter(|number| *number >= least);
    number.ok_or(Fault::of(error))
}

/// How many of something, none included.
pub(crate) fn to_count(text: &[u8]) -> Result<usize, Fault> {
    let number = integer(text).and_then(|number| usize::try_from(number).ok());
    number.ok_or(Fault::NOT_POSITIVE)
}

/// A float argument, as C's `strtod` reads it.
pub(crate) fn to_float(text: &[u8]) -> Result<f64, Fault> {
    float(text).ok_or(Fault::NO_FLOAT)
}

/// A float: decimal, or an infinity; no number that is not one, and none beyond what a float can be.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    let names_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let names_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let is_in_range = match value {
        value if value.is_nan() => false,
        value if value.is_infinite() => !names_digits,
        0.0 => names_zero,
        _ => true,
    };
    is_in_range.then_some(value)
}

/// The text of a sum, if it is finite.
pub(crate) fn sum(one: Parsed, other: Parsed) -> Option<String> {
    match (one, other) {
        (Parsed::Finite(one), Parsed::Finite(other)) => one.add(other).map(|sum| sum.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_float_is_refused() {
        for text in ["", "nan", "1e400", "1e-400", "1 ", " 1", "one", "1e"] {
            assert_eq!(float(text.as_bytes()), None, "{text:?}");
        }
        for (text, value) in [("+inf", f64::INFINITY), (".5", 0.5), ("0e999", 0.0)] {
            assert_eq!(float(text.as_bytes()), Some(value));
        }
    }
}
