//! Encodings of released versions, kept as text, which every later build must read alike.

use bytes::Bytes;
use quorate_core::{Wire, WireError};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus::{digits, parse};

/// Checks recorded encodings: of each version there is a folder `<kind>-<number>` in
/// `tests/fixtures` of the crate at `folder`, with a file for every kind of value, one value a line,
/// its bytes and what it means.
///
/// Every recorded value must decode to what it meant, and `samples` must encode to what is recorded
/// of the present version, `version`. With `QUORATE_RECORD` set, the file of the present version is
/// written if there is none.
///
/// # Panics
/// When something reads differently, and then says what.
pub fn check_recorded<T: Debug, E: Debug>(
    place: (&str, &str, u32),
    name: &str,
    samples: &[T],
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(Bytes) -> Result<T, E>,
) {
    let (folder, kind, version) = place;
    let of = |version: u32| path((folder, kind, version), name);
    let lines: Vec<String> = samples
        .iter()
        .map(|value| line(&encode(value), value))
        .collect();
    let present = of(version);
    if is_to_be_recorded(place, name) {
        write(&present, &lines);
    }
    for path in (1..=version).map(of).filter(|path| path.exists()) {
        for recorded in read(&path).lines() {
            let bytes = recorded.split(' ').next().and_then(parse);
            let bytes = bytes.unwrap_or_else(|| panic!("{}: {recorded}", path.display()));
            let value = decode(bytes.clone().into());
            let value = value.unwrap_or_else(|error| panic!("{error:?}: {recorded}"));
            assert_eq!(
                line(&bytes, &value),
                recorded,
                "{} means something else",
                path.display()
            );
        }
    }
    let recorded = read(&present);
    for line in lines {
        assert!(
            recorded.lines().any(|recorded| recorded == line),
            "{} lacks {line}: the format has changed, or what is recorded of it is not complete \
             (docs/guide/testing.md, \"Formats and versions\")",
            present.display()
        );
    }
}

/// Whether there is no record of a version yet and `QUORATE_RECORD` asks for one. What is recorded stays as it is: it
/// is what released programs write.
#[must_use]
pub fn is_to_be_recorded(place: (&str, &str, u32), name: &str) -> bool {
    std::env::var_os("QUORATE_RECORD").is_some() && !path(place, name).exists()
}

/// The file with what is recorded of a version.
fn path((folder, kind, version): (&str, &str, u32), name: &str) -> PathBuf {
    let fixtures = Path::new(folder).join("tests/fixtures");
    fixtures
        .join(format!("{kind}-{version}"))
        .join(format!("{name}.txt"))
}

/// Checks recorded encodings of values with a wire encoding.
pub fn check_recorded_wire<T: Wire + Debug>(place: (&str, &str, u32), name: &str, samples: &[T]) {
    let decode = |bytes| -> Result<T, WireError> { T::from_bytes(bytes) };
    check_recorded(
        place,
        name,
        samples,
        |value| value.to_bytes().to_vec(),
        decode,
    );
}

fn line(bytes: &[u8], value: &impl Debug) -> String {
    format!("{} {value:?}", digits(bytes))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; record it with QUORATE_RECORD=1",
            path.display()
        )
    })
}

fn write(path: &PathBuf, lines: &[String]) {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).expect("the folder can be made");
    fs::write(path, lines.join("\n") + "\n").expect("the file can be written");
}
