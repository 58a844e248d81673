//! A user's name and password, as commands are told them.

use std::fmt;

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub name: String,
    /// The password, which no output shows.
    pub password: String,
}

impl Login {
    /// Reads a name and a password with a colon between them.
    ///
    /// # Errors
    /// A text without a colon, or with nothing before it.
    pub fn parse(text: &str) -> Result<Login, String> {
        match text.split_once(':') {
            Some((name, password)) if !name.is_empty() => Ok(Login {
                name: name.to_owned(),
                password: password.to_owned(),
            }),
            _ => Err("must be a user's name, a colon and the password".to_owned()),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_name_and_a_password_that_nothing_shows() {
        let login = Login::parse("anna:a:b").unwrap();
        assert_eq!((&*login.name, &*login.password), ("anna", "a:b"));
        assert_eq!(format!("{login:?}"), "Login { name: \"anna\", .. }");
        for wrong in ["", "anna", ":secret"] {
            assert!(Login::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
