//! Inputs worth keeping, as text.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file with one input a line: hexadecimal digits, then what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    path: PathBuf,
}

impl Corpus {
    pub(crate) fn new(path: PathBuf) -> Self {
        Corpus { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All inputs; none if there is no file.
    pub(crate) fn read(&self) -> Vec<Vec<u8>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{}: {error}", self.path.display()),
        };
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let digits = line.split_whitespace().next().unwrap_or_default();
                parse(digits).unwrap_or_else(|| panic!("{}: {line:?}", self.path.display()))
            })
            .collect()
    }

    /// Adds an input.
    pub(crate) fn add(&self, input: &[u8], about: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path);
        let about = about.lines().next().unwrap_or_default();
        writeln!(file?, "{} {about}", digits(input))
    }
}

/// `-` is the empty input.
pub(crate) fn digits(input: &[u8]) -> String {
    if input.is_empty() {
        return "-".into();
    }
    input.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn parse(digits: &str) -> Option<Vec<u8>> {
    if digits == "-" {
        return Some(Vec::new());
    }
    let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let bytes = pairs.chunks(2).map(|pair| match pair {
        [high, low] => Some((high << 4 | low) as u8),
        _ => None,
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_back_from_their_text() {
        for input in [&b""[..], b"\0", b"\xff\x01", b"text"] {
            assert_eq!(parse(&digits(input)).as_deref(), Some(input));
        }
        assert_eq!((parse("abc"), parse("zz")), (None, None));
    }
}
