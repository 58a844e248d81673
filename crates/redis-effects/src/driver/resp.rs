//! Requests of the driver, and what servers reply to them.

use bytes::Bytes;
use quorate_resp::{Reply, encode_request};

/// A request as it is sent.
pub(crate) fn request(words: &[&str]) -> Bytes {
    let mut out = Vec::new();
    encode_request(words, &mut out);
    out.into()
}

/// What `ROLE` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoleReply {
    Master {
        offset: u64,
    },
    Replica {
        is_connected: bool,
        offset: u64,
    },
    /// A script runs.
    Busy,
}

impl RoleReply {
    pub(crate) fn read(reply: &Reply) -> Option<RoleReply> {
        let parts = match reply {
            Reply::Error(text) if text.starts_with("BUSY") => return Some(RoleReply::Busy),
            Reply::Array(parts) => parts,
            _ => return None,
        };
        let integer = |at: usize| match parts.get(at) {
            Some(Reply::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        match parts.first()?.text()?.as_str() {
            "master" => Some(RoleReply::Master {
                offset: integer(1)?,
            }),
            "slave" => Some(RoleReply::Replica {
                is_connected: parts.get(3)?.text()? == "connected",
                // Before anything was loaded it is -1.
                offset: integer(4).unwrap_or(0),
            }),
            _ => None,
        }
    }
}

/// Whether `INFO persistence` says that no RDB is being saved, and whether the last one was.
pub(crate) fn is_saved(reply: &Reply) -> Option<bool> {
    let text = reply.text()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.strip_prefix(':'))
    };
    match value("rdb_bgsave_in_progress")? {
        "0" => Some(value("rdb_last_bgsave_status") == Some("ok")),
        _ => None,
    }
}
