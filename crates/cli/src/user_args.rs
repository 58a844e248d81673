//! `--user`: as whom a cluster is asked, by etcdctl's names.

use crate::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use quorate_tooling::login::Login;
use rustix::termios::{self, LocalModes, OptionalActions};
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

/// The user who asks. What it is made of is kept, so that a password is asked for once.
#[derive(Args, Clone, Default)]
pub(crate) struct UserArgs {
    /// The user who asks, where the cluster has users: NAME or NAME:PASSWORD; a password that is not given is asked for
    #[arg(
        long,
        env = "QUORATE_USER",
        value_name = "NAME[:PASSWORD]",
        hide_env_values = true
    )]
    user: Option<String>,

    /// The password of --user, which is a name alone then
    #[arg(
        long,
        env = "QUORATE_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,

    #[arg(skip)]
    known: Arc<OnceLock<Option<Login>>>,
}

impl fmt::Debug for UserArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserArgs").finish_non_exhaustive()
    }
}

/// The value of the header with which a user asks for pages (RFC 7617).
pub(crate) fn header(user: &Login) -> String {
    let pair = format!("{}:{}", user.name, user.password);
    format!("Basic {}", STANDARD.encode(pair))
}

impl UserArgs {
    /// The user who asks, if one is given.
    pub(crate) fn resolve(&self) -> Result<Option<Login>, Failure> {
        if let Some(known) = self.known.get() {
            return Ok(known.clone());
        }
        let user = self.user_by(ask_for_password)?;
        Ok(self.known.get_or_init(|| user).clone())
    }

    fn user_by(&self, ask: impl FnOnce() -> io::Result<String>) -> Result<Option<Login>, Failure> {
        let Some(text) = self.user.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let (name, password) = match (&self.password, text.split_once(':')) {
            (Some(password), _) => (text, password.clone()),
            (None, Some((name, password))) => (name, password.to_owned()),
            (None, None) => {
                let asked = ask().map_err(|error| {
                    Failure::Usage(format!(
                        "--user {text}: no password can be read ({error}): give NAME:PASSWORD, or QUORATE_PASSWORD"
                    ))
                })?;
                (text, asked)
            }
        };
        if name.contains(':') {
            return Err(Failure::Usage(
                "--user: with --password it is a name alone, which has no colon".to_owned(),
            ));
        }
        Ok(Some(Login {
            name: name.to_owned(),
            password,
        }))
    }
}

/// Reads a line from standard input, which is not shown if that is a terminal.
fn ask_for_password() -> io::Result<String> {
    let input = io::stdin();
    let before = match input.is_terminal() {
        true => Some(termios::tcgetattr(&input)?),
        false => None,
    };
    if let Some(before) = &before {
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(&input, OptionalActions::Now, &hidden)?;
        let mut out = io::stderr();
        write!(out, "Password: ")?;
        out.flush()?;
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(before) = &before {
        termios::tcsetattr(&input, OptionalActions::Now, before)?;
        writeln!(io::stderr())?;
    }
    match read? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(user: Option<&str>, password: Option<&str>) -> UserArgs {
        UserArgs {
            user: user.map(str::to_owned),
            password: password.map(str::to_owned),
            known: Arc::default(),
        }
    }

    /// The user whom these name, where `asked` is typed if it is asked for.
    fn user(user: Option<&str>, password: Option<&str>) -> Option<(String, String)> {
        let found = args(user, password).user_by(|| Ok("asked".to_owned()));
        let found = found.expect("they make sense");
        found.map(|user| (user.name, user.password))
    }

    #[test]
    fn a_password_stands_behind_the_name_or_beside_it_or_is_asked_for() {
        let pair = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        for (given, password, expected) in [
            (None, None, None),
            (None, Some("unused"), None),
            (Some(""), None, None),
            (Some("root:secret"), None, pair("root", "secret")),
            (Some("root:a:b"), None, pair("root", "a:b")),
            (Some("root:"), None, pair("root", "")),
            (Some("root"), Some("a:b"), pair("root", "a:b")),
            (Some("root"), None, pair("root", "asked")),
        ] {
            assert_eq!(user(given, password), expected, "{given:?} {password:?}");
        }
        assert!(
            args(Some("root:x"), Some("y"))
                .user_by(|| Ok(String::new()))
                .is_err()
        );
        let nothing = || Err(io::ErrorKind::UnexpectedEof.into());
        assert!(args(Some("root"), None).user_by(nothing).is_err());
    }

    #[test]
    fn a_password_is_not_formatted() {
        let args = args(Some("root:hunter2"), Some("hunter2"));
        let user = Login {
            name: "root".to_owned(),
            password: "hunter2".to_owned(),
        };
        let said = format!("{args:?} {user:?}");
        assert!(!said.contains("hunter2"), "{said}");
        assert_eq!(header(&user), "Basic cm9vdDpodW50ZXIy");
    }
}
