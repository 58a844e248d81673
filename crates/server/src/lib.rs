//! The outer ring: the only one that knows threads, sockets, files and clocks.

mod handle;

pub use handle::{Consistency, Failure, Handle, MemberInfo, Request, Status};
