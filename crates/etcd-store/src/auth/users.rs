//! The state: users, roles, and whether any of it counts.

use super::rights::{Access, Rights, is_range};
use super::{Asker, Identity};
use crate::refused::Refused;
use bytes::Bytes;
pub(crate) use quorate_etcd_api::authpb::Permission;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// The user without which authentication cannot be turned on, and the role that has every right.
const ROOT: &str = "root";

/// Users and roles, and whether authentication is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthState {
    enabled: bool,
    revision: u64,
    users: BTreeMap<Box<str>, User>,
    roles: BTreeMap<Box<str>, Role>,
}

impl Default for AuthState {
    fn default() -> Self {
        AuthState {
            enabled: false,
            revision: FIRST_REVISION,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

/// The auth revision of a store that never had a user.
const FIRST_REVISION: u64 = 1;

/// A user, as the store knows it.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct User {
    /// The bcrypt hash of its password; empty where no password fits.
    pub(crate) password: Box<str>,
    /// The user has no password: a certificate names it.
    pub(crate) no_password: bool,
    /// The names of its roles.
    pub(crate) roles: BTreeSet<Box<str>>,
    /// What follows from the roles.
    rights: Rights,
}

impl User {
    /// A user that was in a snapshot. What follows from its roles is not known yet.
    pub(crate) fn restored(
        password: Box<str>,
        no_password: bool,
        roles: BTreeSet<Box<str>>,
    ) -> User {
        User {
            password,
            no_password,
            roles,
            rights: Rights::default(),
        }
    }

    fn is_root(&self) -> bool {
        self.roles.contains(ROOT)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("roles", &self.roles)
            .field("no_password", &self.no_password)
            .finish_non_exhaustive()
    }
}

/// A role and its permissions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Role {
    /// The permissions of the role, by key and end of their ranges.
    pub(crate) permissions: BTreeMap<(Bytes, Bytes), i32>,
}

impl Role {
    pub(super) fn listed(&self) -> impl Iterator<Item = Permission> {
        let each = self.permissions.iter();
        each.map(|((key, range_end), perm_type)| Permission {
            perm_type: *perm_type,
            key: key.clone(),
            range_end: range_end.clone(),
        })
    }
}

/// Looking at the state.
impl AuthState {
    /// Whether authentication is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The number of changes to users and roles so far, from 1.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The identity of a user whose credentials are checked now.
    #[must_use]
    pub fn identity(&self, name: &str) -> Identity {
        Identity {
            name: name.into(),
            revision: self.revision,
        }
    }

    /// Refuses who has no right to use all keys of a range in this way.
    pub fn check(
        &self,
        asker: &Asker,
        access: Access,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Refused> {
        let Some(identity) = self.identified(asker)? else {
            return Ok(());
        };
        if identity.revision == 0 {
            return Err(Refused::UserEmpty);
        }
        if identity.revision < self.revision {
            return Err(Refused::AuthOldRevision);
        }
        match self.users.get(&*identity.name) {
            Some(user) if user.is_root() || user.rights.allow(access, key, range_end) => Ok(()),
            _ => Err(Refused::PermissionDenied),
        }
    }

    /// Refuses who is no user.
    pub fn check_user(&self, asker: &Asker) -> Result<(), Refused> {
        match self.identified(asker)? {
            Some(identity) if !self.users.contains_key(&*identity.name) => {
                Err(Refused::PermissionDenied)
            }
            _ => Ok(()),
        }
    }

    /// Refuses who does not have the role root.
    pub fn check_root(&self, asker: &Asker) -> Result<(), Refused> {
        let Some(identity) = self.identified(asker)? else {
            return Ok(());
        };
        match self.users.get(&*identity.name) {
            Some(user) if user.is_root() => Ok(()),
            Some(_) => Err(Refused::PermissionDenied),
            None => Err(Refused::UserNotFound),
        }
    }

    /// Whether users or roles have changed since somebody was identified.
    pub(crate) fn is_outdated(&self, asker: &Asker) -> bool {
        match asker {
            Asker::User(identity) => identity.revision < self.revision,
            Asker::Anybody | Asker::Nobody | Asker::Server => false,
        }
    }

    /// Who asks, where rights count: `None` for those who need none.
    fn identified<'a>(&self, asker: &'a Asker) -> Result<Option<&'a Identity>, Refused> {
        match asker {
            _ if !self.enabled => Ok(None),
            Asker::Server => Ok(None),
            Asker::User(identity) if !identity.name.is_empty() => Ok(Some(identity)),
            Asker::User(_) | Asker::Anybody | Asker::Nobody => Err(Refused::UserEmpty),
        }
    }

