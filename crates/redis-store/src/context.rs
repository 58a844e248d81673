//! What commands run in: a view for those that read, and what those that write may do.

use crate::fault::Fault;
use crate::keyspace::{Database, Item, Keyspace, NEVER};
use crate::random::Random;
use crate::subscribers::Subscribers;
use crate::text::Sought;
use crate::value::{Kind, Value};
use bytes::Bytes;
use std::cell::{Cell, RefCell};

/// A command that reads looks at this.
pub(crate) struct View<'a> {
    keyspace: &'a Keyspace,
    db: u32,
    /// The clock of the replica, in ms: never before the time of the log.
    clock_ms: u64,
    /// Whether it looked at something that is over by the clock and not by the log.
    is_due: &'a Cell<bool>,
    random: &'a RefCell<Random>,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        keyspace: &'a Keyspace,
        db: u32,
        clock_ms: u64,
        is_due: &'a Cell<bool>,
        random: &'a RefCell<Random>,
    ) -> Self {
        let clock_ms = clock_ms.max(keyspace.now_ms());
        View {
            keyspace,
            db,
            clock_ms,
            is_due,
            random,
        }
    }

    /// The time that tells how long a key has left, in ms.
    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock_ms
    }

    /// The time of the log, in ms.
    pub(crate) fn now_ms(&self) -> u64 {
        self.keyspace.now_ms()
    }

    /// Chance, which is no part of the state.
    pub(crate) fn random(&self) -> std::cell::RefMut<'_, Random> {
        self.random.borrow_mut()
    }

    /// The whole database.
    pub(crate) fn database(&self) -> &'a Database {
        let database = self.keyspace.database(self.db);
        let next_end = database.next_end(self.now_ms());
        if next_end.is_some_and(|end| end < self.clock_ms) {
            self.is_due.set(true);
        }
        database
    }

    /// What a key holds.
    pub(crate) fn item(&self, key: Sought<'_>) -> Option<&'a Item> {
        let database = self.keyspace.database(self.db);
        let item = database.get(key, self.now_ms())?;
        if item.is_over(self.clock_ms) {
            self.is_due.set(true);
        }
        Some(item)
    }

    /// What a key holds, if that is of the kind that is asked for.
    pub(crate) fn get<T: Kind>(&self, key: &[u8]) -> Result<Option<&'a T>, Fault> {
        let item = self.item(Sought::new(key));
        item.map(|item| T::of(&item.value).ok_or(Fault::WRONG_TYPE))
            .transpose()
    }
}

/// A command that writes works on this.
pub(crate) struct Exec<'a> {
    keyspace: &'a mut Keyspace,
    pub(crate) db: u32,
    /// What the keys that change get as their version.
    version: u64,
    random: RefCell<Random>,
    /// Messages for subscribers: their channels and contents.
    pub(crate) published: Vec<(Bytes, Bytes)>,
    /// What was changed, if somebody waits for elements.
    changed: Option<Changed>,
}

/// What a body has changed.
#[derive(Debug, Default)]
struct Changed {
    /// Keys in their databases, each as often as it was changed.
    keys: Vec<(u32, Bytes)>,
    /// Whether whole databases are others.
    is_all: bool,
}

impl<'a> Exec<'a> {
    pub(crate) fn new(keyspace: &'a mut Keyspace, db: u32, version: u64) -> Self {
        let (random, published) = (RefCell::new(Random::new(version)), Vec::new());
        Exec {
            keyspace,
            db,
            version,
            random,
            published,
            changed: None,
        }
    }

    /// Notes from now on what is changed.
    pub(crate) fn note_changes(&mut self) {
        self.changed = Some(Changed::default());
    }

    /// Tells of messages, and of elements where somebody may wait for them.
    pub(crate) fn tell(self, subscribers: &dyn Subscribers) {
        for (channel, message) in &self.published {
            subscribers.publish(channel, message);
        }
        let mut changed = self.changed.unwrap_or_default();
        if changed.is_all {
            subscribers.all_elements();
        }
        changed.keys.sort_unstable();
        changed.keys.dedup();
        let now_ms = self.keyspace.now_ms();
        for (db, key) in &changed.keys {
            let item = self.keyspace.database(*db).get(Sought::new(key), now_ms);
            let count = item.map_or(0, |item| item.value.elements());
            if count > 0 {
                subscribers.elements(*db, key, count);
            }
        }
    }

    fn note(&mut self, db: u32, key: &[u8]) {
        if let Some(changed) = &mut self.changed {
            changed.keys.push((db, Bytes::copy_from_slice(key)));
        }
    }

