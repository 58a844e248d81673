//! Errors of commands, in Redis's words.

use std::borrow::Cow;

/// An error reply: its code, a space, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) Cow<'static, str>);

/// What a command comes to: its reply is written, or there is an error in the reply's place.
pub(crate) type Done = Result<(), Fault>;

impl Fault {
    pub(crate) const SYNTAX: Fault = Fault::of("ERR syntax error");
    pub(crate) const NO_INTEGER: Fault = Fault::of("ERR value is not an integer or out of range");
    pub(crate) const NO_FLOAT: Fault = Fault::of("ERR value is not a valid float");
    pub(crate) const OUT_OF_RANGE: Fault = Fault::of("ERR value is out of range");
    pub(crate) const BEYOND: Fault = Fault::of(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    pub(crate) const BEYOND_INT: Fault =
        Fault::of("ERR value is out of range, value must between -2147483648 and 2147483647");
    pub(crate) const NOT_POSITIVE: Fault = Fault::of("ERR value is out of range, must be positive");
    pub(crate) const NO_KEY: Fault = Fault::of("ERR no such key");
    pub(crate) const INDEX: Fault = Fault::of("ERR index out of range");
    pub(crate) const DATABASE: Fault = Fault::of("ERR DB index is out of range");
    pub(crate) const OVERFLOW: Fault = Fault::of("ERR increment or decrement would overflow");
    pub(crate) const INFINITE: Fault = Fault::of("ERR increment would produce NaN or Infinity");
    pub(crate) const SAME_OBJECT: Fault =
        Fault::of("ERR source and destination objects are the same");
    pub(crate) const WRONG_TYPE: Fault =
        Fault::of("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const TOO_LONG: Fault =
        Fault::of("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// An error with a text that is known beforehand.
    pub(crate) const fn of(text: &'static str) -> Fault {
        Fault(Cow::Borrowed(text))
    }

    /// The number of arguments does not fit a command.
    pub(crate) fn arity(name: &str) -> Fault {
        Fault(format!("ERR wrong number of arguments for '{name}' command").into())
    }

    /// The time that a key shall live does not fit the command of this name.
    pub(crate) fn expire_time(name: &[u8]) -> Fault {
        let name = String::from_utf8_lossy(name).to_lowercase();
        Fault(format!("ERR invalid expire time in '{name}' command").into())
    }
}
