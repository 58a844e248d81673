//! A Redis or Valkey server as a child process of a replica.
//!
//! [`ServerBinary`] finds the program and looks whether its version is one that Quorate runs. A [`Launcher`] starts it
//! in a private folder, with a socket there and no port, under settings that replication depends on ([`UserSettings`]
//! are what an operator may choose) and for clients who may not touch replication ([`ServerUsers`]). A
//! [`ServerProcess`] is one that runs: it is new, it is ours, and it ends with us, however we end.
//!
//! Nothing here is durable. What a server knows is in the log, and whenever anything is in doubt the server is killed
//! and another one started from a file of its state.
#![allow(clippy::disallowed_methods, reason = "processes live in real time")]

mod binary;
mod control;
mod error;
mod folder;
mod launch;
mod process;
mod quote;
mod settings;
mod user_settings;
mod users;
mod version;

pub use binary::ServerBinary;
pub use control::{Control, connect};
pub use error::ProcessError;
pub use launch::{Launcher, LauncherOptions, Replication};
pub use process::ServerProcess;
pub use settings::RDB;
pub use user_settings::UserSettings;
pub use users::ServerUsers;
pub use version::{Flavour, ServerVersion};
