//! The store as Redis's RDB file, both ways.

use crate::keyspace::{DATABASES, Database, Item, Keyspace, NEVER};
use crate::strings::STRING_BYTES_MAX;
use crate::text::Sought;
use crate::value::{Hash, List, Set, Sorted, Str, Value};
use bytes::Bytes;
use quorate_redis_rdb::{Entry, Fault, Key, Kind, RdbError, Reader, Writer};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The version of keys that no command has changed yet.
const FIRST_VERSION: u64 = 1;

/// The store at one place of the log. A copy costs nothing, and the store goes on.
#[derive(Clone)]
pub struct Everything {
    databases: Arc<[Database]>,
    now_ms: u64,
}

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Everything")
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Everything {
    fn eq(&self, other: &Everything) -> bool {
        Arc::ptr_eq(&self.databases, &other.databases)
    }
}

impl Eq for Everything {}

impl Everything {
    pub(crate) fn new(keyspace: &Keyspace) -> Everything {
        Everything {
            databases: keyspace.databases().into(),
            now_ms: keyspace.now_ms(),
        }
    }

    /// Writes all keys whose time is not over as an RDB, with fields that say something of it.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn write_rdb<W: Write>(&self, out: W, fields: &[(&str, &str)]) -> io::Result<W> {
        let mut writer = Writer::new(out, fields)?;
        for (db, database) in (0..).zip(&*self.databases) {
            let keys = database.len(self.now_ms) as u64;
            if keys == 0 {
                continue;
            }
            writer.database(db, keys, database.ending(self.now_ms) as u64)?;
            for (name, item) in database.keys().iter() {
                if !item.is_over(self.now_ms) {
                    write_item(name.text(), item, &mut writer)?;
                }
            }
        }
        writer.finish()
    }
}

fn write_item(name: &[u8], item: &Item, out: &mut Writer<impl Write>) -> io::Result<()> {
    let end = Some(item.expires_ms).filter(|end| *end != NEVER);
    match &item.value {
        Value::Str(value) => {
            out.key(name, end, Kind::Str)?;
            out.text(&value.bytes)
        }
        Value::List(list) => {
            out.key(name, end, Kind::List)?;
            out.length(list.len() as u64)?;
            list.iter().try_for_each(|((), element)| out.text(element))
        }
        Value::Set(set) => {
            out.key(name, end, Kind::Set)?;
            out.length(set.len() as u64)?;
            set.iter().try_for_each(|member| out.text(&member))
        }
        Value::Hash(hash) => {
            out.key(name, end, Kind::Hash)?;
            out.length(hash.len() as u64)?;
            hash.iter().try_for_each(|(field, value)| {
                out.text(field)?;
                out.text(value)
            })
        }
        Value::Sorted(sorted) => {
            out.key(name, end, Kind::Sorted)?;
            out.length(sorted.len() as u64)?;
            sorted.iter_from(0).try_for_each(|ranked| {
                out.text(&ranked.member)?;
                out.score(ranked.score)
            })
        }
    }
}

/// How much came out of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Keys that the store has now.
    pub keys: u64,
    /// Keys whose time was over.
    pub over: u64,
}

/// The databases that an RDB of so many bytes stands for, at a time since the Unix epoch. `read` hears how far it is.
pub(crate) fn load(
    from: impl Read,
    bytes: u64,
    now_ms: u64,
    mut read: impl FnMut(u64),
) -> Result<(Keyspace, Loaded), RdbError> {
    let mut reader = Reader::new(from, bytes)?;
    let mut databases: Vec<Database> = (0..DATABASES).map(|_| Database::default()).collect();
    let mut loaded = Loaded::default();
    while let Some(entry) = reader.next_entry()? {
        let at = reader.at();
        read(at);
        let (name, put) = match entry {
            Entry::Functions(_) => {
                let refused = Fault::Refused("it holds a library of functions");
                (None, Err(refused))
            }
            Entry::Key(key) => (Some(key.name.clone()), put(key, &mut databases, now_ms)),
        };
        match put {
            Ok(Put::There) => loaded.keys += 1,
            Ok(Put::Over) => loaded.over += 1,
            Ok(Put::Empty) => {}
            Err(fault) => return Err(RdbError::of_key(fault, at, name.as_deref())),
        }
    }
    Ok((Keyspace::loaded(databases, now_ms, false), loaded))
}

/// Why a key is refused of a database that the store does not have.
const FAR: Fault = Fault::Refused("the number of its database is above 15");

/// Whether the store takes a key.
///
/// # Errors
/// Why it does not.
pub fn takes(key: &Key) -> Result<(), Fault> {
    if key.db >= u64::from(DATABASES) {
        return Err(FAR);
    }
    match key.name.len().max(key.value.longest_bytes()) <= STRING_BYTES_MAX {
        true => Ok(()),
        false => Err(Fault::Refused("a text of it is longer than 64 MiB")),
    }
}

/// What became of a key.
enum Put {
    There,
    Over,
    /// Old servers wrote values without elements, which no server loads.
    Empty,
}

