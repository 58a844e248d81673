//! Parameters of protocols that have command-line flags of their own.

/// A parameter that operators set so often that it has a flag, beside `--param NAME=VALUE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// The flag's name, without dashes; in a configuration file it is the key.
    pub name: &'static str,
    /// The environment variable that stands for the flag.
    pub env: &'static str,
    /// The parameter that it sets.
    pub param: &'static str,
    /// What help texts call its value.
    pub value_name: &'static str,
    /// The purpose of the flag, as help texts say it: one line, without a period.
    pub help: &'static str,
    /// The parameter's value where neither the flag nor `--param` is given, as help texts say it.
    pub default: &'static str,
    /// What its values are.
    pub kind: FlagKind,
}

/// What the values of a [`Flag`] are; [`AUTO`] is one of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlagKind {
    /// A number of replicas.
    Replicas,
    /// A time, which the parameter has in whole microseconds.
    Micros,
}

/// The value by which the protocol chooses by itself.
pub const AUTO: &str = "auto";