    /// Whether a user has a role.
    pub(crate) fn has_role(&self, asker: &Asker, role: &str) -> bool {
        let user = asker.name().and_then(|name| self.users.get(name));
        user.is_some_and(|user| user.roles.contains(role))
    }

    /// The user of a name.
    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// All users after a name, ascending.
    pub(crate) fn users_after(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &User)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.users.range::<str, _>((from, Bound::Unbounded));
        rest.map(|(name, user)| (&**name, user))
    }

    /// All roles after a name, ascending.
    pub(crate) fn roles_after(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &Role)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.roles.range::<str, _>((from, Bound::Unbounded));
        rest.map(|(name, role)| (&**name, role))
    }

    /// The permissions of a role. The role root has one for everything, whatever it was given.
    pub(crate) fn permissions(&self, role: &str) -> Result<Vec<Permission>, Refused> {
        let found = self.roles.get(role).ok_or(Refused::RoleNotFound)?;
        if role == ROOT {
            return Ok(vec![Permission {
                perm_type: quorate_etcd_api::authpb::PermissionType::Readwrite as i32,
                key: Bytes::new(),
                range_end: Bytes::from_static(b"\0"),
            }]);
        }
        Ok(found.listed().collect())
    }
}

/// Changing the state, by etcd's rules.
impl AuthState {
    /// Turns authentication on.
    pub(crate) fn enable(&mut self) -> Result<(), Refused> {
        let root = self.users.get(ROOT);
        if !self.enabled {
            let root = root.ok_or(Refused::RootUserNotExist)?;
            if !root.is_root() {
                return Err(Refused::RootRoleNotExist);
            }
        }
        self.enabled = true;
        Ok(())
    }

    /// Turns authentication off.
    pub(crate) fn disable(&mut self) {
        self.revision += u64::from(self.enabled);
        self.enabled = false;
    }

    /// Adds a user.
    pub(crate) fn add_user(
        &mut self,
        name: &str,
        password: &str,
        no_password: bool,
    ) -> Result<(), Refused> {
        if name.is_empty() {
            return Err(Refused::UserEmpty);
        }
        if self.users.contains_key(name) {
            return Err(Refused::UserExists);
        }
        let user = User {
            password: if no_password { "" } else { password }.into(),
            no_password,
            ..User::default()
        };
        self.users.insert(name.into(), user);
        self.revision += 1;
        Ok(())
    }

    /// Deletes a user.
    pub(crate) fn delete_user(&mut self, name: &str) -> Result<(), Refused> {
        if self.enabled && name == ROOT {
            return Err(Refused::InvalidAuthMgmt);
        }
        self.users.remove(name).ok_or(Refused::UserNotFound)?;
        self.revision += 1;
        Ok(())
    }

    /// Gives a user another password.
    pub(crate) fn change_password(&mut self, name: &str, password: &str) -> Result<(), Refused> {
        let user = self.users.get_mut(name).ok_or(Refused::UserNotFound)?;
        if !user.no_password {
            user.password = password.into();
        }
        self.revision += 1;
        Ok(())
    }

    /// Gives a user a role. One that it has already changes nothing.
    pub(crate) fn grant_role(&mut self, name: &str, role: &str) -> Result<(), Refused> {
        let user = self.users.get_mut(name).ok_or(Refused::UserNotFound)?;
        if role != ROOT && !self.roles.contains_key(role) {
            return Err(Refused::RoleNotFound);
        }
        if user.roles.insert(role.into()) {
            self.revision += 1;
            self.renew_rights(|user| user.roles.contains(role));
        }
        Ok(())
    }

    /// Takes a role from a user.
    pub(crate) fn revoke_role(&mut self, name: &str, role: &str) -> Result<(), Refused> {
        if self.enabled && name == ROOT && role == ROOT {
            return Err(Refused::InvalidAuthMgmt);
        }
        let user = self.users.get_mut(name).ok_or(Refused::UserNotFound)?;
        if !user.roles.remove(role) {
            return Err(Refused::RoleNotGranted);
        }
        user.rights = rights(&self.roles, user);
        self.revision += 1;
        Ok(())
    }

