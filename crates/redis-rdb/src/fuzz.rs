//! Files from hostile bytes, and files that come back as they were written.

use crate::{Entry, Key, Kind, RdbError, Reader, Value, Writer, copy_for_stream, verify};
use bytes::Bytes;
use quorate_fuzz::{Fuzz, Limits};

/// A compressed string may be several hundred times as long as its bytes, and an element is kept apart from others.
fn limits() -> Limits {
    Limits {
        bytes_per_byte: 1200,
        ..Limits::default()
    }
}

fn entries(file: &[u8]) -> Result<Vec<Entry>, RdbError> {
    let mut reader = Reader::new(file, file.len() as u64)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok(entries)
}

fn written() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &[("redis-ver", "7.0.15")]).unwrap();
    let texts = |writer: &mut Writer<Vec<u8>>, texts: &[&[u8]]| {
        texts.iter().for_each(|text| writer.text(text).unwrap());
    };
    writer.database(0, 5, 1).unwrap();
    writer.key(b"s", Some(1 << 50), Kind::Str).unwrap();
    texts(&mut writer, &[&[b'x'; 70]]);
    writer.key(b"l", None, Kind::List).unwrap();
    writer.length(2).unwrap();
    texts(&mut writer, &[b"a", b""]);
    writer.key(b"set", None, Kind::Set).unwrap();
    writer.length(1).unwrap();
    texts(&mut writer, &[b"7"]);
    writer.database(9, 2, 0).unwrap();
    writer.key(b"h", None, Kind::Hash).unwrap();
    writer.length(1).unwrap();
    texts(&mut writer, &[b"field", &[0xff; 20_000]]);
    writer.key(b"z", None, Kind::Sorted).unwrap();
    writer.length(1).unwrap();
    texts(&mut writer, &[b"m"]);
    writer.score(-1.5).unwrap();
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let file = written();
    let key = |db, name: &'static str, expires_ms, value| {
        Entry::Key(Key {
            db,
            name: Bytes::from_static(name.as_bytes()),
            expires_ms,
            value,
        })
    };
    let text = Bytes::from_static;
    let all = vec![
        key(0, "s", Some(1 << 50), Value::Str(vec![b'x'; 70].into())),
        key(0, "l", None, Value::List(vec![text(b"a"), text(b"")])),
        key(0, "set", None, Value::Set(vec![text(b"7")])),
        key(
            9,
            "h",
            None,
            Value::Hash(vec![(text(b"field"), vec![0xff; 20_000].into())]),
        ),
        key(9, "z", None, Value::Sorted(vec![(text(b"m"), -1.5)])),
    ];
    assert_eq!(entries(&file).unwrap(), all);
    verify(&file[..], file.len() as u64).unwrap();
    let copy = copy_for_stream(&file[..], file.len() as u64, Vec::new(), ("id", 77)).unwrap();
    assert_ne!(copy, file);
    assert_eq!(entries(&copy).unwrap(), all);
    let again = copy_for_stream(&copy[..], copy.len() as u64, Vec::new(), ("id", 77)).unwrap();
    assert_eq!(
        again.len(),
        copy.len(),
        "the fields of the stream are there once"
    );
    for at in [12, file.len() / 2, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(entries(&damaged).is_err() && verify(&damaged[..], damaged.len() as u64).is_err());
        assert!(entries(&file[..at]).is_err() && verify(&file[..at], at as u64).is_err());
    }
}

#[test]
fn what_is_not_taken_over_is_named() {
    let said = |bytes: &[u8]| {
        let file = [bytes, &[0xff], &[0; 8]].concat();
        entries(&file).unwrap_err().to_string()
    };
    for (bytes, says) in [
        (
            &b"REDIS0009\x0f\x06orders"[..],
            "key \"orders\": it is a stream",
        ),
        (
            b"REDIS0012\x18\x01h",
            "key \"h\": it is a hash whose fields have times to live",
        ),
        (b"REDIS0099", "its format REDIS0099 is newer"),
        (b"REDIS0009\x00\x01a\x3f", "it ends too early"),
        (b"SQLite format", "it is no RDB file"),
    ] {
        let told = said(bytes);
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn any_bytes_are_entries_or_refused() {
    // Without a checksum, so that what is mutated is looked at.
    let mut plain = written();
    let end = plain.len() - 8;
    plain[end..].fill(0);
    plain.truncate(end + 8);
    let packed = b"REDIS0011\xfa\x01a\xc0\x07\xfe\x00\x14\x01p\x0d\x0d\x00\x00\x00\x02\x00\x05\x01\x81a\x02\xff\
                   \x00\x01c\xc3\x05\x0a\x00a\xe0\x00\x00\x12\x01q\x01\x01\x01x\xff\0\0\0\0\0\0\0\0";
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "entries").seeds([plain, packed.to_vec()]);
    fuzz.limits(limits()).run(
        |input: Bytes| entries(&input),
        |input, _| verify(&input[..], input.len() as u64).expect("what can be read is whole"),
    );
}
