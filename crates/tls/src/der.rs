//! The little of ASN.1's DER (ITU-T X.690) that certificates need, read and written.

/// The tag of a SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;
/// The tag of a SET.
pub(crate) const SET: u8 = 0x31;
/// The tag of a BOOLEAN.
pub(crate) const BOOLEAN: u8 = 0x01;
/// The tag of an INTEGER.
pub(crate) const INTEGER: u8 = 0x02;
/// The tag of a BIT STRING.
pub(crate) const BIT_STRING: u8 = 0x03;
/// The tag of an OCTET STRING.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// The tag of an OBJECT IDENTIFIER.
pub(crate) const OBJECT_ID: u8 = 0x06;
/// The tag of a UTF8String.
pub(crate) const UTF8_STRING: u8 = 0x0c;
/// A time with a year of two digits.
pub(crate) const UTC_TIME: u8 = 0x17;
/// A time with a year of four digits.
pub(crate) const GENERALIZED_TIME: u8 = 0x18;

/// The identifier `2.5.4.3`, a common name.
pub(crate) const ID_COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The identifier `2.5.29.17`, alternative names of a subject.
pub(crate) const ID_ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// Days from 0000-03-01 to 1970-01-01 in the Gregorian calendar.
const EPOCH_DAYS: i64 = 719_468;
/// Days in 400 years of the Gregorian calendar.
const ERA_DAYS: i64 = 146_097;
const DAY_SECONDS: i64 = 86_400;

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The tag of the next value, if there is one.
    pub(crate) fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value: its tag and its content.
    pub(crate) fn value(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                let length = digits
                    .iter()
                    .fold(0_usize, |length, digit| length << 8 | usize::from(*digit));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next value, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.value()
            .filter(|(found, _)| *found == tag)
            .map(|(_, content)| content)
    }

    /// What is in the next value, which must have this tag.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.expect(tag).map(Reader)
    }

    /// The next time, in seconds since 1970.
    pub(crate) fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.value()?;
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let year: i64 = year.parse().ok()?;
                // RFC 5280, section 4.1.2.5.1.
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = text.split_at_checked(4)?;
                (year.parse().ok()?, rest)
            }
            _ => return None,
        };
        if rest.len() != 10 {
            return None;
        }
        let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
        let (month, day) = (part(0)?, part(2)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let of_day = part(4)? * 3600 + part(6)? * 60 + part(8)?;
        Some(days(year, month, day) * DAY_SECONDS + of_day)
    }
}

/// Days from 1970-01-01 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year that begins in March has its leap day at the end.
    let year = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_DAYS
}

/// Year, month, day and second of the day of a time in seconds since 1970.
fn date(time: i64) -> (i64, i64, i64, i64) {
    let day = time.div_euclid(DAY_SECONDS) + EPOCH_DAYS;
    let (era, of_era) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day, time.rem_euclid(DAY_SECONDS))
}

/// A time for people, to the minute, in UTC.
pub(crate) fn date_text(time: i64) -> String {
    let (year, month, day, second) = date(time);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// A value with its tag and length in front.
pub(crate) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match content.len() {
        short @ 0..0x80 => bytes.push(short as u8),
        long => {
            let digits = long.to_be_bytes();
            let zeros = digits.iter().take_while(|digit| **digit == 0).count();
            bytes.push(0x80 | (digits.len() - zeros) as u8);
            bytes.extend(&digits[zeros..]);
        }
    }
    bytes.extend(content);
    bytes
}

/// A value that holds others.
pub(crate) fn values(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(tag, &parts.concat())
}

/// A time in seconds since 1970, as a value.
pub(crate) fn time(time: i64) -> Vec<u8> {
    let (year, month, day, second) = date(time);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    value(
        GENERALIZED_TIME,
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("19700101000000Z", 0),
            ("20000229120000Z", 951_825_600),
            ("20261126184203Z", 1_795_718_523),
            ("21000301000000Z", 4_107_542_400),
        ] {
            let bytes = value(GENERALIZED_TIME, text.as_bytes());
            assert_eq!(Reader::new(&bytes).time(), Some(seconds), "{text}");
            assert_eq!(time(seconds), bytes);
        }
        let short = value(UTC_TIME, b"991231235959Z");
        assert_eq!(Reader::new(&short).time(), Some(946_684_799));
        for bad in [
            "20261326184203Z",
            "2026112618420Z",
            "20261126184203",
            "+0261126184203Z",
        ] {
            let bytes = value(GENERALIZED_TIME, bad.as_bytes());
            assert_eq!(Reader::new(&bytes).time(), None, "{bad}");
        }
        assert_eq!(date_text(1_795_718_523), "2026-11-26 18:42 UTC");
    }

    #[test]
    fn values_of_every_length_read_back() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let bytes = [value(OCTET_STRING, &content), value(INTEGER, &[1])].concat();
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.expect(OCTET_STRING), Some(&content[..]));
            assert_eq!(reader.expect(INTEGER), Some(&[1][..]));
            assert_eq!(reader.value(), None);
        }
        for cut in [
            &[0x30][..],
            &[0x30, 5, 1],
            &[0x30, 0x80],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 1],
        ] {
            assert_eq!(Reader::new(cut).value(), None);
        }
    }
}
