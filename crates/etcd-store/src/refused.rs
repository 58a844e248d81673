//! Why the store says no.

use quorate_etcd_api::errors::{self, Code, Error};
use std::fmt;

macro_rules! refused {
    ($($(#[$doc:meta])* $name:ident = $code:literal => $error:expr,)*) => {
        /// Why a request was refused. A refused request has changed nothing.
        ///
        /// The numbers travel in results, and are never given a new meaning.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Refused {
            $($(#[$doc])* $name = $code,)*
        }

        impl Refused {
            /// The refusal with this number.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Refused::$name),)*
                    _ => None,
                }
            }

            /// What an etcd client is told.
            #[must_use]
            pub fn error(self) -> Error {
                match self {
                    $(Refused::$name => $error,)*
                }
            }
        }
    };
}

refused! {
    /// The bytes are not a request of this store.
    Malformed = 1 => Error {
        code: Code::InvalidArgument,
        text: "etcdserver: request cannot be decoded",
    },
    /// A key is empty.
    EmptyKey = 2 => errors::EMPTY_KEY,
    /// A value is given although the present one shall stay.
    ValueProvided = 3 => errors::VALUE_PROVIDED,
    /// A lease is given although the present one shall stay.
    LeaseProvided = 4 => errors::LEASE_PROVIDED,
    /// There is no such sort order or target.
    InvalidSort = 5 => errors::INVALID_SORT_OPTION,
    /// A transaction has more operations than allowed.
    TooManyOps = 6 => errors::TOO_MANY_OPS,
    /// A transaction writes one key twice.
    DuplicateKey = 7 => errors::DUPLICATE_KEY,
    /// Value or lease of a key shall stay, but there is no such key; or an operation is empty.
    KeyNotFound = 8 => errors::KEY_NOT_FOUND,
    /// There is no such lease.
    LeaseNotFound = 9 => errors::LEASE_NOT_FOUND,
    /// The revision is no longer there.
    Compacted = 10 => errors::COMPACTED,
    /// The revision is not there yet.
    FutureRevision = 11 => errors::FUTURE_REVISION,
    /// The number of a lease is taken.
    LeaseExists = 12 => errors::LEASE_EXISTS,
    /// A lease shall live too long.
    LeaseTtlTooLarge = 13 => errors::LEASE_TTL_TOO_LARGE,
    /// A condition orders values, and one of them is kept as a payload: whoever asked has to read it and
    /// to ask for the version that was read; see [`crate::ordering`].
    NeedsValue = 14 => Error {
        code: Code::Unavailable,
        text: "etcdserver: a value that is compared is not at hand",
    },
    /// Space is short, and the command would make the store larger.
    NoSpace = 15 => errors::NO_SPACE,
    /// Replicas hold different states, and nobody knows which one is right.
    Corrupt = 16 => errors::CORRUPT,
    /// Authentication cannot be turned on: there is no user root.
    RootUserNotExist = 17 => errors::ROOT_USER_NOT_EXIST,
    /// Authentication cannot be turned on: the user root does not have the role root.
    RootRoleNotExist = 18 => errors::ROOT_ROLE_NOT_EXIST,
    /// The name of a user is taken.
    UserExists = 19 => errors::USER_EXISTS,
    /// A user has no name; or nobody said who asks.
    UserEmpty = 20 => errors::USER_EMPTY,
    /// There is no such user.
    UserNotFound = 21 => errors::USER_NOT_FOUND,
    /// The name of a role is taken.
    RoleExists = 22 => errors::ROLE_EXISTS,
    /// There is no such role.
    RoleNotFound = 23 => errors::ROLE_NOT_FOUND,
    /// A role has no name.
    RoleEmpty = 24 => errors::ROLE_EMPTY,
    /// There is no such user, or the password is another one.
    AuthFailed = 25 => errors::AUTH_FAILED,
    /// A password was given for a user that has none.
    NoPasswordUser = 26 => errors::NO_PASSWORD_USER,
    /// The permission to be granted is missing.
    PermissionNotGiven = 27 => errors::PERMISSION_NOT_GIVEN,
    /// The user has no right to this.
    PermissionDenied = 28 => errors::PERMISSION_DENIED,
    /// The user does not have the role.
    RoleNotGranted = 29 => errors::ROLE_NOT_GRANTED,
    /// The role does not have the permission.
    PermissionNotGranted = 30 => errors::PERMISSION_NOT_GRANTED,
    /// Authentication is off.
    AuthNotEnabled = 31 => errors::AUTH_NOT_ENABLED,
    /// This would leave nobody who may change users; or a permission is for no range of keys.
    InvalidAuthMgmt = 32 => errors::INVALID_AUTH_MGMT,
    /// Users or roles have changed since the credentials were checked.
    AuthOldRevision = 33 => errors::AUTH_OLD_REVISION,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.error().text)
    }
}

impl std::error::Error for Refused {}
