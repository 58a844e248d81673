//! Files as they are, whatever they hold: checked, and copied for another stream.

use crate::error::{Fault, RdbError};
use crate::source::Source;
use crate::writer::Writer;
use crate::{AUX, END};
use std::io::{self, Read, Write};

/// The word that begins a file of any server.
const WORDS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
/// Bytes that are copied at a time.
const PART_BYTES: usize = 64 << 10;
/// What fields say of a replication stream begins so.
const OF_STREAM: &[u8] = b"repl-";

/// Reads a file of so many bytes to its end: it begins as an RDB, ends as one, and its checksum is right. What it
/// holds is not looked at.
///
/// # Errors
/// What is wrong with the file.
pub fn verify(from: impl Read, bytes: u64) -> Result<(), RdbError> {
    copy(from, bytes, io::sink(), &[]).map(|_| ())
}

/// Copies a file of so many bytes, whatever it holds, as one that was taken at an offset of a replication stream. Its
/// checksum is checked on the way.
///
/// # Errors
/// What is wrong with the file, or with what is written to.
pub fn copy_for_stream<W: Write>(
    from: impl Read,
    bytes: u64,
    to: W,
    (stream_id, offset): (&str, u64),
) -> Result<W, RdbError> {
    let offset = offset.to_string();
    let fields = [
        ("repl-stream-db", "0"),
        ("repl-id", stream_id),
        ("repl-offset", &offset),
    ];
    copy(from, bytes, to, &fields)
}

fn copy<W: Write>(
    from: impl Read,
    bytes: u64,
    to: W,
    fields: &[(&str, &str)],
) -> Result<W, RdbError> {
    let mut source = Source::new(from, bytes);
    let copied = copy_all(&mut source, to, fields);
    copied.map_err(|fault| RdbError {
        fault,
        at: source.at(),
        key: None,
    })
}

fn copy_all<W: Write>(
    source: &mut Source<impl Read>,
    to: W,
    fields: &[(&str, &str)],
) -> Result<W, Fault> {
    if source.left() < 10 {
        return Err(Fault::NoRdb);
    }
    let head = source.array::<9>()?;
    if !WORDS.iter().any(|word| head.starts_with(word)) {
        return Err(Fault::NoRdb);
    }
    let mut writer = Writer::begin(to, &head)?;
    for (name, value) in fields {
        writer.field(name.as_bytes(), value.as_bytes())?;
    }
    // Its own fields, but those of another stream.
    let mut last = source.byte()?;
    while last == AUX {
        let (name, value) = (source.string()?, source.string()?);
        if fields.is_empty() || !name.starts_with(OF_STREAM) {
            writer.field(&name, &value)?;
        }
        last = source.byte()?;
    }
    writer.put(&[last])?;
    while source.left() > 0 {
        let part = source.some(PART_BYTES)?;
        last = part.last().copied().unwrap_or(last);
        writer.put(part)?;
    }
    if last != END {
        return Err(Fault::Damaged("it has no end"));
    }
    source.finish()?;
    Ok(writer.end()?)
}
