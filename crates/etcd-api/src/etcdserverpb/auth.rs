//! The Auth service.
//!
//! Messages that carry a password, a hash of one or a token do not show it when they are formatted.

use super::ResponseHeader;
use crate::authpb::{Permission, UserAddOptions};
use bytes::Bytes;
use std::fmt;

/// Turns authentication on.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthEnableRequest {}

/// Turns authentication off.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthDisableRequest {}

/// Asks whether authentication is on.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthStatusRequest {}

/// Asks for a token.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthenticateRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The password of the user.
    #[prost(string, tag = "2")]
    pub password: String,
}

impl fmt::Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Adds a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthUserAddRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The password in clear.
    #[prost(string, tag = "2")]
    pub password: String,
    /// How the user is added.
    #[prost(message, optional, tag = "3")]
    pub options: Option<UserAddOptions>,
    /// A bcrypt hash of the password.
    #[prost(string, tag = "4")]
    pub hashed_password: String,
}

impl fmt::Debug for AuthUserAddRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthUserAddRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Asks for the roles of a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserGetRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Deletes a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserDeleteRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Gives a user another password.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthUserChangePasswordRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The password in clear.
    #[prost(string, tag = "2")]
    pub password: String,
    /// A bcrypt hash of the password.
    #[prost(string, tag = "3")]
    pub hashed_password: String,
}

impl fmt::Debug for AuthUserChangePasswordRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthUserChangePasswordRequest")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Gives a user a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserGrantRoleRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The name of the role.
    #[prost(string, tag = "2")]
    pub role: String,
}

/// Takes a role from a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserRevokeRoleRequest {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The name of the role.
    #[prost(string, tag = "2")]
    pub role: String,
}

/// Adds a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleAddRequest {
    /// The name of the role.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for the permissions of a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleGetRequest {
    /// The name of the role.
    #[prost(string, tag = "1")]
    pub role: String,
}

/// Asks for the names of all users.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserListRequest {}

/// Asks for the names of all roles.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthRoleListRequest {}

/// Deletes a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleDeleteRequest {
    /// The name of the role.
    #[prost(string, tag = "1")]
    pub role: String,
}

/// Gives a role a permission.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleGrantPermissionRequest {
    /// The name of the role.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The permission to give.
    #[prost(message, optional, tag = "2")]
    pub perm: Option<Permission>,
}

/// Takes a permission from a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleRevokePermissionRequest {
    /// The name of the role.
    #[prost(string, tag = "1")]
    pub role: String,
    /// The key, or the first of the range.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// The end of the range.
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// Authentication is on.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthEnableResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Authentication is off.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthDisableResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Whether authentication is on.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthStatusResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Whether it is on.
    #[prost(bool, tag = "2")]
    pub enabled: bool,
    /// The number of changes to users and roles so far.
    #[prost(uint64, tag = "3")]
    pub auth_revision: u64,
}

/// A token for the metadata of later calls.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthenticateResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The token that was granted.
    #[prost(string, tag = "2")]
    pub token: String,
}

impl fmt::Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateResponse")
            .finish_non_exhaustive()
    }
}

/// A user was added.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserAddResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// The roles of a user.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserGetResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The names of the roles, ascending.
    #[prost(string, repeated, tag = "2")]
    pub roles: Vec<String>,
}

/// A user was deleted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserDeleteResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A user has another password.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserChangePasswordResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A user has a role.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserGrantRoleResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A user has a role no longer.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthUserRevokeRoleResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A role was added.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthRoleAddResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// The permissions of a role.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleGetResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The permissions of the role, by their keys.
    #[prost(message, repeated, tag = "2")]
    pub perm: Vec<Permission>,
}

/// The names of all roles.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthRoleListResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The names, ascending.
    #[prost(string, repeated, tag = "2")]
    pub roles: Vec<String>,
}

/// The names of all users.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AuthUserListResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The names, ascending.
    #[prost(string, repeated, tag = "2")]
    pub users: Vec<String>,
}

/// A role was deleted.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthRoleDeleteResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A role has a permission.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthRoleGrantPermissionResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// A role has a permission no longer.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AuthRoleRevokePermissionResponse {
    /// The usual header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_formatted() {
        let secret = || "hunter2".to_owned();
        let add = AuthUserAddRequest {
            name: "alice".to_owned(),
            password: secret(),
            options: None,
            hashed_password: secret(),
        };
        let change = AuthUserChangePasswordRequest {
            name: "alice".to_owned(),
            password: secret(),
            hashed_password: secret(),
        };
        let login = AuthenticateRequest {
            name: "alice".to_owned(),
            password: secret(),
        };
        let token = AuthenticateResponse {
            header: None,
            token: secret(),
        };
        let formatted = format!("{add:?} {change:?} {login:?} {token:?}");
        assert!(!formatted.contains("hunter2"), "{formatted}");
        assert!(formatted.contains("alice"), "{formatted}");
    }
}