    /// Lets a command that reads look at what is here now.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&View<'_>) -> T) -> T {
        let now_ms = self.keyspace.now_ms();
        let is_due = Cell::new(false);
        read(&View::new(
            self.keyspace,
            self.db,
            now_ms,
            &is_due,
            &self.random,
        ))
    }

    /// Chance, which all replicas draw alike.
    pub(crate) fn random(&mut self) -> &mut Random {
        self.random.get_mut()
    }

    /// The time of the log, in ms: what a time to live is counted from.
    pub(crate) fn log_ms(&self) -> u64 {
        self.keyspace.log_ms()
    }

    /// The time before which keys are over, in ms.
    fn now_ms(&self) -> u64 {
        self.keyspace.now_ms()
    }

    /// What a key holds.
    pub(crate) fn item(&self, key: &[u8]) -> Option<&Item> {
        self.item_of(self.db, Sought::new(key))
    }

    /// What a key of some database holds.
    pub(crate) fn item_of(&self, db: u32, key: Sought<'_>) -> Option<&Item> {
        self.keyspace.database(db).get(key, self.now_ms())
    }

    /// What a key holds, if that is of the kind that is asked for.
    pub(crate) fn get<T: Kind>(&self, key: &[u8]) -> Result<Option<&T>, Fault> {
        let item = self.item(key);
        item.map(|item| T::of(&item.value).ok_or(Fault::WRONG_TYPE))
            .transpose()
    }

    /// What a key holds, to be changed.
    pub(crate) fn edit<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut T>, Fault> {
        let (now_ms, version) = (self.now_ms(), self.version);
        self.note(self.db, key);
        let Some(item) = self.keyspace.edit(self.db, Sought::new(key)) else {
            return Ok(None);
        };
        if item.is_over(now_ms) {
            return Ok(None);
        }
        let value = T::of_mut(&mut item.value).ok_or(Fault::WRONG_TYPE)?;
        item.version = version;
        Ok(Some(value))
    }

    /// Changes what a key holds, or something new in its place; what is left empty goes.
    pub(crate) fn change<T: Kind + Default, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Fault> {
        let Some(value) = self.edit::<T>(key)? else {
            let mut value = T::default();
            let result = change(&mut value);
            self.store(key, value.into_value());
            return Ok(result);
        };
        let result = change(value);
        if value.is_empty() {
            self.keyspace.remove(self.db, Sought::new(key));
        }
        Ok(result)
    }

    /// Sets a key and its end.
    pub(crate) fn put(&mut self, key: &[u8], value: Value, expires_ms: u64) {
        self.put_in(self.db, Sought::new(key), value, expires_ms);
    }

    /// Sets a key of some database and its end.
    pub(crate) fn put_in(&mut self, db: u32, key: Sought<'_>, value: Value, expires_ms: u64) {
        let version = self.version;
        self.note(db, key.text());
        let item = Item {
            value,
            expires_ms,
            version,
        };
        self.keyspace.put(db, key, item);
    }

    /// Sets a key that keeps its end, if it has one.
    pub(crate) fn put_keeping(&mut self, key: &[u8], value: Value) {
        let (now_ms, version) = (self.now_ms(), self.version);
        self.note(self.db, key);
        match self.keyspace.edit(self.db, Sought::new(key)) {
            Some(item) if !item.is_over(now_ms) => {
                let before = std::mem::replace(&mut item.value, value);
                item.version = version;
                self.keyspace.discard_value(&before);
            }
            _ => self.put(key, value, NEVER),
        }
    }

    /// Sets a key to a collection without an end, or takes it out if that is empty.
    pub(crate) fn store(&mut self, key: &[u8], mut value: Value) {
        if let Value::Sorted(sorted) = &mut value {
            sorted.drop_signs();
        }
        match value.is_empty() {
            true => drop(self.take(key)),
            false => self.put(key, value, NEVER),
        }
    }

    /// Takes a key out. What it held.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Item> {
        let now_ms = self.now_ms();
        let sought = Sought::new(key);
        self.keyspace.database(self.db).get_any(sought)?;
        let item = self.keyspace.remove(self.db, sought)?;
        (!item.is_over(now_ms)).then_some(item)
    }

    /// Sets the end of a key that is there. One that is over takes it out.
    pub(crate) fn set_end(&mut self, key: &[u8], ends_ms: u64) {
        if ends_ms <= self.now_ms() {
            self.take(key);
            return;
        }
        let (db, version) = (self.db, self.version);
        let sought = Sought::new(key);
        self.keyspace.set_end(db, sought, ends_ms);
        if let Some(item) = self.keyspace.edit(db, sought) {
            item.version = version;
        }
    }

    /// Empties a database.
    pub(crate) fn empty(&mut self, db: u32) {
        let database = self.keyspace.replace(db, Database::default());
        self.keyspace.discard_database(database);
    }

    /// Lets two databases change places.
    pub(crate) fn swap(&mut self, one: u32, other: u32) {
        let database = self.keyspace.replace(one, Database::default());
        let database = self.keyspace.replace(other, database);
        self.keyspace.replace(one, database);
        if let Some(changed) = &mut self.changed {
            changed.is_all = true;
        }
    }
}
