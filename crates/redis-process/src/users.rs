//! Users of a server: those of clients, who may not touch replication, and Quorate's own.

use crate::error::ProcessError;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The longest file of users, in bytes.
const BYTES_MAX: u64 = 4 << 20;
/// The user in whose name connections begin.
const DEFAULT: &str = "default";
/// The user in whose name Quorate itself connects.
pub(crate) const OWN: &str = "quorate";

/// What no client may do: it would change who replicates, what is stored where, or who may do what.
const DENIED: &str = "-replicaof -slaveof -psync -sync -replconf -failover -shutdown -config|set -config|rewrite \
                      -config|resetstat -debug -save -bgsave -bgrewriteaof -migrate -monitor -module -acl|setuser \
                      -acl|deluser -acl|load -acl|save -script|debug";

/// The users of a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ServerUsers {
    /// Names and rules of the users of clients, in the order of the file.
    users: Vec<(String, String)>,
    /// The password of the default user, if it is to have another one than the file says.
    password: Option<String>,
}

impl fmt::Debug for ServerUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUsers({})", self.users.len())
    }
}

impl ServerUsers {
    /// The users of a file, with a password for the default user if there is to be one.
    ///
    /// # Errors
    /// The line of the file that is wrong, or why it cannot be read.
    pub fn open(file: Option<&Path>, password: Option<&str>) -> Result<ServerUsers, ProcessError> {
        let users = match file {
            Some(path) => read(path)?,
            None => Vec::new(),
        };
        Ok(ServerUsers {
            users,
            password: password.map(str::to_owned),
        })
    }

    /// A mark by which replicas with different users are told apart. It is too short to try passwords against.
    #[must_use]
    pub fn mark(&self) -> u16 {
        // FNV-1a, folded.
        let text = self.file("");
        let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        (hash >> 16) as u16 ^ hash as u16
    }

    /// The file of users for a server, with a password for Quorate's own.
    pub(crate) fn file(&self, own_password: &str) -> String {
        let mut out = format!("user {OWN} on >{own_password} ~* &* +@all\n");
        let mut add = |name: &str, rules: &str| {
            let password = self.password.as_deref().filter(|_| name == DEFAULT);
            let password = password.map(|password| format!(" resetpass >{password}"));
            let password = password.unwrap_or_default();
            out.push_str(&format!("user {name} {rules}{password} {DENIED}\n"));
        };
        for (name, rules) in &self.users {
            add(name, rules);
        }
        if !self.users.iter().any(|(name, _)| name == DEFAULT) {
            add(DEFAULT, "on nopass ~* &* +@all");
        }
        out
    }
}

/// Reads the users of a file.
fn read(path: &Path) -> Result<Vec<(String, String)>, ProcessError> {
    let wrong = |why: String| ProcessError::Users {
        path: path.to_owned(),
        why,
    };
    let found = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if found.len() > BYTES_MAX {
        return Err(wrong(format!(
            "a file of users has at most {BYTES_MAX} bytes"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(|(line, why)| wrong(format!("line {line}: {why}")))
}

/// The users of a text, or which of its lines is wrong. No error shows a rule: it may be a password.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, &'static str)> {
    let mut users = Vec::new();
    let mut names = BTreeSet::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let name = match (words.next(), words.next()) {
            (None, _) => continue,
            (Some("user"), Some(name)) => name,
            _ => return Err((number, "a user is `user NAME RULES`")),
        };
        if name == OWN {
            return Err((number, "the user quorate is Quorate's own"));
        }
        if !names.insert(name) {
            return Err((number, "this user is on an earlier line, too"));
        }
        let rules: Vec<&str> = words.collect();
        // Rights within parentheses would not be limited by what follows them.
        if rules.iter().any(|rule| rule.starts_with('(')) {
            return Err((number, "selectors in parentheses are not supported"));
        }
        users.push((name.to_owned(), rules.join(" ")));
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_quorate_may_touch_replication() {
        let users = ServerUsers {
            users: parse("user alice on >secret ~app:* +@all\n\nuser default off\n").unwrap(),
            password: None,
        };
        let file = users.file("own");
        let lines: Vec<&str> = file.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], "user quorate on >own ~* &* +@all");
        for line in &lines[1..] {
            assert!(line.ends_with(DENIED), "{line}");
        }
        assert!(!format!("{users:?}").contains("secret"));
        assert_eq!(users.mark(), users.clone().mark());
        assert_ne!(users.mark(), ServerUsers::default().mark());
    }

    #[test]
    fn the_default_user_has_the_password_that_was_given() {
        let open = ServerUsers::default().file("own");
        assert!(open.contains("user default on nopass ~* &* +@all -replicaof"));
        for rules in ["", "user default on nopass ~a +get\n"] {
            let users = ServerUsers {
                users: parse(rules).unwrap(),
                password: Some("hush".to_owned()),
            };
            let file = users.file("own");
            let line = file.lines().nth(1).unwrap();
            assert!(line.contains(" resetpass >hush -replicaof"), "{line}");
        }
    }

    #[test]
    fn lines_that_would_undo_a_refusal_are_refused() {
        for (text, why) in [
            ("user quorate on", "Quorate's own"),
            ("user a on\nuser a off", "earlier line"),
            ("user a on (+@all ~*)", "parentheses"),
            ("alice on", "user NAME RULES"),
            ("user", "user NAME RULES"),
        ] {
            let (_, told) = parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
