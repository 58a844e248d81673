//! File descriptors: how many this process may have, and what they are kept for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that connections of clients never take: some 60 for log, fragment store and snapshots, 256 for gateways,
/// 64 for strangers at the peer port, and the rest for peers.
const RESERVED: usize = 512;
/// Most connections of clients, unless more are asked for: an idle one costs some 28 KiB of memory.
const CLIENT_CONNECTIONS_DEFAULT_MAX: usize = 10_000;
/// A limit that the system calls infinite.
const UNLIMITED: u64 = 1 << 30;

/// Raises the soft limit of open files to the hard one; says what it is then.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // The system may know a bound of its own where the hard limit is infinite.
        Err(_) => limit.current,
    };
    now.unwrap_or(UNLIMITED)
}

/// How many connections of clients a process with this limit of open files may have: as many as were asked for, or as
/// the limit leaves room for.
///
/// # Errors
/// When it does not leave room for those that were asked for.
pub fn client_connections_max(limit: u64, asked: Option<usize>) -> Result<usize, String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let reserved = RESERVED.min(limit / 2);
    let room = limit - reserved;
    match asked {
        None => Ok(room.min(CLIENT_CONNECTIONS_DEFAULT_MAX)),
        Some(0) => Err("--max-client-connections 0 lets no client connect".to_owned()),
        Some(asked) if asked <= room => Ok(asked),
        Some(asked) => Err(format!(
            "--max-client-connections {asked} needs a limit of {} open files, and it is {limit}: raise it with \
             `ulimit -n` or LimitNOFILE=, or allow at most {room} connections",
            asked.saturating_add(RESERVED)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_take_what_is_reserved() {
        for (limit, most) in [
            (256, 128),
            (1024, 512),
            (20_000, 10_000),
            (UNLIMITED, 10_000),
        ] {
            assert_eq!(client_connections_max(limit, None), Ok(most), "of {limit}");
        }
        assert_eq!(
            client_connections_max(UNLIMITED, Some(100_000)),
            Ok(100_000)
        );
        let why = client_connections_max(1024, Some(600)).unwrap_err();
        assert!(
            why.contains("needs a limit of 1112 open files, and it is 1024"),
            "{why}"
        );
        assert!(client_connections_max(1024, Some(0)).is_err());
    }
}
