//! Rules of users, in the words of Redis's `ACL SETUSER`.

use super::rights::{CommandRules, Commands, Patterns};
use super::{PasswordHash, User};
use bytes::Bytes;
use std::fmt;

/// Bytes of a rule, at most.
const RULE_BYTES_MAX: usize = 1024;

/// Why a rule cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleError {
    /// The rule has no sign that is known.
    Sign,
    /// The rule has a password in the place of a password's hash.
    Plain,
    /// The rule has no hash behind its sign.
    Hash,
    /// The user does not have the password that is to go.
    NoPassword,
    /// The rule names a command in letters that no command has.
    Name,
    /// Selectors are not supported.
    Selector,
    /// Rights to read or to write alone are not supported.
    ReadOrWrite,
    /// The rule is too long.
    Length,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Sign => "a rule has none of the signs > # < ! ~ & + -",
            RuleError::Plain => "a password has to be hashed before it is stored",
            RuleError::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::NoPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::Name => "Unknown command or category name in ACL",
            RuleError::Selector => "selectors, in brackets, are not supported",
            RuleError::ReadOrWrite => {
                "rights to read and to write go together: %R~ and %W~ are not supported"
            }
            RuleError::Length => "a rule has at most 1024 bytes",
        })
    }
}

/// The rule that says the same as one with a password, with the password's hash in its place; `None` if there is no
/// password in it.
pub fn password_rule(rule: &[u8], hash: impl Fn(&[u8]) -> PasswordHash) -> Option<Bytes> {
    let (sign, password) = rule.split_first()?;
    let sign = match sign {
        b'>' => '#',
        b'<' => '!',
        _ => return None,
    };
    Some(Bytes::from(format!("{sign}{}", hex(&hash(password)))))
}

pub(super) fn hex(hash: &PasswordHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of a password in hexadecimal digits.
fn parse_hash(digits: &[u8]) -> Result<PasswordHash, RuleError> {
    let mut hash = PasswordHash::default();
    let is_digit = |digit: &u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit);
    if digits.len() != 2 * hash.len() || !digits.iter().all(is_digit) {
        return Err(RuleError::Hash);
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        digit => digit - b'a' + 10,
    };
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    Ok(hash)
}

/// The commands that are named behind a sign.
fn parse_commands(name: &[u8]) -> Result<Commands, RuleError> {
    let is_letter = |byte: &u8| byte.is_ascii_graphic();
    if name.is_empty() || !name.iter().all(is_letter) {
        return Err(RuleError::Name);
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Ok(match (name.strip_prefix('@'), name.split_once('|')) {
        (Some(category), _) => Commands::Category(category.to_owned()),
        (None, Some((command, subcommand))) => {
            Commands::Subcommand(command.to_owned(), subcommand.to_owned())
        }
        (None, None) => Commands::Command(name),
    })
}

impl User {
    /// Applies a rule, behind those before it. Whether there is a command of a name is for the caller to know.
    ///
    /// # Errors
    /// When it is no rule; the user is as before then.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if rule.len() > RULE_BYTES_MAX {
            return Err(RuleError::Length);
        }
        match &rule.to_ascii_lowercase()[..] {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"allkeys" => self.keys = Patterns::all(),
            b"resetkeys" => self.keys = Patterns::default(),
            b"allchannels" => self.channels = Patterns::all(),
            b"resetchannels" => self.channels = Patterns::default(),
            b"allcommands" | b"+@all" => self.commands = CommandRules::all(),
            b"nocommands" | b"-@all" => self.commands = CommandRules::default(),
            b"reset" => {
                let since = self.since;
                *self = User::nothing(self.name.clone());
                self.since = since;
            }
            // As Redis writes it into files.
            b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
            _ => self.apply_signed(rule)?,
        }
        Ok(())
    }

    /// Applies a rule that names something behind its sign.
    fn apply_signed(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (sign, name) = rule.split_first().ok_or(RuleError::Sign)?;
        match sign {
            b'#' => {
                self.passwords.insert(parse_hash(name)?);
                self.needs_no_password = false;
            }
            b'!' => {
                if !self.passwords.remove(&parse_hash(name)?) {
                    return Err(RuleError::NoPassword);
                }
            }
            b'>' | b'<' => return Err(RuleError::Plain),
            b'~' => self.keys.add(Bytes::copy_from_slice(name)),
            b'&' => self.channels.add(Bytes::copy_from_slice(name)),
            b'+' => self.commands.add(true, parse_commands(name)?),
            b'-' => self.commands.add(false, parse_commands(name)?),
            b'(' => return Err(RuleError::Selector),
            b'%' => return Err(RuleError::ReadOrWrite),
            _ => return Err(RuleError::Sign),
        }
        Ok(())
    }
}
