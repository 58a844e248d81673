//! Floats of 64 binary digits, as Redis adds with `INCRBYFLOAT`: by integers alone, so alike on every machine.

use std::cmp::Ordering;

/// Decimals of a sum.
const DECIMALS: usize = 17;
const TEN_TO_DECIMALS: u128 = 10_u128.pow(DECIMALS as u32);
/// Bytes of a number's text, at most.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Numbers are below 2 to this.
const EXPONENT_END: i32 = 16384;
/// Decimal exponents beyond this are as good as infinite.
const DECIMAL_EXPONENT_MAX: i64 = 20_000;

/// A finite number: `mantissa` times 2 to the `exponent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extended {
    is_negative: bool,
    /// The digits: the highest bit is set unless the number is 0.
    mantissa: u64,
    exponent: i32,
}

/// What a text says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    Finite(Extended),
    Infinite,
}

impl Extended {
    pub(crate) const ZERO: Extended = Extended {
        is_negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// What a text says, if it is a number.
    pub(crate) fn parse(text: &[u8]) -> Option<Parsed> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Parsed::Infinite);
        }
        let decimal = Decimal::parse(rest)?;
        let number = match decimal.digits.is_empty() {
            true => Extended {
                is_negative,
                ..Extended::ZERO
            },
            false => decimal.to_binary(is_negative)?,
        };
        Some(Parsed::Finite(number))
    }

    /// The sum, if it is finite.
    pub(crate) fn add(self, other: Extended) -> Option<Extended> {
        if other.mantissa == 0 || self.mantissa == 0 {
            let of_both = match (self.mantissa, other.mantissa) {
                (0, 0) => Extended {
                    is_negative: self.is_negative && other.is_negative,
                    ..Extended::ZERO
                },
                (0, _) => other,
                _ => self,
            };
            return Some(of_both);
        }
        let (large, small) = match self.exponent >= other.exponent {
            true => (self, other),
            false => (other, self),
        };
        // 62 bits below the large one's; what falls out of them counts as the lowest one of them.
        let a = u128::from(large.mantissa) << 62;
        let apart = (large.exponent - small.exponent) as u32;
        let b = shift_jamming(u128::from(small.mantissa) << 62, apart);
        let (is_negative, sum) = match large.is_negative == small.is_negative {
            true => (large.is_negative, a + b),
            false if a >= b => (large.is_negative, a - b),
            false => (small.is_negative, b - a),
        };
        if sum == 0 {
            return Some(Extended::ZERO);
        }
        Extended::rounded(is_negative, sum, large.exponent - 62)
    }

    /// The number nearest to `mantissa` times 2 to the `exponent`; between two, the one whose last bit is 0. `None`
    /// beyond the largest.
    fn rounded(is_negative: bool, mantissa: u128, exponent: i32) -> Option<Extended> {
        let drop = 128 - mantissa.leading_zeros() as i32 - 64;
        let (mut kept, mut exponent) = match drop > 0 {
            true => (round_even(mantissa, drop as u32), exponent + drop),
            false => (mantissa << -drop, exponent + drop),
        };
        if kept >> 64 != 0 {
            (kept, exponent) = (kept >> 1, exponent + 1);
        }
        let mantissa = kept as u64;
        (exponent + 64 <= EXPONENT_END).then_some(Extended {
            is_negative,
            mantissa,
            exponent,
        })
    }
}

/// As text with up to 17 decimals, without zeros at their end.
impl std::fmt::Display for Extended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, decimals) = match self.exponent < 0 {
            true => {
                let scaled = u128::from(self.mantissa) * TEN_TO_DECIMALS;
                let drop = self.exponent.unsigned_abs();
                let scaled = if drop < 128 {
                    round_even(scaled, drop)
                } else {
                    0
                };
                (
                    (scaled / TEN_TO_DECIMALS).to_string(),
                    scaled % TEN_TO_DECIMALS,
                )
            }
            false => {
                let mut whole = Big::from(self.mantissa);
                whole.shift_left(self.exponent as usize);
                (whole.to_decimal(), 0)
            }
        };
        let decimals = format!("{decimals:0DECIMALS$}");
        let decimals = decimals.trim_end_matches('0');
        let is_zero = whole == "0" && decimals.is_empty();
        let sign = if self.is_negative && !is_zero {
            "-"
        } else {
            ""
        };
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{decimals}")
    }
}

