//! The file of users: a line for each, in the words of Redis's `ACL SETUSER`.

use super::{User, check_rule, prepared};
use bytes::Bytes;
use quorate_redis_store::UserTable;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The longest file of users, in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// A file of users that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessError {
    path: PathBuf,
    /// The line, from 1, if one is wrong.
    line: Option<usize>,
    why: String,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for AccessError {}

/// Reads the users of a file.
pub(super) fn read(path: &Path) -> Result<UserTable, AccessError> {
    let wrong = |why: String| AccessError {
        path: path.to_owned(),
        line: None,
        why,
    };
    let bytes = std::fs::metadata(path)
        .map_err(|error| wrong(error.to_string()))?
        .len();
    if bytes > BYTES_MAX {
        return Err(wrong(format!("{bytes} bytes are no file of users")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(|(line, why)| AccessError {
        line: Some(line),
        ..wrong(why)
    })
}

/// The users of a text, or which of its lines is wrong.
fn parse(text: &str) -> Result<UserTable, (usize, String)> {
    let (mut users, mut names) = (UserTable::default(), BTreeSet::new());
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let name = match (words.next(), words.next()) {
            (None, _) => continue,
            (Some(word), _) if word.starts_with('#') => continue,
            (Some("user"), Some(name)) => Bytes::copy_from_slice(name.as_bytes()),
            _ => return Err((number, "a line is `user NAME` and rules".to_owned())),
        };
        let mut user = User::nothing(name.clone());
        for rule in words {
            check_rule(rule.as_bytes()).map_err(|why| (number, why))?;
            let applied = user.apply(&prepared(rule.as_bytes()));
            applied.map_err(|why| (number, why.to_string()))?;
        }
        if !names.insert(name) {
            return Err((number, "the user was there before".to_owned()));
        }
        users.put(user);
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::super::{Users, at_first, denies, log_in};
    use super::*;
    use crate::table::find;
    use quorate_redis_store::Denied;

    /// What a user is told of a call.
    fn denied(user: &User, call: &str) -> Option<Denied> {
        let words = call.split(' ').map(|word| word.as_bytes());
        let args: Vec<Bytes> = words.map(Bytes::copy_from_slice).collect();
        denies(user, find(&args[0]).expect("it is a command"), &args)
    }

    #[test]
    fn rules_hold_in_their_order() {
        let users = parse(
            "# people\n\nuser alice on >secret ~app:* ~shared +@all -flushall -@admin &news:*\n\
             user bob on nopass allkeys +@read +set +client|id\nuser carol off >secret allkeys +@all\n",
        )
        .expect("it is a file of users");
        assert!(log_in(&users, b"alice", b"wrong").is_none());
        assert!(log_in(&users, b"carol", b"secret").is_none());
        assert!(log_in(&users, b"dave", b"").is_none());
        let alice = log_in(&users, b"alice", b"secret").expect("her password");
        for allowed in [
            "set app:1 x",
            "publish news:1 x",
            "psubscribe news:*",
            "acl whoami",
        ] {
            assert_eq!(denied(&alice, allowed), None, "{allowed}");
        }
        for (call, why) in [
            ("set other x", Denied::Key),
            ("blpop app:1 other 0", Denied::Key),
            ("flushall", Denied::Command("flushall")),
            ("config get save", Denied::Command("config")),
            ("acl setuser alice +@all", Denied::Command("acl")),
            ("subscribe news:1 old", Denied::Channel),
            ("psubscribe *", Denied::Channel),
        ] {
            assert_eq!(denied(&alice, call), Some(why), "{call}");
        }
        let bob = log_in(&users, b"bob", b"anything").expect("he needs none");
        assert_eq!(denied(&bob, "get a"), None);
        assert_eq!(denied(&bob, "client id"), None);
        assert_eq!(denied(&bob, "client list"), Some(Denied::Command("client")));
        assert_eq!(denied(&bob, "del a"), Some(Denied::Command("del")));
        assert!(
            at_first(&users).is_some(),
            "the default user is as without a file"
        );
    }

    #[test]
    fn passwords_are_shown_as_their_hashes_alone() {
        let users = parse("user alice on >secret resetkeys ~a* +get\n").expect("it is a file");
        let line = users.get(b"alice").expect("she is there").describe();
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(
            line,
            format!("user alice on #{hash} ~a* resetchannels -@all +get")
        );
        let again = parse(&line.to_uppercase().replace("USER ALICE", "user alice"));
        let again = again.expect("a user is shown as a line of the file");
        assert!(log_in(&again, b"alice", b"secret").is_some());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, why) in [
            ("alice on", 1, "a line is `user NAME`"),
            ("\nuser a +nonsense", 2, "there is no command"),
            ("user a +nonsense|get", 1, "there is no command"),
            ("user a +@nonsense", 1, "there is no category"),
            ("user a %R~x", 1, "%R~"),
            ("user a (+get ~x)", 1, "selectors"),
            ("user a #123", 1, "hexadecimal"),
            ("user a on\nuser a off", 2, "was there before"),
        ] {
            let (at, told) = parse(text).expect_err(text);
            assert!(at == line && told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn the_default_user_can_have_a_password() {
        let users = Users::open(None, Some("hush")).expect("a password");
        assert!(at_first(users.table()).is_none());
        assert!(log_in(users.table(), b"default", b"hush").is_some());
        assert!(log_in(users.table(), b"default", b"").is_none());
        assert!(!format!("{users:?}").contains("hush"));
    }
}
