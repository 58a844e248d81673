//! Times as messages have them: UTC, to the millisecond.

use super::codec::digits;

const NS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// The days from March of the year 0 to the beginning of 1970.
const EPOCH_DAYS: u64 = 719_468;
/// The days of 400 years.
const ERA_DAYS: u64 = 146_097;

/// The text of a time in ns since the Unix epoch.
pub(super) fn text(time_ns: u64) -> String {
    let seconds = time_ns / NS_PER_SECOND;
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    format!(
        "{year:04}{month:02}{day:02}-{:02}:{:02}:{:02}.{:03}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        time_ns % NS_PER_SECOND / 1_000_000
    )
}

/// The time of a text, with or without a part of a second.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let shape: Vec<bool> = whole.bytes().map(|byte| byte.is_ascii_digit()).collect();
    let marks = [(8, b'-'), (11, b':'), (14, b':')];
    let is_mark = |at: usize| marks.iter().any(|(mark, _)| *mark == at);
    let is_shaped = whole.len() == 17
        && shape
            .iter()
            .enumerate()
            .all(|(at, is_digit)| *is_digit != is_mark(at))
        && marks
            .iter()
            .all(|(at, mark)| whole.as_bytes()[*at] == *mark);
    if !is_shaped || !(1..=9).contains(&part.len()) {
        return None;
    }
    let number = |from: usize, to: usize| digits(whole.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(12, 14)?, number(15, 17)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    let days = days(year, month, day).filter(|_| is_time)?;
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    let part = digits(&format!("{part:0<9}"))?;
    seconds.checked_mul(NS_PER_SECOND)?.checked_add(part)
}

/// Year, month and day, so many days after the beginning of 1970. Years are counted from March, so that the day that
/// leap years add is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The days from the beginning of 1970 to a date that there is.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let year_from_march = year - u64::from(month <= 2);
    let from_march = (month + 9) % 12;
    let year_days =
        365 * year_from_march + year_from_march / 4 - year_from_march / 100 + year_from_march / 400;
    let days = (year_days + (153 * from_march + 2) / 5 + day - 1).checked_sub(EPOCH_DAYS)?;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (time_ns, expected) in [
            (0, "19700101-00:00:00.000"),
            (951_782_400_123_000_000, "20000229-00:00:00.123"),
            (1_795_766_399_999_000_000, "20261127-07:59:59.999"),
        ] {
            assert_eq!(text(time_ns), expected);
            assert_eq!(parse(expected), Some(time_ns));
        }
        for day in 0..60_000 {
            let time_ns = day * SECONDS_PER_DAY * NS_PER_SECOND;
            assert_eq!(parse(&text(time_ns)), Some(time_ns), "day {day}");
        }
        assert_eq!(parse("19700101-00:00:01"), Some(NS_PER_SECOND));
        for wrong in [
            "",
            "20230229-00:00:00",
            "19700101 00:00:00",
            "19700101-24:00:00",
            "1970010100:00:00",
            "19700101-00:00:00.",
            "19700101-00:00:00.1234567890",
            "99999999-99:99:99",
            "é9700101-00:00:0",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
