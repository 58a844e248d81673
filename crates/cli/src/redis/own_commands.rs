//! An RDB as the commands that make it in the store of this program.

use crate::rdb_hint::hinted;
use bytes::Bytes;
use quorate_redis_rdb::{Entry, Fault, Key, RdbError, Reader, Value};
use quorate_redis_store::takes;
use quorate_resp::{encode_request, format_double};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Elements that one command adds, at most.
const ELEMENTS_MAX: usize = 512;

/// Writes the commands that make what an RDB holds to a file. Keys come as they are, whether or not their time is over:
/// when they go is for the server to say that they come from.
pub(super) fn own_commands_of(rdb: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let of_rdb = |error: io::Error| format!("{}: {error}", rdb.display());
    let to = scratch.join("commands");
    let of_file = |error: io::Error| format!("{}: {error}", to.display());
    let file = File::open(rdb).map_err(of_rdb)?;
    let bytes = file.metadata().map_err(of_rdb)?.len();
    let mut out = Commands {
        out: BufWriter::new(File::create(&to).map_err(of_file)?),
        db: None,
        request: Vec::new(),
    };
    let wrong = |why: &RdbError| format!("what it has cannot be brought over: {}", hinted(why));
    let mut reader = Reader::new(file, bytes).map_err(|why| wrong(&why))?;
    while let Some(entry) = reader.next_entry().map_err(|why| wrong(&why))? {
        let refused = |why, name| wrong(&RdbError::of_key(why, reader.at(), name));
        match entry {
            Entry::Functions(_) => {
                let why = Fault::Refused("it holds a library of functions");
                return Err(refused(why, None));
            }
            Entry::Key(key) => {
                takes(&key).map_err(|why| refused(why, Some(&key.name)))?;
                out.key(&key).map_err(of_file)?;
            }
        }
    }
    out.out.flush().map_err(of_file)?;
    Ok(to)
}

/// Commands that are being written.
struct Commands<W> {
    out: W,
    /// The database of the last command.
    db: Option<u64>,
    /// The space in which each command is encoded.
    request: Vec<u8>,
}

impl<W: Write> Commands<W> {
    /// The commands that make a key. Old servers wrote values without elements, which no server loads.
    fn key(&mut self, key: &Key) -> io::Result<()> {
        if key.value.is_empty() {
            return Ok(());
        }
        if self.db != Some(key.db) {
            self.db = Some(key.db);
            self.command(&[b"SELECT", key.db.to_string().as_bytes()])?;
        }
        let name = &key.name[..];
        match &key.value {
            Value::Str(text) => self.command(&[b"SET", name, text])?,
            Value::List(elements) => self.add(b"RPUSH", name, elements, |one| [&one[..]])?,
            Value::Set(members) => self.add(b"SADD", name, members, |one| [&one[..]])?,
            Value::Hash(fields) => {
                self.add(b"HSET", name, fields, |(field, value)| {
                    [&field[..], &value[..]]
                })?;
            }
            Value::Sorted(members) => {
                let texts =
                    |(member, score): &(Bytes, f64)| (format_double(*score), member.clone());
                let members: Vec<_> = members.iter().map(texts).collect();
                self.add(b"ZADD", name, &members, |(score, member)| {
                    [score.as_bytes(), &member[..]]
                })?;
            }
        }
        match key.expires_ms {
            Some(end) => self.command(&[b"PEXPIREAT", name, end.to_string().as_bytes()]),
            None => Ok(()),
        }
    }

    /// Adds elements to a key, some at a time: a command has a longest length.
    fn add<'a, T, const N: usize>(
        &mut self,
        command: &'a [u8],
        name: &'a [u8],
        elements: &'a [T],
        texts: impl Fn(&'a T) -> [&'a [u8]; N],
    ) -> io::Result<()> {
        for some in elements.chunks(ELEMENTS_MAX) {
            let words = [command, name].into_iter();
            let words: Vec<&[u8]> = words.chain(some.iter().flat_map(&texts)).collect();
            self.command(&words)?;
        }
        Ok(())
    }

    fn command(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.request.clear();
        encode_request(words, &mut self.request);
        self.out.write_all(&self.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_redis_rdb::{Kind, Writer};

    fn text_of(write: impl FnOnce(&mut Writer<Vec<u8>>)) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let mut rdb = Writer::new(Vec::new(), &[]).unwrap();
        write(&mut rdb);
        let file = dir.path().join("rdb");
        std::fs::write(&file, rdb.finish().unwrap()).unwrap();
        let to = own_commands_of(&file, dir.path())?;
        Ok(String::from_utf8(std::fs::read(to).unwrap()).unwrap())
    }

    /// A request as one line, for people.
    fn lines(text: &str) -> Vec<String> {
        let commands = text.split('*').skip(1);
        let words = commands.map(|one| one.split("\r\n").skip(2).step_by(2).collect::<Vec<_>>());
        words
            .map(|words| words.join(" ").trim_end().to_owned())
            .collect()
    }

    #[test]
    fn keys_become_commands_in_parts_and_keep_their_ends() {
        let many: Vec<String> = (0..ELEMENTS_MAX + 1).map(|n| n.to_string()).collect();
        let text = text_of(|rdb| {
            rdb.database(3, 3, 1).unwrap();
            rdb.key(b"s", Some(7), Kind::Str).unwrap();
            rdb.text(b"v").unwrap();
            rdb.key(b"l", None, Kind::List).unwrap();
            rdb.length(many.len() as u64).unwrap();
            many.iter()
                .for_each(|one| rdb.text(one.as_bytes()).unwrap());
            rdb.key(b"z", None, Kind::Sorted).unwrap();
            rdb.length(1).unwrap();
            rdb.text(b"m").unwrap();
            rdb.score(f64::NEG_INFINITY).unwrap();
        });
        let told = lines(&text.unwrap());
        let pushed = told.iter().filter(|line| line.starts_with("RPUSH l "));
        assert_eq!(pushed.count(), 2, "{told:?}");
        let others: Vec<_> = told
            .iter()
            .filter(|line| !line.starts_with("RPUSH"))
            .collect();
        assert_eq!(
            others,
            ["SELECT 3", "SET s v", "PEXPIREAT s 7", "ZADD z -inf m"]
        );
    }

    #[test]
    fn what_the_store_does_not_have_is_named() {
        let why = text_of(|rdb| {
            rdb.database(16, 1, 0).unwrap();
            rdb.key(b"far", None, Kind::Str).unwrap();
            rdb.text(b"v").unwrap();
        });
        let why = why.unwrap_err();
        assert!(
            why.contains("key \"far\"") && why.contains("above 15"),
            "{why}"
        );
    }
}
