//! What a key may hold.

mod hash;
mod sets;
mod sorted;

pub(crate) use hash::Hash;
pub(crate) use sets::Set;
pub(crate) use sorted::{Ranked, Sorted};

use crate::number;
use crate::text::Text;
use crate::tree::Tree;
use bytes::Bytes;

/// A string of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Str {
    pub(crate) bytes: Bytes,
    pub(crate) form: Form,
}

/// How a string came about, after which Redis looks for a shorter form of it, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Form {
    /// The string was given as a whole.
    #[default]
    Given,
    /// The string is a sum of fractions.
    Sum,
    /// A part of the string was changed.
    Raw,
}

/// A list of elements.
pub(crate) type List = Tree<(), Text>;

/// The value of a key. Copies cost nothing: they share what neither changes.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Str(Str),
    List(List),
    Set(Set),
    Hash(Hash),
    Sorted(Sorted),
}

/// A kind of value.
pub(crate) trait Kind: Sized {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    /// Whether it is a collection without elements: no key has one.
    fn is_empty(&self) -> bool;
}

macro_rules! kinds {
    ($($kind:ident),*) => {$(
        impl Kind for $kind {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$kind(value) => Some(value),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$kind(value) => Some(value),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$kind(self)
            }

            fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    )*};
}

kinds!(List, Set, Hash, Sorted, Str);

impl Str {
    /// Never 0: a string is no collection, and may be empty.
    fn len(&self) -> usize {
        self.bytes.len().max(1)
    }

    /// A string that was given as a whole.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // A copy: the argument is a part of something larger that would stay in memory with it.
        Str {
            bytes: Bytes::copy_from_slice(bytes),
            form: Form::Given,
        }
    }

    /// A string that is the sum of fractions.
    pub(crate) fn sum(text: &str) -> Self {
        Str {
            bytes: Bytes::copy_from_slice(text.as_bytes()),
            form: Form::Sum,
        }
    }

    /// The integer that Redis keeps in its place.
    pub(crate) fn as_int(&self) -> Option<i64> {
        number::integer(&self.bytes).filter(|_| self.form == Form::Given)
    }

    /// A string of which a part was changed.
    pub(crate) fn raw(bytes: Bytes) -> Self {
        let form = Form::Raw;
        Str { bytes, form }
    }
}

/// Bytes of a string that Redis keeps beside its head, at most.
const EMBEDDED_BYTES_MAX: usize = 44;

impl Value {
    /// Whether it is a collection without elements: no key has one.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Str(value) => Kind::is_empty(value),
            Value::List(list) => Kind::is_empty(list),
            Value::Set(set) => Kind::is_empty(set),
            Value::Hash(hash) => Kind::is_empty(hash),
            Value::Sorted(sorted) => Kind::is_empty(sorted),
        }
    }

    /// How many elements it has of those that somebody may wait for.
    pub(crate) fn elements(&self) -> usize {
        match self {
            Value::List(list) => list.len(),
            Value::Sorted(sorted) => sorted.len(),
            Value::Str(_) | Value::Set(_) | Value::Hash(_) => 0,
        }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Str(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::Sorted(_) => "zset",
        }
    }

    /// The name of the form in which Redis would keep it.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Value::Str(Str {
                form: Form::Raw, ..
            }) => "raw",
            Value::Str(value) if value.as_int().is_some() => "int",
            Value::Str(Str { bytes, .. }) if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
            Value::Str(_) => "raw",
            Value::List(_) => "quicklist",
            Value::Set(Set::Ints(_)) => "intset",
            Value::Set(Set::Names(_)) | Value::Hash(Hash::Names(_)) => "hashtable",
            Value::Hash(Hash::Packed(_)) => "listpack",
            Value::Sorted(Sorted { is_large: true, .. }) => "skiplist",
            Value::Sorted(_) => "listpack",
        }
    }
}
