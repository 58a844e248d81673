//! Databases: keys, what they hold, and when their time is over.

mod garbage;

use crate::text::{Name, Sought};
use crate::tree::Tree;
use crate::value::Value;
use garbage::Garbage;
use std::collections::VecDeque;

/// The number of databases.
pub(crate) const DATABASES: u32 = 16;

/// The time of a key that stays.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a key holds.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Value,
    /// The last millisecond of its life; [`NEVER`] if it has no end.
    pub(crate) expires_ms: u64,
    /// The name of the command that changed it last; never 0.
    pub(crate) version: u64,
}

impl Item {
    /// Whether its time is over.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms < now_ms
    }
}

/// One database: keys and their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    keys: Tree<Name, Item>,
    /// The keys that have an end, by when that is.
    ends: Tree<(u64, Name), ()>,
}

impl Database {
    /// All keys, in the order of their hashes: those whose time is over as well.
    pub(crate) fn keys(&self) -> &Tree<Name, Item> {
        &self.keys
    }

    /// A key that is there at this time.
    pub(crate) fn get(&self, key: Sought<'_>, now_ms: u64) -> Option<&Item> {
        let item = self.keys.get(key)?;
        (!item.is_over(now_ms)).then_some(item)
    }

    /// A key, whether or not its time is over.
    pub(crate) fn get_any(&self, key: Sought<'_>) -> Option<&Item> {
        self.keys.get(key)
    }

    /// The number of keys that are there at this time.
    pub(crate) fn len(&self, now_ms: u64) -> usize {
        self.keys.len() - self.ends.count_less(|(end, _)| end.cmp(&now_ms))
    }

    /// The number of keys that are there at this time and have an end.
    pub(crate) fn ending(&self, now_ms: u64) -> usize {
        self.ends.len() - self.ends.count_less(|(end, _)| end.cmp(&now_ms))
    }

    /// The first end of a key that is not over at this time.
    pub(crate) fn next_end(&self, now_ms: u64) -> Option<u64> {
        let over = self.ends.count_less(|(end, _)| end.cmp(&now_ms));
        self.ends.at(over).map(|((end, _), ())| *end)
    }

    /// The first key whose time is over.
    fn first_over(&self, now_ms: u64) -> Option<&Name> {
        let ((end, name), ()) = self.ends.first()?;
        (*end < now_ms).then_some(name)
    }

    /// Takes some items off a database that nobody looks at any more; `None` if there are none left of its own.
    pub(crate) fn shed(&mut self) -> Option<Vec<Item>> {
        if let Some(items) = self.keys.shed() {
            return Some(items.into_iter().map(|(_, item)| item).collect());
        }
        self.ends.shed().map(|_| Vec::new())
    }

    /// Sets a key. What it held.
    pub(crate) fn put(&mut self, key: Sought<'_>, item: Item) -> Option<Item> {
        let ends_ms = item.expires_ms;
        let before = match self.keys.get_mut(key) {
            Some(before) => Some(std::mem::replace(before, item)),
            None => {
                self.keys.insert(key.to_name(), item);
                None
            }
        };
        let ended_ms = before.as_ref().map_or(NEVER, |before| before.expires_ms);
        if ended_ms != ends_ms {
            self.move_end(key.to_name(), ended_ms, ends_ms);
        }
        before
    }

    /// Takes a key out. What it held.
    fn remove(&mut self, key: Sought<'_>) -> Option<Item> {
        let (name, item) = self.keys.remove(key)?;
        self.move_end(name, item.expires_ms, NEVER);
        Some(item)
    }

    fn move_end(&mut self, key: Name, from_ms: u64, to_ms: u64) {
        if from_ms != NEVER {
            let place = |(end, name): &(u64, Name)| end.cmp(&from_ms).then_with(|| name.cmp(&key));
            self.ends.remove_by(place);
        }
        if to_ms != NEVER {
            self.ends.insert((to_ms, key), ());
        }
    }
}

/// All databases, the time of the log, and what may have to be taken back.
#[derive(Debug)]
pub(crate) struct Keyspace {
    databases: Vec<Database>,
    now_ms: u64,
    /// Whether keys stay beyond their ends: another server says when they go.
    is_expiry_suspended: bool,
    /// The commands that may have to be taken back, oldest first.
    attempts: VecDeque<Attempt>,
    garbage: Garbage,
}

/// What a command that may have to be taken back has changed.
#[derive(Debug)]
struct Attempt {
    /// The time before it.
    now_ms: u64,
    /// Keys and what they held before, in the order of the changes.
    changes: Vec<(u32, Name, Option<Item>)>,
}

impl Default for Keyspace {
    fn default() -> Self {
        Keyspace {
            databases: (0..DATABASES).map(|_| Database::default()).collect(),
            now_ms: 0,
            is_expiry_suspended: false,
            attempts: VecDeque::new(),
            garbage: Garbage::default(),
        }
    }
}

