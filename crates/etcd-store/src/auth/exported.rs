//! Users and roles outside of the store: as an export tells them, and as an import brings them.

use super::users::{AuthState, Role, User};
use quorate_etcd_api::authpb::Permission;
use std::collections::BTreeMap;
use std::fmt;

/// Users and roles, and whether they count.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExportedAuth {
    /// Whether authentication is on.
    pub enabled: bool,
    /// The number of changes to users and roles so far, from 1.
    pub revision: u64,
    /// All users, ascending by name.
    pub users: Vec<ExportedUser>,
    /// All roles, ascending by name.
    pub roles: Vec<ExportedRole>,
}

/// A user outside of the store.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ExportedUser {
    /// The name of the user.
    pub name: String,
    /// The bcrypt hash of the password; empty where no password fits.
    pub password: String,
    /// Whether only a certificate can name the user.
    pub no_password: bool,
    /// The names of the user's roles.
    pub roles: Vec<String>,
}

impl fmt::Debug for ExportedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hash is a secret, too.
        f.debug_struct("ExportedUser")
            .field("name", &self.name)
            .field("no_password", &self.no_password)
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

/// A role outside of the store.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExportedRole {
    /// The name of the role.
    pub name: String,
    /// What the role may do.
    pub permissions: Vec<Permission>,
}

impl AuthState {
    /// All of the state.
    pub(crate) fn exported(&self) -> ExportedAuth {
        let user = |(name, user): (&str, &User)| ExportedUser {
            name: name.to_owned(),
            password: user.password.to_string(),
            no_password: user.no_password,
            roles: user.roles.iter().map(|role| role.to_string()).collect(),
        };
        let role = |(name, role): (&str, &Role)| ExportedRole {
            name: name.to_owned(),
            permissions: role.listed().collect(),
        };
        ExportedAuth {
            enabled: self.is_enabled(),
            revision: self.revision(),
            users: self.users_after(None).map(user).collect(),
            roles: self.roles_after(None).map(role).collect(),
        }
    }

    /// The state that another store exported, or an etcd had.
    ///
    /// # Errors
    /// In words, what does not fit together.
    pub(crate) fn imported(from: ExportedAuth) -> Result<AuthState, String> {
        // etcd has 0 where there never was a user.
        let mut state = AuthState::restored(from.enabled, from.revision.max(1));
        let users: BTreeMap<String, ExportedUser> = (from.users.into_iter())
            .map(|user| (user.name.clone(), user))
            .collect();
        let roles: BTreeMap<String, ExportedRole> = (from.roles.into_iter())
            .map(|role| (role.name.clone(), role))
            .collect();
        let mut is_sound = true;
        for (name, user) in users {
            let roles = user.roles.into_iter().map(Into::into).collect();
            let user = User::restored(user.password.into(), user.no_password, roles);
            is_sound &= state.restore_user(&name, user);
        }
        for (name, role) in roles {
            let permissions = role.permissions.into_iter();
            let permissions = permissions.map(|one| ((one.key, one.range_end), one.perm_type));
            let permissions = permissions.collect();
            is_sound &= state.restore_role(&name, Role { permissions });
        }
        match is_sound && state.restore_rights() {
            true => Ok(state),
            false => Err("its users and roles do not fit together".to_owned()),
        }
    }
}
