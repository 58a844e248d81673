//! The file of users: a line for each, in the words of Redis's `ACL SETUSER`.

use super::rights::User;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
pub(super) fn read(path: &Path) -> Result<BTreeMap<Bytes, Arc<User>>, AccessError> {
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
fn parse(text: &str) -> Result<BTreeMap<Bytes, Arc<User>>, (usize, String)> {
    let mut users = BTreeMap::new();
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
            user.apply(rule).map_err(|why| (number, why))?;
        }
        if users.insert(name, Arc::new(user)).is_some() {
            return Err((number, "the user was there before".to_owned()));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::super::{Denied, Users};
    use super::*;
    use crate::table::find;

    fn users(text: &str) -> Users {
        Users::of(parse(text).expect("it is a file of users"), None)
    }

    /// What a user is told of a call.
    fn denied(user: &User, call: &str) -> Option<Denied> {
        let args: Vec<Bytes> = call
            .split(' ')
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect();
        user.denies(find(&args[0]).expect("it is a command"), &args)
    }

    #[test]
    fn rules_hold_in_their_order() {
        let users = users(
            "# people\n\nuser alice on >secret ~app:* ~shared +@all -flushall -@admin &news:*\n\
             user bob on nopass allkeys +@read +set\nuser carol off >secret allkeys +@all\n",
        );
        assert!(users.log_in(b"alice", b"wrong").is_none());
        assert!(users.log_in(b"carol", b"secret").is_none());
        assert!(users.log_in(b"dave", b"").is_none());
        let alice = users.log_in(b"alice", b"secret").expect("her password");
        assert_eq!(denied(&alice, "set app:1 x"), None);
        assert_eq!(denied(&alice, "mget shared app:2"), None);
        assert_eq!(denied(&alice, "set other x"), Some(Denied::Key));
        assert_eq!(denied(&alice, "mset app:1 x other y"), Some(Denied::Key));
        assert_eq!(
            denied(&alice, "flushall"),
            Some(Denied::Command("flushall"))
        );
        assert_eq!(
            denied(&alice, "config get save"),
            Some(Denied::Command("config"))
        );
        assert_eq!(denied(&alice, "publish news:1 x"), None);
        assert_eq!(denied(&alice, "publish old x"), Some(Denied::Channel));
        assert_eq!(
            denied(&alice, "subscribe news:1 old"),
            Some(Denied::Channel)
        );
        assert_eq!(denied(&alice, "psubscribe news:*"), None);
        assert_eq!(denied(&alice, "psubscribe *"), Some(Denied::Channel));
        let bob = users.log_in(b"bob", b"anything").expect("he needs none");
        assert_eq!(denied(&bob, "get a"), None);
        assert_eq!(denied(&bob, "set a 1"), None);
        assert_eq!(denied(&bob, "del a"), Some(Denied::Command("del")));
        assert!(
            users.at_first().is_some(),
            "the default user is as without a file"
        );
    }

    #[test]
    fn passwords_are_shown_as_their_hashes_alone() {
        let users = users("user alice on >secret resetkeys ~a* +get\n");
        let line = users.get(b"alice").expect("she is there").describe();
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(
            line,
            format!("user alice on #{hash} ~a* resetchannels -@all +get")
        );
        let again = parse(&line).expect("a user is shown as a line of the file");
        assert!(again[&b"alice"[..]].knows(b"secret"));
        assert!(!format!("{:?}", users.get(b"alice")).contains("2bb80d"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, why) in [
            ("alice on", 1, "a line is `user NAME`"),
            ("\nuser a +nonsense", 2, "there is no command"),
            ("user a +@nonsense", 1, "there is no category"),
            ("user a %R~x", 1, "`%R~x`"),
            ("user a (+get ~x)", 1, "selectors"),
            ("user a +config|get", 1, "subcommands"),
            ("user a #123", 1, "64 hexadecimal digits"),
            ("user a on\nuser a off", 2, "was there before"),
        ] {
            let (at, told) = parse(text).expect_err(text);
            assert!(at == line && told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn the_default_user_can_have_a_password() {
        let users = Users::of(BTreeMap::new(), Some("hush"));
        assert!(users.at_first().is_none() && users.has_password());
        assert!(users.log_in(b"default", b"hush").is_some());
        assert!(users.log_in(b"default", b"").is_none());
        assert!(!format!("{users:?}").contains("hush"));
    }
}
