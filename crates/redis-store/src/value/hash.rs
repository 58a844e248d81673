//! Hashes: packed while they are few and short, trees otherwise.

use crate::packed::Packed;
use crate::text::{Name, Sought, Text};
use crate::tree::Tree;

/// Fields that a hash holds packed, at most.
const PACKED_MAX: usize = 512;

/// Fields and their values. One that has become a tree stays one.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    /// Few and short, in the order in which they came.
    Packed(Packed),
    /// Any fields, by hash.
    Names(Tree<Name, Text>),
}

impl Default for Hash {
    fn default() -> Self {
        Hash::Packed(Packed::default())
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        match self {
            Hash::Packed(packed) => packed.len(),
            Hash::Names(names) => names.len(),
        }
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match self {
            Hash::Packed(packed) => packed.get(field),
            Hash::Names(names) => {
                let sought = Sought::new(field);
                names.get(sought).map(|value| &value[..])
            }
        }
    }

    /// Sets a field. Whether it was there.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.make_room([field, value]);
        match self {
            Hash::Packed(packed) => {
                let was_there = packed.set(field, value);
                if packed.len() > PACKED_MAX {
                    self.become_names();
                }
                was_there
            }
            Hash::Names(names) => names.insert(Name::new(field), value.into()).is_some(),
        }
    }

    /// Becomes a tree if one of these parts is too long to be packed.
    pub(crate) fn make_room<'a>(&mut self, parts: impl IntoIterator<Item = &'a [u8]>) {
        if parts
            .into_iter()
            .any(|part| part.len() > Packed::PART_BYTES_MAX)
        {
            self.become_names();
        }
    }

    /// Takes a field out. Whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Hash::Packed(packed) => packed.remove(field),
            Hash::Names(names) => {
                let sought = Sought::new(field);
                names.remove(sought).is_some()
            }
        }
    }

    /// The field at a position of the hash's order, and its value.
    pub(crate) fn at(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        match self {
            Hash::Packed(packed) => packed.iter().nth(rank),
            Hash::Names(names) => {
                let (name, value) = names.at(rank)?;
                Some((name.text(), value))
            }
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&[u8], &[u8])> + '_> {
        match self {
            Hash::Packed(packed) => Box::new(packed.iter()),
            Hash::Names(names) => Box::new(
                names
                    .iter()
                    .map(|(name, value)| (&name.text()[..], &value[..])),
            ),
        }
    }

    fn become_names(&mut self) {
        if let Hash::Packed(packed) = self {
            let mut names = Tree::default();
            for (field, value) in packed.to_texts() {
                names.insert(Name::new(&field), value);
            }
            *self = Hash::Names(names);
        }
    }
}
