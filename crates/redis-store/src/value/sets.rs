//! Sets: of integers while they are few, of names otherwise.

use crate::number;
use crate::text::{Name, Sought};
use crate::tree::Tree;
use std::borrow::Cow;
use std::sync::Arc;

/// Integers that a set holds as such, at most.
const INTS_MAX: usize = 512;

/// A set of members. One that has become a set of names stays one.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    /// Integers, in ascending order.
    Ints(Arc<Vec<i64>>),
    /// Any members, by hash.
    Names(Tree<Name, ()>),
}

impl Default for Set {
    fn default() -> Self {
        Set::Ints(Arc::default())
    }
}

impl Set {
    pub(crate) fn len(&self) -> usize {
        match self {
            Set::Ints(ints) => ints.len(),
            Set::Names(names) => names.len(),
        }
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match self {
            Set::Ints(ints) => {
                number::integer(member).is_some_and(|int| ints.binary_search(&int).is_ok())
            }
            Set::Names(names) => {
                let sought = Sought::new(member);
                names.get(sought).is_some()
            }
        }
    }

    /// Adds a member. Whether it is new.
    pub(crate) fn insert(&mut self, member: &[u8]) -> bool {
        if let Set::Ints(ints) = self {
            match number::integer(member) {
                Some(int) => {
                    let Err(at) = ints.binary_search(&int) else {
                        return false;
                    };
                    Arc::make_mut(ints).insert(at, int);
                    if ints.len() > INTS_MAX {
                        self.become_names();
                    }
                    return true;
                }
                None => self.become_names(),
            }
        }
        match self {
            Set::Names(names) => names.insert(Name::new(member), ()).is_none(),
            Set::Ints(_) => unreachable!("it has just become a set of names"),
        }
    }

    /// Takes a member out. Whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Set::Ints(ints) => {
                let int = number::integer(member);
                let place = int.and_then(|int| ints.binary_search(&int).ok());
                place.is_some_and(|at| {
                    Arc::make_mut(ints).remove(at);
                    true
                })
            }
            Set::Names(names) => {
                let sought = Sought::new(member);
                names.remove(sought).is_some()
            }
        }
    }

    /// The member at a position of the set's order.
    pub(crate) fn at(&self, rank: usize) -> Option<Cow<'_, [u8]>> {
        match self {
            Set::Ints(ints) => ints.get(rank).map(|int| to_text(*int)),
            Set::Names(names) => {
                let (name, ()) = names.at(rank)?;
                Some(Cow::Borrowed(name.text()))
            }
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Cow<'_, [u8]>> + '_> {
        match self {
            Set::Ints(ints) => Box::new(ints.iter().map(|int| to_text(*int))),
            Set::Names(names) => Box::new(
                names
                    .iter()
                    .map(|(name, ())| Cow::Borrowed(&name.text()[..])),
            ),
        }
    }

    fn become_names(&mut self) {
        if let Set::Ints(ints) = self {
            let mut names = Tree::default();
            for int in ints.iter() {
                names.insert(Name::new(&to_text(*int)), ());
            }
            *self = Set::Names(names);
        }
    }
}

fn to_text(int: i64) -> Cow<'static, [u8]> {
    Cow::Owned(int.to_string().into_bytes())
}
