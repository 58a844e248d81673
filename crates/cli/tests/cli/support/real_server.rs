//! The real server of Redis that tests run with, if there is one.

use std::path::PathBuf;

/// The option for the server to test with, if there is one.
pub fn server() -> Option<String> {
    let given = std::env::var_os("REDIS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = given.or_else(|| {
        let names = ["valkey-server", "redis-server"];
        let candidates =
            names.map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
        candidates.into_iter().flatten().find(|path| path.is_file())
    });
    if found.is_none() {
        println!("skipped: REDIS_SERVER names no server, and PATH has none");
    }
    found.map(|path| format!("--redis-server={}", path.display()))
}