impl Keyspace {
    /// The databases of a snapshot, in the order of their numbers, at its time.
    pub(crate) fn loaded(
        mut databases: Vec<Database>,
        now_ms: u64,
        is_expiry_suspended: bool,
    ) -> Self {
        databases.resize_with(DATABASES as usize, Database::default);
        Keyspace {
            databases,
            now_ms,
            is_expiry_suspended,
            attempts: VecDeque::new(),
            garbage: Garbage::default(),
        }
    }

    /// A database; its number is below [`DATABASES`].
    pub(crate) fn database(&self, db: u32) -> &Database {
        &self.databases[db as usize]
    }

    pub(crate) fn databases(&self) -> &[Database] {
        &self.databases
    }

    /// The time of the last command, in ms.
    pub(crate) fn log_ms(&self) -> u64 {
        self.now_ms
    }

    /// The time before which keys are over, in ms: that of the last command, unless nothing ends at present.
    pub(crate) fn now_ms(&self) -> u64 {
        match self.is_expiry_suspended {
            true => 0,
            false => self.now_ms,
        }
    }

    /// Everything goes, and from now on keys stay beyond their ends. Which of those that are over are still there
    /// differs from replica to replica: none may be left.
    pub(crate) fn clear_and_suspend_expiry(&mut self) {
        for db in 0..DATABASES {
            let database = self.replace(db, Database::default());
            self.discard_database(database);
        }
        self.is_expiry_suspended = true;
    }

    /// From now on keys end in time again.
    pub(crate) fn resume_expiry(&mut self) {
        self.is_expiry_suspended = false;
    }

    /// Time is this, or what it was if that is later.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// What follows may have to be taken back.
    pub(crate) fn begin_attempt(&mut self) {
        let (now_ms, changes) = (self.now_ms, Vec::new());
        self.attempts.push_back(Attempt { now_ms, changes });
    }

    /// The oldest attempt stays.
    pub(crate) fn keep_attempt(&mut self) {
        self.attempts.pop_front();
    }

    /// Whether anything may have to be taken back.
    pub(crate) fn has_attempts(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Takes the newest attempt back.
    pub(crate) fn retract_attempt(&mut self) {
        let Some(attempt) = self.attempts.pop_back() else {
            return;
        };
        for (db, key, before) in attempt.changes.into_iter().rev() {
            let database = &mut self.databases[db as usize];
            match before {
                Some(item) => drop(database.put(key.as_sought(), item)),
                None => drop(database.remove(key.as_sought())),
            }
        }
        self.now_ms = attempt.now_ms;
    }

    /// Sets a key.
    pub(crate) fn put(&mut self, db: u32, key: Sought<'_>, item: Item) {
        self.note(db, key);
        if let Some(before) = self.databases[db as usize].put(key, item) {
            self.garbage.take_value(&before.value);
        }
    }

    /// Takes a key out, whether or not its time is over.
    pub(crate) fn remove(&mut self, db: u32, key: Sought<'_>) -> Option<Item> {
        self.note(db, key);
        let item = self.databases[db as usize].remove(key)?;
        self.garbage.take_value(&item.value);
        Some(item)
    }

    /// Something is no part of a database any more, and about to go.
    pub(crate) fn discard_value(&mut self, value: &Value) {
        self.garbage.take_value(value);
    }

    /// A database is about to go that was replaced.
    pub(crate) fn discard_database(&mut self, database: Database) {
        self.garbage.take_database(database);
    }

    /// What a key holds, to be changed: its end is not.
    pub(crate) fn edit(&mut self, db: u32, key: Sought<'_>) -> Option<&mut Item> {
        self.note(db, key);
        let database = &mut self.databases[db as usize];
        database.keys.get_mut(key)
    }

    /// Sets the end of a key that is there.
    pub(crate) fn set_end(&mut self, db: u32, key: Sought<'_>, ends_ms: u64) {
        let Some(item) = self.edit(db, key) else {
            return;
        };
        let ended_ms = std::mem::replace(&mut item.expires_ms, ends_ms);
        self.databases[db as usize].move_end(key.to_name(), ended_ms, ends_ms);
    }

    /// Puts another database in the place of one. No attempt may do that.
    pub(crate) fn replace(&mut self, db: u32, database: Database) -> Database {
        debug_assert!(self.attempts.is_empty(), "it could not be taken back");
        std::mem::replace(&mut self.databases[db as usize], database)
    }

    /// Frees a little of what was thrown away, or removes a key whose time is over, unless something may have to be
    /// taken back. Nobody can tell.
    pub(crate) fn free_some(&mut self) -> bool {
        if self.has_attempts() {
            return false;
        }
        if self.garbage.free_some() {
            return true;
        }
        let now_ms = self.now_ms();
        for database in &mut self.databases {
            if let Some(name) = database.first_over(now_ms).cloned() {
                if let Some(item) = database.remove(name.as_sought()) {
                    self.garbage.take_value(&item.value);
                }
                return true;
            }
        }
        false
    }

    /// A key changes: what it held is kept for whoever may take the change back.
    fn note(&mut self, db: u32, key: Sought<'_>) {
        if let Some(attempt) = self.attempts.back_mut() {
            let before = self.databases[db as usize].get_any(key).cloned();
            attempt.changes.push((db, key.to_name(), before));
        }
    }
}
