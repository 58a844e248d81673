//! Commands that change users and roles.

use super::{Asker, AuthState};
use crate::refused::Refused;
use bytes::{BufMut, Bytes, BytesMut};
use prost::{DecodeError, Message};
use quorate_etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest,
    AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest, AuthUserAddRequest,
    AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGrantRoleRequest,
    AuthUserRevokeRoleRequest,
};
use std::fmt;

/// A token for a user whose password was checked: not the token itself, which is in no log.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct TokenGrant {
    /// The name of the user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The SHA-256 of the token's secret part; empty where tokens are signed and need not be known.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// The auth revision under which the password was checked.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}

impl fmt::Debug for TokenGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenGrant")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident = $code:literal $request:ident,)*) => {
        /// A change of users, roles or tokens. Passwords are in it as bcrypt hashes, in the place of etcd's
        /// `hashed_password`; the field for the password in clear is not read.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum AuthChange {
            $($(#[$doc])* $name($request),)*
        }

        impl AuthChange {
            /// Reads the bytes behind the kind of the command.
            pub(crate) fn decode(body: Bytes) -> Result<Self, DecodeError> {
                let message = body.slice(1.min(body.len())..);
                match body.first() {
                    $(Some(&$code) => $request::decode(message).map(AuthChange::$name),)*
                    // No message is that short.
                    _ => AuthEnableRequest::decode(&b"\xff"[..]).map(AuthChange::Enable),
                }
            }

            /// The kind of change in one word.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(AuthChange::$name(_) => stringify!($name),)*
                }
            }

            /// Writes the bytes behind the kind of the command.
            pub(crate) fn encode(&self, out: &mut BytesMut) {
                match self {
                    $(AuthChange::$name(request) => {
                        out.put_u8($code);
                        request.encode_raw(out);
                    })*
                }
            }
        }
    };
}

changes! {
    /// Turn authentication on.
    Enable = 1 AuthEnableRequest,
    /// Turn authentication off.
    Disable = 2 AuthDisableRequest,
    /// Add a user.
    UserAdd = 3 AuthUserAddRequest,
    /// Delete a user.
    UserDelete = 4 AuthUserDeleteRequest,
    /// Give a user another password.
    UserChangePassword = 5 AuthUserChangePasswordRequest,
    /// Give a user a role.
    UserGrantRole = 6 AuthUserGrantRoleRequest,
    /// Take a role from a user.
    UserRevokeRole = 7 AuthUserRevokeRoleRequest,
    /// Add a role.
    RoleAdd = 8 AuthRoleAddRequest,
    /// Delete a role.
    RoleDelete = 9 AuthRoleDeleteRequest,
    /// Give a role a permission.
    RoleGrantPermission = 10 AuthRoleGrantPermissionRequest,
    /// Take a permission from a role.
    RoleRevokePermission = 11 AuthRoleRevokePermissionRequest,
    /// Let a user in by a token.
    GrantToken = 12 TokenGrant,
}

impl AuthChange {
    /// Refuses who must not do this. Tokens are granted to whoever knew the password.
    pub(crate) fn permit(&self, state: &AuthState, asker: &Asker) -> Result<(), Refused> {
        match self {
            AuthChange::GrantToken(_) => Ok(()),
            _ => state.check_root(asker),
        }
    }
}