    /// Adds a role.
    pub(crate) fn add_role(&mut self, role: &str) -> Result<(), Refused> {
        if role.is_empty() {
            return Err(Refused::RoleEmpty);
        }
        if self.roles.contains_key(role) {
            return Err(Refused::RoleExists);
        }
        self.roles.insert(role.into(), Role::default());
        self.revision += 1;
        Ok(())
    }

    /// Deletes a role, also from all users.
    pub(crate) fn delete_role(&mut self, role: &str) -> Result<(), Refused> {
        if self.enabled && role == ROOT {
            return Err(Refused::InvalidAuthMgmt);
        }
        self.roles.remove(role).ok_or(Refused::RoleNotFound)?;
        for user in self.users.values_mut() {
            if user.roles.remove(role) {
                user.rights = rights(&self.roles, user);
            }
        }
        self.revision += 1;
        Ok(())
    }

    /// Gives a role a permission, in the place of one for the same range.
    pub(crate) fn grant_permission(
        &mut self,
        role: &str,
        permission: Option<&Permission>,
    ) -> Result<(), Refused> {
        let permission = permission.ok_or(Refused::PermissionNotGiven)?;
        if !is_range(&permission.key, &permission.range_end) {
            return Err(Refused::InvalidAuthMgmt);
        }
        let found = self.roles.get_mut(role).ok_or(Refused::RoleNotFound)?;
        // The bytes of a request are a slice of something larger.
        let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let range = (copy(&permission.key), copy(&permission.range_end));
        found.permissions.insert(range, permission.perm_type);
        self.revision += 1;
        self.renew_rights(|user| user.roles.contains(role));
        Ok(())
    }

    /// Takes the permission for a range from a role.
    pub(crate) fn revoke_permission(
        &mut self,
        role: &str,
        key: &Bytes,
        range_end: &Bytes,
    ) -> Result<(), Refused> {
        let found = self.roles.get_mut(role).ok_or(Refused::RoleNotFound)?;
        let range = (key.clone(), range_end.clone());
        let removed = found.permissions.remove(&range);
        removed.ok_or(Refused::PermissionNotGranted)?;
        self.revision += 1;
        self.renew_rights(|user| user.roles.contains(role));
        Ok(())
    }

    /// Lets users have the rights that they had before, on purpose.
    pub(crate) fn keep_rights(&mut self, before: &AuthState) {
        for (name, user) in &mut self.users {
            if let Some(before) = before.users.get(name) {
                user.rights = before.rights.clone();
            }
        }
    }

    fn renew_rights(&mut self, concerns: impl Fn(&User) -> bool) {
        for user in self.users.values_mut().filter(|user| concerns(user)) {
            user.rights = rights(&self.roles, user);
        }
    }
}

/// Coming from a snapshot.
impl AuthState {
    /// Begins with what a snapshot says first.
    pub(crate) fn restored(enabled: bool, revision: u64) -> AuthState {
        AuthState {
            enabled,
            revision,
            ..AuthState::default()
        }
    }

    /// Adds a user of a snapshot; false where it is not the next in order.
    pub(crate) fn restore_user(&mut self, name: &str, user: User) -> bool {
        let is_next = self
            .users
            .last_key_value()
            .is_none_or(|(last, _)| &**last < name);
        is_next && !name.is_empty() && self.users.insert(name.into(), user).is_none()
    }

    /// Adds a role of a snapshot; false where it is not the next in order.
    pub(crate) fn restore_role(&mut self, name: &str, role: Role) -> bool {
        let is_next = self
            .roles
            .last_key_value()
            .is_none_or(|(last, _)| &**last < name);
        is_next && !name.is_empty() && self.roles.insert(name.into(), role).is_none()
    }

    /// Everything of a snapshot is there; false where it contradicts itself.
    pub(crate) fn restore_rights(&mut self) -> bool {
        self.renew_rights(|_| true);
        let named = self.users.values().flat_map(|user| &user.roles);
        let is_known = |role: &str| role == ROOT || self.roles.contains_key(role);
        let has_root = self.users.get(ROOT).is_some_and(User::is_root);
        named.into_iter().all(|role| is_known(role)) && (has_root || !self.enabled)
    }

    /// Whether there is nothing to keep.
    pub(crate) fn is_untouched(&self) -> bool {
        *self == AuthState::default()
    }
}

fn rights(roles: &BTreeMap<Box<str>, Role>, user: &User) -> Rights {
    let held = user.roles.iter().filter_map(|role| roles.get(role));
    let permissions: Vec<Permission> = held.flat_map(Role::listed).collect();
    Rights::of(&permissions)
}
