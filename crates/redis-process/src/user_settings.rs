//! Settings that an operator may choose: a file with some of the names of `redis.conf`.

use crate::error::ProcessError;
use crate::quote::quoted;
use quorate_resp::split_words;
use std::fmt::Write;
use std::path::Path;

/// The longest file of settings, in bytes.
const BYTES_MAX: u64 = 64 << 10;

/// The names that may be set. A name that ends in `*` stands for all that begin so.
const ALLOWED: &[&str] = &[
    "acllog-max-len",
    "active-defrag-*",
    "activedefrag",
    "activerehashing",
    "busy-reply-threshold",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "databases",
    "dynamic-hz",
    "hash-max-*",
    "hll-sparse-max-bytes",
    "hz",
    "io-threads",
    "io-threads-do-reads",
    "latency-*",
    "lazyfree-lazy-*",
    "lfu-*",
    "list-compress-depth",
    "list-max-*",
    "loglevel",
    "lua-time-limit",
    "maxmemory",
    "maxmemory-*",
    "notify-keyspace-events",
    "proto-max-bulk-len",
    "rdbcompression",
    "set-max-*",
    "slowlog-*",
    "stream-node-max-*",
    "tracking-table-max-keys",
    "zset-max-*",
];

/// Classes of clients whose bounds may be set; the one of replicas is not among them.
const CLASSES: [&str; 2] = ["normal", "pubsub"];

/// Settings that an operator chose.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserSettings {
    /// Names and values, in the order of the file.
    chosen: Vec<(String, Vec<String>)>,
}

impl UserSettings {
    /// Reads a file with a setting on each line, as `redis.conf` has them.
    ///
    /// # Errors
    /// The line that is wrong or not an operator's to choose, or why the file cannot be read.
    pub fn open(path: &Path) -> Result<UserSettings, ProcessError> {
        let wrong = |why: String| ProcessError::Settings {
            path: path.to_owned(),
            why,
        };
        let found = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if found.len() > BYTES_MAX {
            return Err(wrong(format!(
                "a file of settings has at most {BYTES_MAX} bytes"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        UserSettings::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<UserSettings, String> {
        let mut chosen = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim_start().starts_with('#') {
                continue;
            }
            let words = split_words(line.as_bytes())
                .ok_or_else(|| format!("line {number}: quotation marks do not match"))?;
            let mut words = words
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned());
            let Some(name) = words.next().map(|name| name.to_ascii_lowercase()) else {
                continue;
            };
            let values: Vec<String> = words.collect();
            check(&name, &values).map_err(|why| format!("line {number}: {why}"))?;
            chosen.push((name, values));
        }
        Ok(UserSettings { chosen })
    }

    /// The bound on the server's memory, as it was given, if there is one.
    #[must_use]
    pub fn memory_max(&self) -> Option<&str> {
        let mut chosen = self.chosen.iter().rev();
        let (_, values) = chosen.find(|(name, _)| name == "maxmemory")?;
        values.first().map(String::as_str)
    }

    /// The first of these settings that was chosen; a name that ends in `*` stands for all that begin so.
    #[must_use]
    pub fn first_of(&self, names: &[&str]) -> Option<&str> {
        let is_meant = |name: &str| {
            let mut names = names.iter();
            names.any(|meant| match meant.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == *meant,
            })
        };
        let mut chosen = self.chosen.iter().map(|(name, _)| &name[..]);
        chosen.find(|name| is_meant(name))
    }

    /// The lines of a file of settings.
    pub(crate) fn lines(&self) -> String {
        let mut out = String::new();
        for (name, values) in &self.chosen {
            out.push_str(name);
            for value in values {
                // A text can always be written to.
                let _ = write!(out, " {}", quoted(value));
            }
            out.push('\n');
        }
        out
    }
}

/// Refuses what an operator cannot choose.
fn check(name: &str, values: &[String]) -> Result<(), String> {
    let is_allowed = ALLOWED
        .iter()
        .any(|allowed| match allowed.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *allowed,
        });
    if !is_allowed {
        return Err(format!(
            "{name} is not a setting to choose: replication, files, ports and users are Quorate's; {} can be set",
            ALLOWED.join(", ")
        ));
    }
    let is_class = values
        .first()
        .is_some_and(|class| CLASSES.contains(&&class[..]));
    // Several classes may stand on a line, each with three bounds.
    if name == "client-output-buffer-limit" && !(is_class && values.len() == 4) {
        return Err(format!(
            "{name} takes one class, {} or {}, and three bounds",
            CLASSES[0], CLASSES[1]
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_chooses_memory_and_encodings() {
        let text = "# ours\n\nmaxmemory 100mb\nMaxMemory-Policy allkeys-lru\nhash-max-listpack-entries 64\n\
                    notify-keyspace-events \"\"\nclient-output-buffer-limit pubsub 32mb 8mb 60\n";
        let settings = UserSettings::parse(text).unwrap();
        assert_eq!(settings.memory_max(), Some("100mb"));
        assert_eq!(
            settings.lines(),
            "maxmemory \"100mb\"\nmaxmemory-policy \"allkeys-lru\"\nhash-max-listpack-entries \"64\"\n\
             notify-keyspace-events \"\"\nclient-output-buffer-limit \"pubsub\" \"32mb\" \"8mb\" \"60\"\n"
        );
    }

    #[test]
    fn what_replication_depends_on_is_refused() {
        for line in [
            "appendonly yes",
            "save 60 1",
            "dir /tmp",
            "port 6379",
            "include /etc/redis/redis.conf",
            "replicaof 10.0.0.1 6379",
            "rename-command INCR DECR",
            "loadmodule /tmp/x.so",
            "user bob on",
            "maxmemoryx",
            "client-output-buffer-limit replica 1 1 1",
            "client-output-buffer-limit pubsub 1 1 1 replica 1 1 1",
            "client-output-buffer-limit",
            "maxmemory \"1",
        ] {
            let refused = UserSettings::parse(&format!("maxmemory 1\n{line}\n")).unwrap_err();
            assert!(refused.starts_with("line 2: "), "{line}: {refused}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let missing = UserSettings::open(Path::new("/nowhere/redis.conf")).unwrap_err();
        assert!(missing.to_string().starts_with("/nowhere/redis.conf: "));
    }
}
