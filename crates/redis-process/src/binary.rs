//! The program that is run as server.

use crate::error::ProcessError;
use crate::version::{Flavour, ServerVersion, parse_version_line};
use std::env;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The names that are looked for in `PATH`, the first one first.
const NAMES: [&str; 2] = ["valkey-server", "redis-server"];
/// How long a program may take to print its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two looks at a program that prints its version.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The longest text that is read of a version, in bytes.
const VERSION_BYTES_MAX: u64 = 4096;

/// A program that is a server of a version that Quorate runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerBinary {
    /// Where the program is.
    pub path: PathBuf,
    /// The family of the server.
    pub flavour: Flavour,
    /// The version of the server.
    pub version: ServerVersion,
}

impl fmt::Display for ServerBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.flavour.name();
        write!(f, "{name} {} ({})", self.version, self.path.display())
    }
}

impl ServerBinary {
    /// The program at a path, or the first one in `PATH` that has the name given, or of one that is known.
    ///
    /// # Errors
    /// When there is none, or it is not what it has to be.
    pub fn find(given: Option<&Path>) -> Result<ServerBinary, ProcessError> {
        let folders = env::var_os("PATH");
        let path = match given {
            Some(path) => named(path, folders.as_deref()).unwrap_or_else(|| path.to_owned()),
            None => in_path(folders.as_deref()).ok_or(ProcessError::NotFound)?,
        };
        let (flavour, version) = match version_of(&path) {
            Ok(found) => found,
            Err(why) => return Err(ProcessError::Unusable { path, why }),
        };
        if version < flavour.oldest() {
            return Err(ProcessError::TooOld {
                path,
                flavour,
                version,
            });
        }
        // The server has another working folder than this process.
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(ServerBinary {
            path,
            flavour,
            version,
        })
    }
}

/// The first program of the names that are looked for.
fn in_path(path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path?).collect();
    let candidates = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

/// The first program of a name, where no folder is given with it.
fn named(name: &Path, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let is_bare = name.components().count() == 1;
    let folders = env::split_paths(path.filter(|_| is_bare)?);
    let mut candidates = folders.map(|folder| folder.join(name));
    candidates.find(|path| path.is_file())
}

/// What a program says of itself.
fn version_of(path: &Path) -> Result<(Flavour, ServerVersion), String> {
    let mut child = Command::new(path)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + VERSION_WITHIN;
    let ended = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(LOOK_AGAIN),
        }
    };
    if ended.is_none() {
        // It may have ended meanwhile: then there is nothing to kill.
        let _ = child.kill();
        let _ = child.wait();
        return Err("it did not print its version in time".to_owned());
    }
    let mut text = Vec::new();
    if let Some(out) = child.stdout.take() {
        let read = out.take(VERSION_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| error.to_string())?;
    }
    let text = String::from_utf8_lossy(&text);
    parse_version_line(&text)
        .ok_or_else(|| "what it prints for --version is no version of Redis or Valkey".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that prints a text. Another process writes it: a file that is open for writing here may be so in what
    /// another test starts as well, and is not run as long as it is.
    fn program(path: &Path, text: &str) {
        let source = path.with_extension("text");
        fs::write(&source, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
        let copied = Command::new("cp").arg(&source).arg(path).status().unwrap();
        assert!(copied.success());
    }

    #[test]
    fn names_are_looked_for_in_path_and_valkey_first() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        for folder in [&one, &two] {
            fs::create_dir(folder).unwrap();
        }
        program(&one.join("redis-server"), "Redis server v=7.0.15 sha=0");
        let both = env::join_paths([&one, &two]).unwrap();
        assert_eq!(in_path(Some(&both)), Some(one.join("redis-server")));
        program(&two.join("valkey-server"), "Valkey server v=9.1.2 sha=0");
        assert_eq!(in_path(Some(&both)), Some(two.join("valkey-server")));
        assert_eq!(in_path(None), None);
        let find = |name: &str| named(Path::new(name), Some(&both));
        assert_eq!(find("redis-server"), Some(one.join("redis-server")));
        assert_eq!(find("redis-server-8"), None);
        assert_eq!(find("one/redis-server"), None);
    }

    #[test]
    fn programs_that_cannot_serve_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server");
        let missing = ServerBinary::find(Some(&path)).unwrap_err().to_string();
        assert!(
            missing.contains("is no server that can be run"),
            "{missing}"
        );
        for (text, says) in [
            (
                "Redis server v=6.2.14 sha=0",
                "is Redis 6.2.14, and 7.0.0 or newer is needed",
            ),
            (
                "Valkey server v=7.2.8 sha=0",
                "is Valkey 7.2.8, and 8.0.0 or newer",
            ),
            ("etcd Version: 3.5.16", "is no version of Redis or Valkey"),
        ] {
            program(&path, text);
            let refused = ServerBinary::find(Some(&path)).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        program(&path, "Redis server v=7.0.15 sha=0");
        let found = ServerBinary::find(Some(&path)).unwrap();
        assert_eq!(found.version, ServerVersion::new(7, 0, 15));
        assert!(found.to_string().starts_with("Redis 7.0.15 ("));
    }
}
