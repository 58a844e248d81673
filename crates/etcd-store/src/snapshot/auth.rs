//! Users and roles in a snapshot.

use super::{AUTH, PERMISSION, ROLE, USER};
use crate::auth::{AuthState, Permission, Role, User};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};
use std::collections::BTreeSet;

/// One record about users and roles.
enum Record<'a> {
    Head(&'a AuthState),
    User(&'a str, &'a User),
    Role(&'a str),
    /// Of the role before it.
    Permission(&'a (Bytes, Bytes), i32),
}

/// The records of a state, in the order in which they are read. There are none of a state that never changed.
fn records(state: &AuthState) -> impl Iterator<Item = Record<'_>> {
    let head = (!state.is_untouched()).then_some(Record::Head(state));
    let users = state.users_after(None);
    let users = users.map(|(name, user)| Record::User(name, user));
    let roles = state.roles_after(None).flat_map(|(name, role)| {
        let permissions = role.permissions.iter();
        let permissions = permissions.map(|(range, kind)| Record::Permission(range, *kind));
        std::iter::once(Record::Role(name)).chain(permissions)
    });
    head.into_iter().chain(users).chain(roles)
}

/// Writes records after the first `done` ones until so many bytes are there. Says how many are done now, or that all
/// are.
pub(super) fn write(
    state: &AuthState,
    done: usize,
    bytes: usize,
    out: &mut Encoder,
) -> Option<usize> {
    for (count, record) in records(state).enumerate().skip(done) {
        write_record(&record, out);
        if out.len() >= bytes {
            return Some(count + 1);
        }
    }
    None
}

fn write_record(record: &Record<'_>, out: &mut Encoder) {
    match record {
        Record::Head(state) => {
            out.u8(AUTH);
            out.u8(u8::from(state.is_enabled()));
            out.varint(state.revision());
        }
        Record::User(name, user) => {
            out.u8(USER);
            out.string(name);
            out.string(&user.password);
            out.u8(u8::from(user.no_password));
            out.varint(user.roles.len() as u64);
            user.roles.iter().for_each(|role| out.string(role));
        }
        Record::Role(name) => {
            out.u8(ROLE);
            out.string(name);
        }
        Record::Permission((key, range_end), kind) => {
            out.u8(PERMISSION);
            out.varint(u64::from(kind.cast_unsigned()));
            out.varint(key.len() as u64);
            out.slice(key);
            out.varint(range_end.len() as u64);
            out.slice(range_end);
        }
    }
}

/// Users and roles that are being read.
#[derive(Debug, Default)]
pub(super) struct RestoredAuth {
    state: Option<AuthState>,
    /// The role whose permissions are being read.
    role: Option<(String, Role)>,
}

impl RestoredAuth {
    /// Reads a record of this kind; the error says what is wrong with it.
    pub(super) fn read(&mut self, kind: u8, input: &mut Decoder) -> Result<(), String> {
        let read = match kind {
            AUTH => self.read_head(input),
            USER => self.read_user(input),
            ROLE => self.read_role(input),
            _ => self.read_permission(input),
        };
        match read {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("a record of kind {kind} stands in a wrong place")),
            Err(why) => Err(why.to_string()),
        }
    }

    /// What was read, as a whole.
    pub(super) fn finish(mut self) -> Result<AuthState, String> {
        let is_sound = self.end_role();
        let mut state = self.state.unwrap_or_default();
        match is_sound && state.restore_rights() {
            true => Ok(state),
            false => Err("users and roles do not fit together".to_owned()),
        }
    }

    fn read_head(&mut self, input: &mut Decoder) -> Result<bool, WireError> {
        let is_first = self.state.is_none();
        let enabled = flag(input)?;
        self.state = Some(AuthState::restored(enabled, input.varint()?));
        Ok(is_first)
    }

    fn read_user(&mut self, input: &mut Decoder) -> Result<bool, WireError> {
        let (name, password) = (input.string()?, input.string()?);
        let no_password = flag(input)?;
        let mut roles = BTreeSet::new();
        let count = input.count(1)?;
        for _ in 0..count {
            roles.insert(input.string()?.into());
        }
        let is_whole = roles.len() == count && self.role.is_none();
        let user = User::restored(password.into(), no_password, roles);
        let state = self.state.as_mut();
        Ok(is_whole && state.is_some_and(|state| state.restore_user(&name, user)))
    }

    fn read_role(&mut self, input: &mut Decoder) -> Result<bool, WireError> {
        let is_sound = self.end_role() && self.state.is_some();
        self.role = Some((input.string()?, Role::default()));
        Ok(is_sound)
    }

    fn read_permission(&mut self, input: &mut Decoder) -> Result<bool, WireError> {
        let kind = u32::try_from(input.varint()?);
        let kind = kind.map_err(|_| WireError::Range("kind of a permission"))?;
        // A slice of a piece would keep the whole piece.
        let mut copy = || input.bytes().map(|bytes| Bytes::copy_from_slice(&bytes));
        let permission = Permission {
            perm_type: kind.cast_signed(),
            key: copy()?,
            range_end: copy()?,
        };
        let Some((_, role)) = &mut self.role else {
            return Ok(false);
        };
        let range = (permission.key, permission.range_end);
        let last = role.permissions.last_key_value();
        let is_next = last.is_none_or(|(last, _)| *last < range);
        role.permissions.insert(range, permission.perm_type);
        Ok(is_next)
    }

    fn end_role(&mut self) -> bool {
        let Some((name, role)) = self.role.take() else {
            return true;
        };
        let state = self.state.as_mut();
        state.is_some_and(|state| state.restore_role(&name, role))
    }
}

fn flag(input: &mut Decoder) -> Result<bool, WireError> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(WireError::Tag("yes or no", other)),
    }
}
