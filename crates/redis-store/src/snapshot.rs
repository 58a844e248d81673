//! The store as a snapshot.
//!
//! A snapshot is a run of pieces, a piece a run of records, a record one byte for its kind and what belongs to it
//! (numbers are varints, strings have their lengths before them, versions and scores are eight bytes):
//!
//! | kind | what | content |
//! |---|---|---|
//! | 1 | head | format version, the time of the log in ms |
//! | 2 | database | its number; the keys behind it are in this one |
//! | 3 | key | its name, its version, its end in ms (0 for none), the kind of its value |
//! | 4 | elements | how many, then each: elements of the last key behind those before |
//! | 5 | end | keys before it |
//! | 6 | user | its name, the command that it is as since, its rules; users are behind the head, by name |
//! | 7 | followed | the server that is or was followed, if there is one; it is behind the head. Feature level 8 |
//!
//! Kinds of values: 1 string, 2 string that was changed in part, 10 sum of fractions (these have their bytes behind
//! the kind); 3 list; 4 set of integers, 5 set; 6 packed hash, 7 hash; 8 small sorted set, 9 large one. Elements are
//! those of a list, the members of a set, fields and values in turn, or members each behind its score.
//!
//! Keys, and the elements of what is kept by hash, come in the order of their hashes. Keys whose time is over are left
//! out. A cut is a copy of the trees, which costs nothing: what changes behind it is copied when it changes.

mod elements;

use crate::followed::Followed;
use crate::keyspace::{DATABASES, Database, Item, Keyspace, NEVER};
use crate::text::Name;
use crate::users::UserTable;
use crate::value::Value;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::sync::Arc;

const HEAD: u8 = 1;
const DATABASE: u8 = 2;
const KEY: u8 = 3;
const ELEMENTS: u8 = 4;
const END: u8 = 5;
const USER: u8 = 6;
const FOLLOWED: u8 = 7;

/// The version of this format.
const FORMAT: u64 = 1;

/// A snapshot that is being taken: copies of the databases, and how far it is.
#[derive(Debug)]
pub struct Cut {
    databases: Vec<Database>,
    users: Option<Arc<UserTable>>,
    followed: Option<Box<Followed>>,
    /// The time of the log, and that before which keys are over.
    log_ms: u64,
    now_ms: u64,
    place: Place,
    /// The database that the last record is of.
    told_db: Option<usize>,
    keys: u64,
}

/// Where a snapshot is.
#[derive(Debug)]
enum Place {
    Head,
    /// Behind this number of users.
    User(usize),
    /// Before a key of a database.
    Key(usize, usize),
    /// Within the elements of a key: so many are written.
    Elements(usize, usize, usize),
    Done,
}

impl Cut {
    pub(crate) fn new(
        keyspace: &Keyspace,
        users: Option<Arc<UserTable>>,
        followed: Option<Box<Followed>>,
    ) -> Self {
        Cut {
            databases: keyspace.databases().to_vec(),
            users,
            followed,
            log_ms: keyspace.log_ms(),
            now_ms: keyspace.now_ms(),
            place: Place::Head,
            told_db: None,
            keys: 0,
        }
    }

    pub(crate) fn next_piece(&mut self, bytes: usize) -> Option<Bytes> {
        let mut out = Encoder::new();
        while out.len() < bytes {
            self.place = match self.place {
                Place::Head => {
                    out.u8(HEAD);
                    out.varint(FORMAT);
                    out.varint(self.log_ms);
                    if let Some(followed) = self.followed.take() {
                        out.u8(FOLLOWED);
                        followed.encode(&mut out);
                    }
                    Place::User(0)
                }
                Place::User(place) => self.next_user(place, &mut out),
                Place::Key(db, rank) => self.next_key(db, rank, &mut out),
                Place::Elements(db, rank, from) => {
                    let room = bytes - out.len();
                    self.next_elements((db, rank), from, room, &mut out)
                }
                Place::Done => break,
            };
        }
        match out.is_empty() {
            true => {
                self.databases.clear();
                None
            }
            false => Some(out.into_bytes()),
        }
    }

    fn next_user(&self, place: usize, out: &mut Encoder) -> Place {
        let users = self.users.as_deref();
        let Some(user) = users.and_then(|users| users.iter().nth(place)) else {
            return Place::Key(0, 0);
        };
        out.u8(USER);
        UserTable::write_user(user, out);
        Place::User(place + 1)
    }

    fn next_key(&mut self, db: usize, rank: usize, out: &mut Encoder) -> Place {
        let Some(database) = self.databases.get(db) else {
            out.u8(END);
            out.varint(self.keys);
            return Place::Done;
        };
        let Some((name, item)) = database.keys().at(rank) else {
            return Place::Key(db + 1, 0);
        };
        // Whether those whose time is over are still there differs from replica to replica.
        if item.is_over(self.now_ms) {
            return Place::Key(db, rank + 1);
        }
        if self.told_db != Some(db) {
            self.told_db = Some(db);
            out.u8(DATABASE);
            out.varint(db as u64);
        }
        self.keys += 1;
        out.u8(KEY);
        elements::text(name.text(), out);
        out.u64(item.version);
        out.varint(if item.expires_ms == NEVER {
            0
        } else {
            item.expires_ms + 1
        });
        out.u8(elements::kind(&item.value));
        match &item.value {
            Value::Str(value) => {
                out.bytes(&value.bytes);
                Place::Key(db, rank + 1)
            }
            _ => Place::Elements(db, rank, 0),
        }
    }

