//! What a kind of message looks like: the fields that it has in JSON and in protobuf.

use std::fmt;

/// A kind of message.
pub struct MessageType {
    /// The name in the protobuf definition, without its package.
    pub name: &'static str,
    /// The fields, in the order in which JSON has them.
    pub(super) fields: &'static [Field],
}

/// Shows the name alone: kinds of messages may contain each other.
impl fmt::Debug for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    /// The name in the protobuf definition.
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
}

/// How often a field may be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// At most once; what is zero or empty is left out, unless it is a message.
    Single,
    Repeated,
    /// At most once, and no other field of this union beside it.
    Union(&'static str),
}

/// What a field contains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Bool,
    I64,
    U64,
    U32,
    Bytes,
    Text,
    /// The names of the numbers from 0 on.
    Enum(&'static [&'static str]),
    Message(&'static MessageType),
}

impl MessageType {
    /// The field that JSON calls by this name: that of the definition, or its `lowerCamelCase`.
    pub(super) fn field(&self, name: &str) -> Option<(usize, &'static Field)> {
        let fields = self.fields.iter().enumerate();
        let mut named = fields.filter(|(_, field)| field.name == name || field.is_camel(name));
        named.next()
    }
}

impl Field {
    /// Whether this is the field's name in `lowerCamelCase`: each underscore left out, and what follows it a capital.
    fn is_camel(&self, name: &str) -> bool {
        let words = self.name.split('_').enumerate();
        let mut left = name;
        for (at, word) in words {
            let Some((head, rest)) = left.split_at_checked(word.len()) else {
                return false;
            };
            let is_word = match (at, word.split_at_checked(1)) {
                (0, _) | (_, None) => head == word,
                (_, Some((first, others))) => {
                    head.starts_with(&first.to_ascii_uppercase()) && head.ends_with(others)
                }
            };
            if !is_word {
                return false;
            }
            left = rest;
        }
        left.is_empty()
    }
}

/// Kinds of messages as a table: `NUMBER NAME: SHAPE, KIND;` for each field.
macro_rules! message_types {
    ($($constant:ident = $type_name:literal {
        $($number:literal $field:ident: $shape:expr, $kind:expr;)*
    })*) => {
        $(

            pub(super) static $constant: MessageType = MessageType {
                name: $type_name,
                fields: &[$(Field {
                    name: stringify!($field),
                    number: $number,
                    shape: $shape,
                    kind: $kind,
                }),*],
            };
        )*
    };
}

pub(super) use message_types;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_two_names() {
        let field = |name| Field {
            name,
            number: 1,
            shape: Shape::Single,
            kind: Kind::Bool,
        };
        let cases = [
            ("range_end", "rangeEnd", true),
            ("range_end", "rangeend", false),
            ("range_end", "RangeEnd", false),
            ("range_end", "rangeEnde", false),
            ("range_end", "rangeE", false),
            ("max_mod_revision", "maxModRevision", true),
            ("key", "key", true),
            ("key", "Key", false),
            ("peerURLs", "peerURLs", true),
            ("ID", "id", false),
            ("range_end", "r\u{e4}ngeEnd", false),
        ];
        for (name, camel, expected) in cases {
            assert_eq!(field(name).is_camel(camel), expected, "{name} {camel}");
        }
    }
}
