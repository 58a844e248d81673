//! Moments as people write them: RFC 3339, in UTC or with an offset.

const DAY_S: i64 = 86_400;

/// `2026-11-27T12:00:00Z`, of milliseconds since 1970.
pub(crate) fn format(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let (year, month, day) = date_of(seconds.div_euclid(DAY_S));
    let second = seconds.rem_euclid(DAY_S);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Milliseconds since 1970 of `2026-11-27T12:00:00Z`, `2026-11-27T13:00:00.5+01:00` or `2026-11-27` (its first moment).
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00Z"),
    };
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let days = days_of(year, month, day);
    if date.next().is_some() || date_of(days) != (year, month, day) {
        return None;
    }
    let offset_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, offset) = time.split_at(offset_at);
    let mut parts = time.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second: f64 = parts.next()?.parse().ok()?;
    let is_time = hour < 24 && minute < 60 && (0.0..60.0).contains(&second);
    if parts.next().is_some() || !is_time {
        return None;
    }
    let seconds = days * DAY_S + hour * 3600 + minute * 60 - offset_s(offset)?;
    let ms = seconds * 1000 + (second * 1000.0).round() as i64;
    u64::try_from(ms).ok()
}

fn offset_s(text: &str) -> Option<i64> {
    let (sign, text) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(text), _) => (1, text),
        (_, Some(text)) => (-1, text),
        _ => return text.eq_ignore_ascii_case("z").then_some(0),
    };
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn number(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Days in all years before a year, from the year 0 on.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    year * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) + 1
}

fn month_lengths(year: i64) -> [i64; 12] {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// The number of a day, that of 1970-01-01 being 0.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let months = month_lengths(year).into_iter();
    let before: i64 = months.take(usize::try_from(month - 1).unwrap_or(0)).sum();
    days_before(year) - days_before(1970) + before + day - 1
}

/// The year, month and day of a day's number.
fn date_of(days: i64) -> (i64, i64, i64) {
    // At most a year too early.
    let mut year = 1970 + days.div_euclid(366);
    while days_of(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut left = days - days_of(year, 1, 1);
    for (month, length) in (1..).zip(month_lengths(year)) {
        if left < length {
            return (year, month, left + 1);
        }
        left -= length;
    }
    unreachable!("a year ends with its last month")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_and_print() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799_000),
            ("2024-12-31T00:00:00Z", 1_735_603_200_000),
            ("2026-11-27T12:34:56Z", 1_795_782_896_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
            assert_eq!(format(ms), text);
        }
        let noon = parse("2026-11-27T12:00:00Z");
        assert_eq!(parse("2026-11-27T13:30:00+01:30"), noon);
        assert_eq!(parse("2026-11-27t09:00:00-03:00"), noon);
        assert_eq!(parse("2026-11-27"), parse("2026-11-27 00:00:00z"));
        assert_eq!(parse("1970-01-01T00:00:01.25Z"), Some(1250));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "now",
            "2026-13-01",
            "2026-02-29",
            "2026-00-10",
            "2026-11-27T24:00:00Z",
            "2026-11-27T12:00:00",
            "2026-11-27T12:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-27T12:00:00+1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
