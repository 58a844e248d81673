//! The errors etcd's clients recognise, by gRPC code and exact text.

use std::fmt;

/// A gRPC status code; the numbers are those on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Code {
    /// The caller gave up.
    Canceled = 1,
    /// A failure without a code of its own.
    Unknown = 2,
    /// The request can never succeed as it is.
    InvalidArgument = 3,
    /// The caller's time is over.
    DeadlineExceeded = 4,
    /// The thing named does not exist.
    NotFound = 5,
    /// The caller has no right to this.
    PermissionDenied = 7,
    /// Too much is asked for, or no space is left.
    ResourceExhausted = 8,
    /// The system is in the wrong state for this.
    FailedPrecondition = 9,
    /// Outside what can be served.
    OutOfRange = 11,
    /// This server does not do that.
    Unimplemented = 12,
    /// Not now; try again.
    Unavailable = 14,
    /// Data were lost or damaged.
    DataLoss = 15,
    /// The caller is not known.
    Unauthenticated = 16,
}

/// One error: what a client sees of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Error {
    /// The gRPC status code.
    pub code: Code,
    /// The text, which clients compare.
    pub text: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl std::error::Error for Error {}

macro_rules! errors {
    ($($name:ident = $code:ident $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: Error = Error { code: Code::$code, text: concat!("etcdserver: ", $text) };
        )*
        /// Every error of the table.
        pub const ALL: &[Error] = &[$($name),*];
    };
}

/// A password was given for a user that has none: the one refusal of etcd's that has no code and no prefix.
pub const NO_PASSWORD_USER: Error = Error {
    code: Code::Unknown,
    text: "auth: authentication failed, password was given for no password user",
};

errors! {
    EMPTY_KEY = InvalidArgument "key is not provided";
    KEY_NOT_FOUND = InvalidArgument "key not found";
    VALUE_PROVIDED = InvalidArgument "value is provided";
    LEASE_PROVIDED = InvalidArgument "lease is provided";
    TOO_MANY_OPS = InvalidArgument "too many operations in txn request";
    DUPLICATE_KEY = InvalidArgument "duplicate key given in txn request";
    INVALID_CLIENT_API_VERSION = InvalidArgument "invalid client api version";
    INVALID_SORT_OPTION = InvalidArgument "invalid sort option";
    COMPACTED = OutOfRange "mvcc: required revision has been compacted";
    FUTURE_REVISION = OutOfRange "mvcc: required revision is a future revision";
    NO_SPACE = ResourceExhausted "mvcc: database space exceeded";

    LEASE_NOT_FOUND = NotFound "requested lease not found";
    LEASE_EXISTS = FailedPrecondition "lease already exists";
    LEASE_TTL_TOO_LARGE = OutOfRange "too large lease TTL";

    WATCH_CANCELED = Canceled "watch canceled";

    MEMBER_EXISTS = FailedPrecondition "member ID already exist";
    PEER_URL_EXISTS = FailedPrecondition "Peer URLs already exists";
    MEMBER_NOT_ENOUGH_STARTED = FailedPrecondition
        "re-configuration failed due to not enough started members";
    MEMBER_BAD_URLS = InvalidArgument "given member URLs are invalid";
    MEMBER_NOT_FOUND = NotFound "member not found";
    MEMBER_NOT_LEARNER = FailedPrecondition "can only promote a learner member";
    LEARNER_NOT_READY = FailedPrecondition
        "can only promote a learner member which is in sync with leader";
    TOO_MANY_LEARNERS = FailedPrecondition "too many learner members in cluster";
    CLUSTER_ID_MISMATCH = FailedPrecondition "cluster ID mismatch";

    REQUEST_TOO_LARGE = InvalidArgument "request is too large";
    TOO_MANY_REQUESTS = ResourceExhausted "too many requests";

    ROOT_USER_NOT_EXIST = FailedPrecondition "root user does not exist";
    ROOT_ROLE_NOT_EXIST = FailedPrecondition "root user does not have root role";
    USER_EXISTS = FailedPrecondition "user name already exists";
    USER_EMPTY = InvalidArgument "user name is empty";
    USER_NOT_FOUND = FailedPrecondition "user name not found";
    ROLE_EXISTS = FailedPrecondition "role name already exists";
    ROLE_NOT_FOUND = FailedPrecondition "role name not found";
    ROLE_EMPTY = InvalidArgument "role name is empty";
    AUTH_FAILED = InvalidArgument "authentication failed, invalid user ID or password";
    PERMISSION_NOT_GIVEN = InvalidArgument "permission not given";
    PERMISSION_DENIED = PermissionDenied "permission denied";
    ROLE_NOT_GRANTED = FailedPrecondition "role is not granted to the user";
    PERMISSION_NOT_GRANTED = FailedPrecondition "permission is not granted to the role";
    AUTH_NOT_ENABLED = FailedPrecondition "authentication is not enabled";
    INVALID_AUTH_TOKEN = Unauthenticated "invalid auth token";
    INVALID_AUTH_MGMT = InvalidArgument "invalid auth management";
    AUTH_OLD_REVISION = InvalidArgument "revision of auth store is old";

    NO_LEADER = Unavailable "no leader";
    NOT_LEADER = FailedPrecondition "not leader";
    LEADER_CHANGED = Unavailable "leader changed";
    NOT_CAPABLE = FailedPrecondition "not capable";
    STOPPED = Unavailable "server stopped";
    TIMEOUT = Unavailable "request timed out";
    TIMEOUT_LEADER_FAILED = Unavailable "request timed out, possibly due to previous leader failure";
    TIMEOUT_CONNECTION_LOST = Unavailable "request timed out, possibly due to connection lost";
    TIMEOUT_WAIT_APPLIED = Unavailable "request timed out, waiting for the applied index took too long";
    UNHEALTHY = Unavailable "unhealthy cluster";
    CORRUPT = DataLoss "corrupt cluster";
    NOT_SUPPORTED_FOR_LEARNER = FailedPrecondition "rpc not supported for learner";
    BAD_LEADER_TRANSFEREE = FailedPrecondition "bad leader transferee";

    WRONG_DOWNGRADE_VERSION_FORMAT = InvalidArgument "wrong downgrade target version format";
    INVALID_DOWNGRADE_TARGET_VERSION = InvalidArgument "invalid downgrade target version";
    CLUSTER_VERSION_UNAVAILABLE = FailedPrecondition "cluster version not found during downgrade";
    DOWNGRADE_IN_PROCESS = FailedPrecondition "cluster has a downgrade job in progress";
    NO_INFLIGHT_DOWNGRADE = FailedPrecondition "no inflight downgrade job";

    CANCELED = Canceled "request canceled";
    DEADLINE_EXCEEDED = DeadlineExceeded "context deadline exceeded";
}
