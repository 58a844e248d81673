//! Users, roles and permissions once more, as plainly as possible.

use crate::judge::covers;
use bytes::Bytes;
use quorate_etcd_api::authpb::{Permission, PermissionType};
use quorate_etcd_api::errors::{self, Error};
use quorate_etcd_store::{Access, Asker, AuthChange};
use std::collections::{BTreeMap, BTreeSet};

/// The user without which authentication cannot be turned on, and the role that may do everything.
pub(crate) const ROOT: &str = "root";

/// Who there is, and who may do what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Users {
    /// Whether authentication is on.
    pub(crate) enabled: bool,
    /// The auth revision.
    pub(crate) revision: u64,
    /// The roles of each user.
    pub(crate) users: BTreeMap<String, BTreeSet<String>>,
    /// The permissions of each role.
    pub(crate) roles: BTreeMap<String, Vec<Permission>>,
}

impl Default for Users {
    fn default() -> Self {
        Users {
            enabled: false,
            revision: 1,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

impl Users {
    /// What a change makes of this.
    ///
    /// # Errors
    /// Why the change is not made.
    pub(crate) fn after(&self, change: &AuthChange) -> Result<Users, Error> {
        let mut next = self.clone();
        let counts = next.make(change)?;
        next.revision += u64::from(counts);
        Ok(next)
    }

    /// Makes a change; says whether the auth revision counts it.
    fn make(&mut self, change: &AuthChange) -> Result<bool, Error> {
        match change {
            AuthChange::Enable(_) => {
                let root = self.users.get(ROOT).ok_or(errors::ROOT_USER_NOT_EXIST);
                if !self.enabled && !root?.contains(ROOT) {
                    return Err(errors::ROOT_ROLE_NOT_EXIST);
                }
                self.enabled = true;
                Ok(false)
            }
            AuthChange::Disable(_) => Ok(std::mem::take(&mut self.enabled)),
            AuthChange::GrantToken(_) => Ok(false),
            AuthChange::RoleAdd(_)
            | AuthChange::RoleDelete(_)
            | AuthChange::RoleGrantPermission(_)
            | AuthChange::RoleRevokePermission(_) => self.change_role(change).map(|()| true),
            _ => self.change_user(change),
        }
    }

    fn change_user(&mut self, change: &AuthChange) -> Result<bool, Error> {
        match change {
            AuthChange::UserAdd(asked) => {
                if self.users.contains_key(&asked.name) {
                    return Err(errors::USER_EXISTS);
                }
                self.users.insert(asked.name.clone(), BTreeSet::new());
            }
            AuthChange::UserDelete(asked) => {
                if self.enabled && asked.name == ROOT {
                    return Err(errors::INVALID_AUTH_MGMT);
                }
                let gone = self.users.remove(&asked.name);
                gone.ok_or(errors::USER_NOT_FOUND)?;
            }
            AuthChange::UserChangePassword(asked) => {
                self.user(&asked.name)?;
            }
            AuthChange::UserGrantRole(asked) => {
                let is_known = asked.role == ROOT || self.roles.contains_key(&asked.role);
                let held = self.user(&asked.user)?;
                if !is_known {
                    return Err(errors::ROLE_NOT_FOUND);
                }
                return Ok(held.insert(asked.role.clone()));
            }
            AuthChange::UserRevokeRole(asked) => {
                if self.enabled && asked.name == ROOT && asked.role == ROOT {
                    return Err(errors::INVALID_AUTH_MGMT);
                }
                if !self.user(&asked.name)?.remove(&asked.role) {
                    return Err(errors::ROLE_NOT_GRANTED);
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn change_role(&mut self, change: &AuthChange) -> Result<(), Error> {
        match change {
            AuthChange::RoleAdd(asked) => {
                if self.roles.contains_key(&asked.name) {
                    return Err(errors::ROLE_EXISTS);
                }
                self.roles.insert(asked.name.clone(), Vec::new());
            }
            AuthChange::RoleDelete(asked) => {
                if self.enabled && asked.role == ROOT {
                    return Err(errors::INVALID_AUTH_MGMT);
                }
                let gone = self.roles.remove(&asked.role);
                gone.ok_or(errors::ROLE_NOT_FOUND)?;
                for held in self.users.values_mut() {
                    held.remove(&asked.role);
                }
            }
            AuthChange::RoleGrantPermission(asked) => {
                let given = asked.perm.clone().ok_or(errors::PERMISSION_NOT_GIVEN)?;
                let role = self.role(&asked.name)?;
                role.retain(|held| (&held.key, &held.range_end) != (&given.key, &given.range_end));
                role.push(given);
            }
            AuthChange::RoleRevokePermission(asked) => {
                let role = self.role(&asked.role)?;
                let count = role.len();
                role.retain(|held| (&held.key, &held.range_end) != (&asked.key, &asked.range_end));
                if role.len() == count {
                    return Err(errors::PERMISSION_NOT_GRANTED);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn user(&mut self, name: &str) -> Result<&mut BTreeSet<String>, Error> {
        self.users.get_mut(name).ok_or(errors::USER_NOT_FOUND)
    }

    fn role(&mut self, name: &str) -> Result<&mut Vec<Permission>, Error> {
        self.roles.get_mut(name).ok_or(errors::ROLE_NOT_FOUND)
    }

    /// The name of the user that asks, and the auth revision under which that was found out.
    fn identity<'a>(&self, asker: &'a Asker) -> Result<(&'a str, u64), Error> {
        match asker {
            Asker::User(identity) => Ok((&identity.name, identity.revision)),
            Asker::Anybody | Asker::Nobody | Asker::Server => Err(errors::USER_EMPTY),
        }
    }

    /// Refuses who is no user.
    pub(super) fn demand_user(&self, asker: &Asker) -> Result<(), Error> {
        let (name, _) = self.identity(asker)?;
        match self.users.contains_key(name) {
            true => Ok(()),
            false => Err(errors::PERMISSION_DENIED),
        }
    }

    /// Refuses who may not do everything.
    pub(super) fn demand_root(&self, asker: &Asker) -> Result<(), Error> {
        let (name, _) = self.identity(asker)?;
        let held = self.users.get(name).ok_or(errors::USER_NOT_FOUND)?;
        match held.contains(ROOT) {
            true => Ok(()),
            false => Err(errors::PERMISSION_DENIED),
        }
    }

    /// Refuses who may not use each key of a range in this way.
    pub(super) fn demand(
        &self,
        asker: &Asker,
        access: Access,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Error> {
        let (name, revision) = self.identity(asker)?;
        if revision < self.revision {
            return Err(errors::AUTH_OLD_REVISION);
        }
        let held = self.users.get(name).ok_or(errors::PERMISSION_DENIED)?;
        let permissions = held.iter().filter_map(|role| self.roles.get(role));
        let permissions: Vec<&Permission> = permissions
            .flatten()
            .filter(|permission| is_for(permission, access))
            .collect();
        match held.contains(ROOT) || cover(&permissions, key, range_end) {
            true => Ok(()),
            false => Err(errors::PERMISSION_DENIED),
        }
    }
}

fn is_for(permission: &Permission, access: Access) -> bool {
    let one = match access {
        Access::Read => PermissionType::Read,
        Access::Write => PermissionType::Write,
    };
    [one as i32, PermissionType::Readwrite as i32].contains(&permission.perm_type)
}

/// Where a permission ends. The variants stand in order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// This key is the first beyond it.
    Before(Bytes),
    /// No key is beyond it.
    Open,
}

impl End {
    fn of(permission: &Permission) -> End {
        match &permission.range_end[..] {
            b"" => End::Before([&permission.key[..], b"\0"].concat().into()),
            b"\0" => End::Open,
            _ => End::Before(permission.range_end.clone()),
        }
    }
}

/// Whether permissions together hold a range: goes from one that holds its beginning to one that holds the end of that,
/// until its own end is reached.
fn cover(permissions: &[&Permission], key: &[u8], range_end: &[u8]) -> bool {
    let mut reached = Bytes::copy_from_slice(key);
    loop {
        let here = permissions.iter();
        let here = here.filter(|one| covers(&one.key, &one.range_end, &reached));
        match here.map(|one| End::of(one)).max() {
            None => return false,
            Some(End::Open) => return true,
            Some(End::Before(end)) => match range_end {
                b"" => return true,
                b"\0" => reached = end,
                _ if &end[..] >= range_end => return true,
                _ => reached = end,
            },
        }
    }
}