fn put(key: Key, databases: &mut [Database], now_ms: u64) -> Result<Put, Fault> {
    let database = usize::try_from(key.db)
        .ok()
        .and_then(|db| databases.get_mut(db));
    let database = database.ok_or(FAR)?;
    if key.expires_ms.is_some_and(|end| end < now_ms) {
        return Ok(Put::Over);
    }
    if key.value.is_empty() {
        return Ok(Put::Empty);
    }
    takes(&key)?;
    let item = Item {
        value: value(key.value)?,
        expires_ms: key.expires_ms.unwrap_or(NEVER),
        version: FIRST_VERSION,
    };
    match database.put(Sought::new(&key.name), item) {
        None => Ok(Put::There),
        Some(_) => Err(Fault::Damaged("a key that is there twice")),
    }
}

fn value(value: quorate_redis_rdb::Value) -> Result<Value, Fault> {
    use quorate_redis_rdb::Value as Read;
    let is_new = |is_new: bool| match is_new {
        true => Ok(()),
        false => Err(Fault::Damaged("an element that is there twice")),
    };
    Ok(match value {
        Read::Str(text) => Value::Str(Str::new(&text)),
        Read::List(elements) => {
            let mut list = List::default();
            elements
                .iter()
                .for_each(|element| list.push((), element[..].into()));
            Value::List(list)
        }
        Read::Set(members) => {
            let mut set = Set::default();
            members
                .iter()
                .try_for_each(|member: &Bytes| is_new(set.insert(member)))?;
            Value::Set(set)
        }
        Read::Hash(fields) => {
            let mut hash = Hash::default();
            fields
                .iter()
                .try_for_each(|(field, value)| is_new(!hash.set(field, value)))?;
            Value::Hash(hash)
        }
        Read::Sorted(members) => {
            let mut sorted = Sorted::default();
            let mut add =
                |(member, score): &(Bytes, f64)| is_new(sorted.set(member, *score).is_none());
            members.iter().try_for_each(&mut add)?;
            Value::Sorted(sorted)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1000;

    /// A file with one key of each kind, one of them with this end.
    fn file(ends_ms: u64) -> Vec<u8> {
        let mut out = Writer::new(Vec::new(), &[]).unwrap();
        out.database(3, 5, 1).unwrap();
        out.key(b"str", Some(ends_ms), Kind::Str).unwrap();
        out.text(b"v").unwrap();
        for (name, kind, texts) in [
            ("list", Kind::List, &["b", "a", "b"][..]),
            ("ints", Kind::Set, &["1", "2"]),
            ("names", Kind::Set, &["n"]),
            ("hash", Kind::Hash, &["f", "v"]),
        ] {
            out.key(name.as_bytes(), None, kind).unwrap();
            let each = if kind == Kind::Hash { 2 } else { 1 };
            out.length((texts.len() / each) as u64).unwrap();
            texts
                .iter()
                .for_each(|text| out.text(text.as_bytes()).unwrap());
        }
        out.key(b"sorted", None, Kind::Sorted).unwrap();
        out.length(1).unwrap();
        out.text(b"m").unwrap();
        out.score(f64::NEG_INFINITY).unwrap();
        out.finish().unwrap()
    }

    fn load(file: &[u8]) -> Result<(Keyspace, Loaded), RdbError> {
        super::load(file, file.len() as u64, NOW_MS, |_| ())
    }

    fn keys(file: &[u8]) -> Vec<Key> {
        let mut reader = Reader::new(file, file.len() as u64).unwrap();
        let mut keys = Vec::new();
        while let Some(Entry::Key(key)) = reader.next_entry().unwrap() {
            keys.push(key);
        }
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        keys
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let whole = file(NOW_MS);
        let (store, loaded) = load(&whole).unwrap();
        assert_eq!(loaded, Loaded { keys: 6, over: 0 });
        let everything = Everything::new(&store);
        let again = everything.write_rdb(Vec::new(), &[]).unwrap();
        assert_eq!(keys(&again), keys(&whole));
        let (_, loaded) = load(&file(NOW_MS - 1)).unwrap();
        assert_eq!(loaded, Loaded { keys: 5, over: 1 });
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        let key = |bytes: usize| Key {
            db: 0,
            name: Bytes::from_static(b"k"),
            expires_ms: None,
            value: quorate_redis_rdb::Value::List(vec![vec![0; bytes].into()]),
        };
        assert!(takes(&key(STRING_BYTES_MAX)).is_ok());
        assert!(takes(&key(STRING_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn files_that_no_server_writes_are_refused_by_the_key() {
        let with = |db: u64, names: [&str; 2], members: [&str; 2]| {
            let mut out = Writer::new(Vec::new(), &[]).unwrap();
            out.database(db, 2, 0).unwrap();
            for name in names {
                out.key(name.as_bytes(), None, Kind::Set).unwrap();
                out.length(2).unwrap();
                members
                    .iter()
                    .for_each(|member| out.text(member.as_bytes()).unwrap());
            }
            load(&out.finish().unwrap())
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        for (told, says) in [
            (with(0, ["a", "a"], ["m", "n"]), "key \"a\": it is damaged"),
            (
                with(0, ["a", "b"], ["1", "1"]),
                "an element that is there twice",
            ),
            (
                with(16, ["a", "b"], ["m", "n"]),
                "the number of its database is above 15",
            ),
        ] {
            assert!(told.contains(says), "{told}");
        }
    }
}
