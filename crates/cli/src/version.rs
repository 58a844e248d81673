//! What `--version` says: which program this is, and what it can do.

use quorate_protocols::names;
use quorate_server::SupportedVersions;
use std::sync::LazyLock;

/// The commit that the program was built from; empty where that is not known, and in builds for development.
const COMMIT: &str = env!("QUORATE_BUILT_FROM");

/// The answer to `--version`. Its first line is `quorate`, a space, and the version, which programs may read.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let commit = match COMMIT {
        "" => "unknown",
        commit => commit,
    };
    let supported = SupportedVersions::SHIPPED;
    let checks = match cfg!(debug_assertions) {
        true => ", with checks for development",
        false => "",
    };
    format!(
        "{}\ncommit         {commit}\nbuilt for      {}{checks}\nprotocols      {}\nfaces          etcd, plain, redis\n\
         wire versions  {} to {}\nfeature level  {}",
        env!("CARGO_PKG_VERSION"),
        env!("QUORATE_BUILT_FOR"),
        names().join(", "),
        supported.oldest.0,
        supported.newest.0,
        supported.level()
    )
}
