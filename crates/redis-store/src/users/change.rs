//! Commands of the log that change users.

use super::{Asker, DEFAULT_USER, User, UserTable};
use crate::fault::Fault;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first byte of a body that changes users. Bodies with calls begin with another one.
pub(crate) const USERS_TAG: u8 = 2;

const BEGIN: u8 = 1;
const SET: u8 = 2;
const DELETE: u8 = 3;
const REPLACE: u8 = 4;

/// The categories of `ACL` where it changes users.
const ACL_CATEGORIES: [&str; 3] = ["admin", "dangerous", "slow"];

/// A user by its name and rules. Passwords in them are hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRules {
    /// The name of the user.
    pub name: Bytes,
    /// The rules, to be applied in this order.
    pub rules: Vec<Bytes>,
}

impl From<&User> for UserRules {
    fn from(user: &User) -> UserRules {
        UserRules {
            name: user.name.clone(),
            rules: user.rules(),
        }
    }
}

/// What becomes of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// These are the users, unless the group has users already.
    Begin(Vec<UserRules>),
    /// The rules are applied to a user behind those before. One who was not there could do nothing before.
    Set(UserRules),
    /// The users with these names are no more.
    Delete(Vec<Bytes>),
    /// These are the users from now on.
    Replace(Vec<UserRules>),
}

/// A command of the log that changes users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsersChange {
    /// In whose name it is asked; `None` for the default user.
    pub asker: Option<Asker>,
    /// What becomes of users.
    pub change: Change,
}

impl Wire for Asker {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(&self.name);
        out.u64(self.since);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Asker {
            name: input.bytes()?,
            since: input.u64()?,
        })
    }
}

impl Wire for UserRules {
    fn encode(&self, out: &mut Encoder) {
        out.bytes(&self.name);
        write_all(&self.rules, out, |rule, out| out.bytes(rule));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(UserRules {
            name: input.bytes()?,
            rules: read_all(input, Decoder::bytes)?,
        })
    }
}

impl Wire for UsersChange {
    fn encode(&self, out: &mut Encoder) {
        out.u8(USERS_TAG);
        out.u8(u8::from(self.asker.is_some()));
        self.asker.iter().for_each(|asker| asker.encode(out));
        let all = |users: &[UserRules], out: &mut Encoder| {
            write_all(users, out, |user, out| user.encode(out));
        };
        match &self.change {
            Change::Begin(users) => {
                out.u8(BEGIN);
                all(users, out);
            }
            Change::Set(user) => {
                out.u8(SET);
                user.encode(out);
            }
            Change::Delete(names) => {
                out.u8(DELETE);
                write_all(names, out, |name, out| out.bytes(name));
            }
            Change::Replace(users) => {
                out.u8(REPLACE);
                all(users, out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            USERS_TAG => {}
            tag => return Err(WireError::Tag("format of a change of users", tag)),
        }
        let asker = match input.u8()? {
            0 => None,
            1 => Some(Asker::decode(input)?),
            tag => return Err(WireError::Tag("asker of a change of users", tag)),
        };
        let change = match input.u8()? {
            BEGIN => Change::Begin(read_all(input, UserRules::decode)?),
            SET => Change::Set(UserRules::decode(input)?),
            DELETE => Change::Delete(read_all(input, Decoder::bytes)?),
            REPLACE => Change::Replace(read_all(input, UserRules::decode)?),
            tag => return Err(WireError::Tag("change of users", tag)),
        };
        Ok(UsersChange { asker, change })
    }
}

fn write_all<T>(all: &[T], out: &mut Encoder, write: impl Fn(&T, &mut Encoder)) {
    out.varint(all.len() as u64);
    all.iter().for_each(|one| write(one, out));
}

fn read_all<T>(
    input: &mut Decoder,
    read: impl Fn(&mut Decoder) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    (0..input.count(1)?).map(|_| read(input)).collect()
}

/// What a change came to: the users there are then, and how many were deleted.
type Changed = (UserTable, Option<usize>);

impl UsersChange {
    /// The subcommand of `ACL` that asks for this; `None` where a replica does.
    fn subcommand(&self) -> Option<&'static str> {
        match self.change {
            Change::Begin(_) => None,
            Change::Set(_) => Some("setuser"),
            Change::Delete(_) => Some("deluser"),
            Change::Replace(_) => Some("load"),
        }
    }

    /// The users behind this change, which has a version that no other command has.
    pub(crate) fn apply(
        &self,
        before: Option<&Arc<UserTable>>,
        version: u64,
    ) -> Result<Changed, Fault> {
        let has_users = before.is_some();
        let before = before.map_or_else(UserTable::default, |users| (**users).clone());
        if let Some(subcommand) = self.subcommand() {
            let asking = before.asking(self.asker.as_ref())?;
            let categories = || BTreeSet::from(ACL_CATEGORIES);
            if !asking.may_run("acl", Some(subcommand.as_bytes()), categories) {
                let text = format!(
                    "NOPERM this user has no permissions to run the 'acl|{subcommand}' command"
                );
                return Err(Fault(text.into()));
            }
        }
        let mut after = before.clone();
        let mut deleted = None;
        match &self.change {
            Change::Begin(_) if has_users => {}
            Change::Begin(users) | Change::Replace(users) => {
                after = UserTable::default();
                for rules in users {
                    let user = made(User::nothing(rules.name.clone()), rules)?;
                    after.put(user);
                }
            }
            Change::Set(rules) => {
                let user = before.get(&rules.name).map(|user| (**user).clone());
                let user = user.unwrap_or_else(|| User::nothing(rules.name.clone()));
                after.put(made(user, rules)?);
            }
            Change::Delete(names) => {
                if names.iter().any(|name| *name == DEFAULT_USER) {
                    return Err(Fault::of("ERR The 'default' user cannot be removed"));
                }
                let gone = names.iter().filter(|name| after.remove(name));
                deleted = Some(gone.count());
            }
        }
        if after.are_too_many() {
            return Err(Fault::of(
                "ERR there are too many users, or their rules are too long",
            ));
        }
        Ok((with_logins(&before, after, version), deleted))
    }
}

/// A user behind some more rules.
fn made(mut user: User, rules: &UserRules) -> Result<User, Fault> {
    let is_wrong = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    if rules.name.iter().any(is_wrong) {
        return Err(Fault::of(
            "ERR Usernames can't contain spaces or null characters",
        ));
    }
    for rule in &rules.rules {
        user.apply(rule).map_err(|why| {
            let rule = String::from_utf8_lossy(rule).into_owned();
            Fault(format!("ERR Error in ACL SETUSER modifier '{rule}': {why}").into())
        })?;
    }
    Ok(user)
}

/// The users after a change, who have to log in again where a way to do so was taken away.
fn with_logins(before: &UserTable, after: UserTable, version: u64) -> UserTable {
    let mut all = UserTable::default();
    for user in after.iter() {
        let since = match before.get(&user.name) {
            Some(before) if user.keeps_logins_of(before) => before.since,
            _ => version,
        };
        all.put(User {
            since,
            ..(**user).clone()
        });
    }
    all
}
