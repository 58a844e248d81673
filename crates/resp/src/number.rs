//! Numbers as the protocol has them.

/// An integer as Redis reads it: digits behind a minus sign at most, no zeros in front, no spaces.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        // Negative numbers reach one further: so all are gathered as negative ones.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    match is_negative {
        true => Some(value),
        false => value.checked_neg(),
    }
}

/// Bytes of an integer, at most: a minus sign and 19 digits.
const INTEGER_BYTES_MAX: usize = 20;

/// An integer as text.
pub(crate) struct IntegerText {
    /// The text is at the end.
    bytes: [u8; INTEGER_BYTES_MAX],
    begin: usize,
}

impl IntegerText {
    pub(crate) fn new(value: i64) -> IntegerText {
        let (mut bytes, mut begin) = ([b'-'; INTEGER_BYTES_MAX], INTEGER_BYTES_MAX);
        let mut left = value.unsigned_abs();
        loop {
            begin -= 1;
            bytes[begin] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        begin -= usize::from(value < 0);
        IntegerText { bytes, begin }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

/// Significant digits of a double: as many as tell any two apart.
const DIGITS: i32 = 17;

/// A double as Redis 7.0 writes it, which is what C prints for `%.17g`.
#[must_use]
pub fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).unsigned_abs() as usize;
        return trimmed(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// A decimal number without zeros at its end.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, -90] {
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
            let text = IntegerText::new(value);
            assert_eq!(text.as_bytes(), value.to_string().as_bytes());
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-3.5, "-3.5"),
            (0.1, "0.10000000000000001"),
            (3.3, "3.2999999999999998"),
            (100.0, "100"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }
}
