//! What nobody can reach any more, freed a little at a time: a large value that goes at once would hold up all clients.

use super::Database;
use crate::tree::{Key, Tree};
use crate::value::{Hash, Set, Value};

/// A value with fewer elements goes at once.
const LARGE_LEN: usize = 1024;
/// Leaves of trees that are freed in one step.
const LEAVES_AT_ONCE: usize = 8;
/// Elements that may wait: beyond them, what is thrown away goes at once, for it comes faster than it goes.
const LEN_MAX: usize = 1 << 22;

/// Large values and databases that were thrown away. Whoever else holds a copy keeps it.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    values: Vec<Value>,
    databases: Vec<Database>,
    /// Elements and keys that wait, as they were counted when they came.
    len: usize,
}

impl Garbage {
    /// Takes a copy of what is about to go, if that is large.
    pub(crate) fn take_value(&mut self, value: &Value) {
        let len = value.tree_len();
        if len >= LARGE_LEN && self.len + len <= LEN_MAX {
            self.len += len;
            self.values.push(value.clone());
        }
    }

    /// Takes a database that is about to go.
    pub(crate) fn take_database(&mut self, database: Database) {
        let len = database.keys().len();
        if self.len + len <= LEN_MAX {
            self.len += len;
            self.databases.push(database);
        }
    }

    /// Frees a little. Whether there was anything.
    pub(crate) fn free_some(&mut self) -> bool {
        if self.values.is_empty() && self.databases.is_empty() {
            return false;
        }
        for _ in 0..LEAVES_AT_ONCE {
            if let Some(value) = self.values.last_mut() {
                if !value.shed() {
                    self.values.pop();
                }
            } else if let Some(database) = self.databases.last_mut() {
                match database.shed() {
                    Some(items) => {
                        for item in &items {
                            self.take_value(&item.value);
                        }
                    }
                    None => drop(self.databases.pop()),
                }
            } else {
                self.len = 0;
            }
        }
        true
    }
}

impl Value {
    /// The number of elements that are kept in trees.
    fn tree_len(&self) -> usize {
        match self {
            Value::List(list) => list.len(),
            Value::Set(Set::Names(names)) => names.len(),
            Value::Hash(Hash::Names(names)) => names.len(),
            Value::Sorted(sorted) => sorted.len(),
            Value::Str(_) | Value::Set(Set::Ints(_)) | Value::Hash(Hash::Packed(_)) => 0,
        }
    }

    /// Frees the last leaf of a value that nobody reads any more. Whether there was one.
    fn shed(&mut self) -> bool {
        fn some<K: Key, V>(tree: &mut Tree<K, V>) -> bool {
            tree.shed().is_some()
        }
        match self {
            Value::List(list) => some(list),
            Value::Set(Set::Names(names)) => some(names),
            Value::Hash(Hash::Names(names)) => some(names),
            Value::Sorted(sorted) => sorted.shed(),
            Value::Str(_) | Value::Set(Set::Ints(_)) | Value::Hash(Hash::Packed(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;
    use std::sync::Arc;

    fn list(element: &Text) -> Value {
        let mut list = crate::value::List::default();
        (0..3000).for_each(|_| list.push((), Arc::clone(element)));
        Value::List(list)
    }

    /// Scenario: a value is thrown away, of which somebody has a copy at first.
    #[test]
    fn what_nobody_holds_is_freed_in_steps() {
        let element: Text = Arc::from(&b"x"[..]);
        let mut garbage = Garbage::default();
        let (value, copy) = (list(&element), list(&element));
        garbage.take_value(&value);
        garbage.take_value(&copy);
        drop(value);
        assert_eq!(Arc::strong_count(&element), 6001);
        let mut steps = 0;
        while garbage.free_some() {
            steps += 1;
        }
        assert!(steps > 3000 / 48 / LEAVES_AT_ONCE, "{steps} steps");
        // The copy is whole.
        assert_eq!(Arc::strong_count(&element), 3001);
        assert_eq!(copy.tree_len(), 3000);
    }
}