    fn next_elements(
        &self,
        (db, rank): (usize, usize),
        from: usize,
        room: usize,
        out: &mut Encoder,
    ) -> Place {
        let Some((_, item)) = self.databases[db].keys().at(rank) else {
            return Place::Key(db, rank + 1);
        };
        let mut some = Encoder::new();
        let count = elements::write(&item.value, from, room, &mut some);
        out.u8(ELEMENTS);
        out.varint(count as u64);
        out.slice(&some.into_bytes());
        match from + count < elements::len(&item.value) {
            true => Place::Elements(db, rank, from + count),
            false => Place::Key(db, rank + 1),
        }
    }
}

/// A store that was loaded from a snapshot.
pub(crate) struct Loaded {
    pub(crate) databases: Keyspace,
    /// The users, if there are any.
    pub(crate) users: Option<Arc<UserTable>>,
    /// The server that is or was followed, if there is one.
    pub(crate) followed: Option<Box<Followed>>,
}

/// What was loaded so far.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    databases: Vec<Database>,
    users: Option<UserTable>,
    followed: Option<Box<Followed>>,
    last_user: Option<Bytes>,
    now_ms: u64,
    keys: u64,
    /// The key whose elements are next.
    open: Option<(Name, Item)>,
    has_head: bool,
    has_end: bool,
}

impl Loading {
    /// Loads the next piece. Its bytes may come from a damaged disk: everything is checked.
    pub(crate) fn load(&mut self, piece: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(piece);
        let mut read = || {
            while input.remaining() > 0 {
                self.record(&mut input)?;
            }
            Ok(())
        };
        let wrong = |error: WireError| format!("the store's part is damaged: {error}");
        read().map_err(wrong)
    }

    /// The store, once the whole snapshot was loaded.
    pub(crate) fn end(self) -> Result<Loaded, String> {
        if !self.has_end {
            return Err("the store's part is incomplete: it has no end".to_owned());
        }
        let is_following = self.followed.as_ref().is_some_and(|one| one.is_active());
        Ok(Loaded {
            databases: Keyspace::loaded(self.databases, self.now_ms, is_following),
            users: self.users.map(Arc::new),
            followed: self.followed,
        })
    }

    fn record(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        match (input.u8()?, self.has_head && !self.has_end) {
            (HEAD, false) if !self.has_head => {
                self.has_head = true;
                if input.varint()? != FORMAT {
                    return Err(WireError::Range("format of a snapshot"));
                }
                self.now_ms = input.varint()?;
                Ok(())
            }
            (USER, true) if self.databases.is_empty() => self.user(input),
            (FOLLOWED, true)
                if self.databases.is_empty() && self.users.is_none() && self.followed.is_none() =>
            {
                self.followed = Some(Box::new(Followed::decode(input)?));
                Ok(())
            }
            (DATABASE, true) => self.database(input),
            (KEY, true) => self.key(input),
            (ELEMENTS, true) => self.elements(input),
            (END, true) => {
                self.close()?;
                self.has_end = true;
                match input.varint()? {
                    keys if keys == self.keys => Ok(()),
                    _ => Err(WireError::Range("count of keys")),
                }
            }
            (kind, _) => Err(WireError::Tag("record of a snapshot", kind)),
        }
    }

    fn user(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        let user = UserTable::read_user(input)?;
        if self
            .last_user
            .as_ref()
            .is_some_and(|last| *last >= user.name)
        {
            return Err(WireError::Range("order of users"));
        }
        self.last_user = Some(user.name.clone());
        self.users.get_or_insert_default().put(user);
        Ok(())
    }

    fn database(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        self.close()?;
        let db = input.varint()?;
        if db < self.databases.len() as u64 || db >= u64::from(DATABASES) {
            return Err(WireError::Range("order of databases"));
        }
        self.databases
            .resize_with(db as usize + 1, Database::default);
        Ok(())
    }

    fn key(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        self.close()?;
        let name = Name::new(&input.bytes()?);
        let version = input.u64()?;
        if version == 0 {
            return Err(WireError::Range("version of a key"));
        }
        let expires_ms = match input.varint()? {
            0 => NEVER,
            end => end - 1,
        };
        let value = elements::read_head(input)?;
        let item = Item {
            value,
            expires_ms,
            version,
        };
        self.open = Some((name, item));
        Ok(())
    }

    fn elements(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        let (_, item) = self
            .open
            .as_mut()
            .ok_or(WireError::Range("place of elements"))?;
        let kind = elements::kind(&item.value);
        for _ in 0..input.count(1)? {
            elements::read(&mut item.value, input)?;
        }
        // One that has become another kind on the way was not written so.
        match kind == elements::kind(&item.value) {
            true => Ok(()),
            false => Err(WireError::Range("elements of a small value")),
        }
    }

    /// The elements of the last key are complete.
    fn close(&mut self) -> Result<(), WireError> {
        let Some((name, item)) = self.open.take() else {
            return Ok(());
        };
        if item.value.is_empty() {
            return Err(WireError::Range("count of elements"));
        }
        let database = self
            .databases
            .last_mut()
            .ok_or(WireError::Range("database of a key"))?;
        let last = database
            .keys()
            .len()
            .checked_sub(1)
            .and_then(|last| database.keys().at(last));
        if last.is_some_and(|(last, _)| *last >= name) {
            return Err(WireError::Range("order of keys"));
        }
        database.put(name.as_sought(), item);
        self.keys += 1;
        Ok(())
    }
}
