//! The versions of the protocol.

/// A version of the protocol, which decides how replies are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Resp {
    /// Version 2, with which every connection begins.
    #[default]
    Two,
    /// Version 3, which a client asks for with `HELLO 3`: maps, sets, doubles, pushes.
    Three,
}

impl Resp {
    /// The version with this number, if there is one.
    #[must_use]
    pub fn of(number: i64) -> Option<Resp> {
        match number {
            2 => Some(Resp::Two),
            3 => Some(Resp::Three),
            _ => None,
        }
    }

    /// The number of the version.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Resp::Two => 2,
            Resp::Three => 3,
        }
    }
}
