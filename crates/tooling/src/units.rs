//! Durations and sizes as people write them on a command line, and as tables print them; and the
//! files that reports go to.

use std::path::Path;
use std::time::Duration;

/// Parses `250ms`, `30s`, `2m`, `1.5s`; a bare number counts seconds.
///
/// # Errors
/// A message that names what cannot be read, and what could be written instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ns" => number / 1e9,
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("unknown unit '{unit}': use ns, us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Parses `256`, `64KiB`, `1.33MiB`, `4k`; units are powers of 1024.
///
/// # Errors
/// A message that names what cannot be read, and what could be written instead.
pub fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("unknown unit '{unit}': use B, KiB, MiB or GiB")),
    };
    Ok((number * scale).round() as usize)
}

/// Parses `200Mbit`, `1Gbit`, `64kbit`: bits per second, units are powers of 1000.
pub fn bits(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => {
            return Err(format!(
                "unknown unit '{unit}': use bit, kbit, Mbit or Gbit"
            ));
        }
    };
    match (number * scale).round() {
        bits if bits >= 1.0 => Ok(bits as u64),
        _ => Err("a link needs a rate".to_owned()),
    }
}

/// Parses `0.01%`, `0.0001`: a part of all, less than all.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit {
        "" => number,
        "%" => number / 100.0,
        _ => return Err(format!("unknown unit '{unit}': use % or none")),
    };
    match share < 1.0 {
        true => Ok(share),
        false => Err("must be less than all".to_owned()),
    }
}

/// Prints nanoseconds with three significant digits and a fitting unit.
pub fn show_ns(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        _ if ns < 1e3 => return format!("{ns:.0} ns"),
        _ if ns < 1e6 => (ns / 1e3, "us"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}

/// Prints bytes with three significant digits and a fitting unit.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].iter();
    let mut unit = units.next();
    while value >= 1000.0
        && let Some(larger) = units.next()
    {
        value /= 1024.0;
        unit = Some(larger);
    }
    let digits = match value {
        _ if bytes < 1000 => 0,
        _ if value < 10.0 => 2,
        _ => usize::from(value < 100.0),
    };
    format!("{value:.digits$} {}", unit.unwrap_or(&"B"))
}

/// Prints a whole number with a comma between thousands.
pub fn show_count(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Prints a size with the largest unit that it is a whole number of.
pub fn show_size(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(shift, _): &(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match units.into_iter().find(fits) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// Writes a file that was asked for.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end]
        .parse()
        .map_err(|_| format!("'{text}' does not start with a number"))?;
    Ok((number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("100%").is_err() && share("1 permille").is_err());
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert_eq!(bytes("1.5k"), Ok(1536));
        assert_eq!(bits("200Mbit"), Ok(200_000_000));
        assert!(bits("200MB").is_err() && bits("0kbit").is_err());
        assert!(duration("3 weeks").is_err());
        assert!(bytes("many").is_err());
    }

    #[test]
    fn numbers_are_printed_for_people() {
        assert_eq!(show_ns(512), "512 ns");
        assert_eq!(show_ns(1_234), "1.23 us");
        assert_eq!(show_ns(98_765_432), "98.8 ms");
        assert_eq!(show_count(1234567.0), "1,234,567");
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(1 << 20), "1.00 MiB");
        assert_eq!(show_bytes(10 << 30), "10.0 GiB");
        assert_eq!(show_bytes(1023 << 20), "1.00 GiB");
        assert_eq!(show_count(12.0), "12");
        assert_eq!(show_size(64 << 10), "64 KiB");
        assert_eq!(show_size((1 << 20) + 1), "1048577 B");
    }
}
