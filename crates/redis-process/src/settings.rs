//! Settings that replication depends on: given to every server, and looked at once it runs.

use crate::quote::quoted;
use crate::version::{Flavour, ServerVersion};
use std::fmt::Write;
use std::path::Path;

/// The name of the socket within the server's folder.
pub(crate) const SOCKET: &str = "server.sock";
/// The name of the file that a server loads, and writes.
pub const RDB: &str = "dump.rdb";

/// Of which values it is looked at whether they are whole.
const SANITIZE: &str = "sanitize-dump-payload";

/// A setting, and what a server that has it says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Forced {
    pub(crate) name: &'static str,
    value: String,
    /// What `CONFIG GET` has to contain.
    shown: Shown,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Shown {
    /// The server shows the value as it was given.
    Same,
    /// The value has one of these parts: servers call the replica's class by two names.
    OneOf([&'static str; 2]),
    /// The server may lower it, or does not show it.
    Anything,
}

impl Forced {
    fn new(name: &'static str, value: impl Into<String>) -> Forced {
        Forced {
            name,
            value: value.into(),
            shown: Shown::Same,
        }
    }

    /// Whether a server that shows this has the setting.
    pub(crate) fn is(&self, shown: &str) -> bool {
        match &self.shown {
            Shown::Same => shown == self.value,
            Shown::OneOf(parts) => parts.iter().any(|part| shown.contains(part)),
            Shown::Anything => true,
        }
    }

    /// Whether it is worth asking the server.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown != Shown::Anything
    }
}

/// Has a server look at every value of its file, too.
pub(crate) fn check_files(forced: &mut [Forced]) {
    let setting = forced.iter_mut().find(|one| one.name == SANITIZE);
    if let Some(setting) = setting {
        "yes".clone_into(&mut setting.value);
    }
}

/// The settings of a server of a version in a folder, for so many clients.
pub(crate) fn forced(
    flavour: Flavour,
    version: ServerVersion,
    folder: &Path,
    clients_max: usize,
) -> Vec<Forced> {
    let same = [
        ("port", "0"),
        ("unixsocket", SOCKET),
        ("unixsocketperm", "700"),
        ("daemonize", "no"),
        ("supervised", "no"),
        ("timeout", "0"),
        ("save", ""),
        ("appendonly", "no"),
        ("dbfilename", RDB),
        ("rdbchecksum", "yes"),
        ("repl-timeout", "2147483647"),
        ("repl-ping-replica-period", "3600"),
        ("repl-backlog-ttl", "0"),
        ("repl-backlog-size", "67108864"),
        ("repl-diskless-load", "disabled"),
        ("repl-diskless-sync", "yes"),
        ("repl-diskless-sync-delay", "0"),
        ("repl-disable-tcp-nodelay", "no"),
        ("replica-read-only", "yes"),
        ("replica-serve-stale-data", "yes"),
        ("replica-ignore-maxmemory", "yes"),
        ("min-replicas-to-write", "0"),
        ("stop-writes-on-bgsave-error", "no"),
        // An effect that a follower cannot have ends it, rather than be left out.
        ("propagation-error-behavior", "panic-on-replicas"),
        ("enable-module-command", "no"),
        ("enable-protected-configs", "no"),
        ("cluster-enabled", "no"),
    ];
    let mut all: Vec<Forced> = same.map(|(name, value)| Forced::new(name, value)).into();
    all.push(Forced::new("dir", folder.to_string_lossy()));
    all.push(Forced {
        shown: Shown::OneOf(["replica 0 0 0", "slave 0 0 0"]),
        ..Forced::new("client-output-buffer-limit", "replica 0 0 0")
    });
    // What a client hands to RESTORE is looked at before every server has it. Valkey 9.1 takes the setting and does not
    // show it.
    all.push(Forced {
        shown: Shown::Anything,
        ..Forced::new(SANITIZE, "clients")
    });
    all.push(Forced {
        shown: Shown::Anything,
        ..Forced::new("maxclients", clients_max.to_string())
    });
    let more: &[&str] = match flavour {
        Flavour::Redis if version >= ServerVersion::new(8, 0, 0) => &["repl-rdb-channel"],
        Flavour::Redis => &[],
        Flavour::Valkey if version >= ServerVersion::new(8, 1, 0) => {
            &["dual-channel-replication-enabled", "import-mode"]
        }
        Flavour::Valkey => &["dual-channel-replication-enabled"],
    };
    all.extend(more.iter().map(|name| Forced::new(name, "no")));
    all
}

/// The lines of a file of settings.
pub(crate) fn lines(all: &[Forced]) -> String {
    let mut out = String::new();
    for setting in all {
        // A list of words is no single value.
        let value = match setting.name {
            "client-output-buffer-limit" => setting.value.clone(),
            _ => quoted(&setting.value),
        };
        // A text can always be written to.
        let _ = writeln!(out, "{} {value}", setting.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flavour: Flavour, version: ServerVersion) -> Vec<&'static str> {
        let all = forced(flavour, version, Path::new("/tmp/x"), 100);
        all.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn a_server_gets_only_what_it_knows() {
        let redis = names(Flavour::Redis, ServerVersion::new(7, 0, 15));
        let later = names(Flavour::Redis, ServerVersion::new(8, 2, 3));
        assert!(!redis.contains(&"repl-rdb-channel") && later.contains(&"repl-rdb-channel"));
        let valkey = names(Flavour::Valkey, ServerVersion::new(8, 0, 4));
        let later = names(Flavour::Valkey, ServerVersion::new(8, 1, 0));
        assert!(!valkey.contains(&"import-mode") && later.contains(&"import-mode"));
        assert!(valkey.contains(&"dual-channel-replication-enabled"));
    }

    #[test]
    fn what_a_server_shows_is_held_against_what_it_was_given() {
        let all = forced(
            Flavour::Redis,
            ServerVersion::new(7, 0, 0),
            Path::new("/a b"),
            100,
        );
        let of = |name| all.iter().find(|setting| setting.name == name).unwrap();
        assert!(of("save").is("") && !of("save").is("3600 1"));
        assert!(of("dir").is("/a b") && !of("dir").is("/a"));
        let limit = of("client-output-buffer-limit");
        assert!(limit.is("normal 0 0 0 slave 0 0 0 pubsub 33554432 8388608 60"));
        assert!(!limit.is("normal 0 0 0 slave 268435456 67108864 60 pubsub 1 1 60"));
        assert!(!of("maxclients").is_shown());
        let text = lines(&all);
        assert!(text.contains("\ndir \"/a b\"\n") && text.contains("\nsave \"\"\n"));
        assert!(text.contains("\nclient-output-buffer-limit replica 0 0 0\n"));
    }
}
