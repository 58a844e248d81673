//! Redis's strings, lists, sets, hashes and sorted sets, as a deterministic application.
//!
//! A command of the log is a [`Request`]: calls of one connection, as a client sends them. What it comes to are the
//! bytes of their replies, in Redis 7.0's words. Calls that only read are queries. The commands are in a table
//! ([`commands`]), which also says what each of them touches.
//!
//! Time is that of the log: what is over by the stamp of a command is gone for that command, exactly, on every replica.
//! Chance follows from the name of the command. What is kept by hash is ordered by it, so replies and snapshots do not
//! depend on how a collection came to be, and a copy of a tree costs nothing ([`Store`]'s snapshots, and commands that
//! are taken back, are such copies).
//!
//! For a while the data may be that of another server, which is followed ([`Standing`]): its stream is a command of the
//! log as well, and clients are refused.

mod access;
mod bits;
mod body;
mod context;
mod dispatch;
mod fault;
mod followed;
mod footprint;
mod glob;
mod hashes;
mod keys;
mod keyspace;
mod lcs;
mod lists;
mod number;
mod packed;
mod random;
mod range;
mod rdb;
mod reply;
mod scan;
mod sets;
mod snapshot;
mod sort;
mod store;
mod strings;
mod subscribers;
mod table;
mod text;
mod tree;
mod usage;
mod users;
mod value;
mod zsets;

pub use access::Denied;
pub use body::{Call, Request, Watched};
pub use dispatch::{REPLIES_BYTES_MAX, refused};
pub use followed::Standing;
pub use glob::matches;
pub use rdb::{Everything, Loaded, takes};
pub use snapshot::Cut;
pub use store::{Answer, DatabaseSize, Keyspace, Query, Store};
pub use subscribers::Subscribers;
pub use table::{Command, Group, categories, commands, find, is_of_redis};
pub use users::{
    Asker, Change, DEFAULT_USER, PasswordHash, RuleError, User, UserRules, UserTable, UsersChange,
    password_rule,
};