/// Shifts right; bits that fall out set the lowest one.
fn shift_jamming(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..128 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// Shifts right, by 1 to 127, to the nearest; between two, to the even one.
fn round_even(value: u128, by: u32) -> u128 {
    let (kept, dropped) = (value >> by, value << (128 - by));
    let half = 1_u128 << 127;
    match dropped.cmp(&half) {
        Ordering::Greater => kept + 1,
        Ordering::Equal => kept + (kept & 1),
        Ordering::Less => kept,
    }
}

/// A decimal number: its digits as an integer, times 10 to the `exponent`.
struct Decimal {
    /// Without zeros before them.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &[u8]) -> Option<Decimal> {
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match end {
            Some(end) => (&text[..end], parse_exponent(&text[end + 1..])?),
            None => (text, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let (whole, decimals) = match point {
            Some(point) => (&mantissa[..point], &mantissa[point + 1..]),
            None => (mantissa, &[][..]),
        };
        let all = [whole, decimals].concat();
        if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digits = all.into_iter().skip_while(|digit| *digit == b'0');
        let digits: Vec<u8> = digits.map(|digit| digit - b'0').collect();
        let exponent = exponent - decimals.len() as i64;
        Some(Decimal { digits, exponent })
    }

    /// The nearest binary number; `None` beyond the largest, and below the smallest that is not 0.
    fn to_binary(&self, is_negative: bool) -> Option<Extended> {
        if self.exponent.abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        let (mut over, mut under) = (Big::default(), Big::from(1));
        for digit in &self.digits {
            over.multiply_add(10, u32::from(*digit));
        }
        let scaled = if self.exponent < 0 {
            &mut under
        } else {
            &mut over
        };
        for _ in 0..self.exponent.unsigned_abs() {
            scaled.multiply_add(10, 0);
        }
        // Both are made equally long, then the quotient is within 1/2 and 1.
        let mut exponent = over.bits() as i32 - under.bits() as i32;
        match exponent > 0 {
            true => under.shift_left(exponent as usize),
            false => over.shift_left(-exponent as usize),
        }
        if over.cmp(&under).is_ge() {
            under.shift_left(1);
            exponent += 1;
        }
        let mut quotient = 0_u128;
        for _ in 0..66 {
            over.shift_left(1);
            let goes = over.cmp(&under).is_ge();
            if goes {
                over.subtract(&under);
            }
            quotient = quotient << 1 | u128::from(goes);
        }
        let quotient = quotient << 1 | u128::from(!over.is_zero());
        let number = Extended::rounded(is_negative, quotient, exponent - 67)?;
        (number.exponent > -EXPONENT_END - 64).then_some(number)
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(2 * DECIMAL_EXPONENT_MAX)
    });
    Some(sign * value)
}

/// An integer of any size: 32 bits a limb, the lowest first, none above the highest that is not 0.
#[derive(Clone, Debug, Default)]
struct Big(Vec<u32>);

impl From<u64> for Big {
    fn from(value: u64) -> Self {
        let mut big = Big(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }
}

impl Big {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        let top = self
            .0
            .last()
            .map_or(0, |limb| limb.leading_zeros() as usize);
        self.0.len() * 32 - top
    }

    fn cmp(&self, other: &Big) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_left(&mut self, by: usize) {
        let (limbs, bits) = (by / 32, (by % 32) as u32);
        let mut carry = 0;
        for limb in &mut self.0 {
            let shifted = u64::from(*limb) << bits | carry;
            *limb = shifted as u32;
            carry = shifted >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        if !self.is_zero() {
            self.0.splice(0..0, std::iter::repeat_n(0, limbs));
        }
    }

    /// Takes away one that is not larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let taken = u64::from(other.0.get(at).copied().unwrap_or(0)) + borrow;
            let left = (1_u64 << 32) + u64::from(*limb) - taken;
            *limb = left as u32;
            borrow = u64::from(left >> 32 == 0);
        }
        self.trim();
    }

    fn to_decimal(&self) -> String {
        const CHUNK: u64 = 1_000_000_000;
        let mut rest = self.clone();
        let mut chunks = Vec::new();
        while !rest.is_zero() {
            let mut remainder = 0;
            for limb in rest.0.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*limb);
                *limb = (value / CHUNK) as u32;
                remainder = value % CHUNK;
            }
            rest.trim();
            chunks.push(remainder);
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:09}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let parse = |text: &str| match Extended::parse(text.as_bytes()) {
            Some(Parsed::Finite(number)) => number,
            other => panic!("{text}: {other:?}"),
        };
        parse(one).add(parse(other)).map(|sum| sum.to_string())
    }

    #[test]
    fn sums_are_those_of_redis() {
        let cases = [
            ("3", "0.1", "3.1"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "-3000", "0"),
            ("-0", "-0", "0"),
            ("1e-30", "0", "0"),
            ("1", "-1e-17", "0.99999999999999999"),
            (
                "17179869184",
                "1.123456789",
                "17179869185.12345678918063641",
            ),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("36893488147419103231", "0", "36893488147419103232"),
        ];
        for (one, other, expected) in cases {
            assert_eq!(
                sum(one, other).as_deref(),
                Some(expected),
                "{one} + {other}"
            );
        }
        let largest = "1.18973149535723176502e4932";
        assert_eq!(sum(largest, largest), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", ".", "e1", "1e", "1e+", "1 ", " 1", "nan", "0x", "1.2.3", "1e5000", "--1",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Extended::parse(b"-Inf"), Some(Parsed::Infinite));
    }
}
