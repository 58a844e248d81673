//! The tokens of participants, from a file that nobody else can read.

use crate::book::ParticipantId;
use crate::entry::Token;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The fewest characters of a token.
const CHARACTERS_MIN: usize = 8;
/// The most bytes of a file of tokens.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Who may log in with what.
#[derive(Clone, Debug, Default)]
pub struct Tokens(BTreeMap<ParticipantId, Token>);

impl Tokens {
    /// Reads a file with a line for each participant: its number and its token. What follows a `#` at the beginning of
    /// a line is left out.
    ///
    /// # Errors
    /// What is wrong with the file, without its secrets.
    pub fn read(path: &Path) -> Result<Tokens, String> {
        let about = |what: &str| format!("the tokens in {}: {what}", path.display());
        let file = fs::File::open(path).map_err(|error| about(&error.to_string()))?;
        let metadata = file.metadata().map_err(|error| about(&error.to_string()))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(about(&format!(
                "others can read them (mode {mode:o}): chmod 600"
            )));
        }
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| about(&error.to_string()))?;
        Tokens::parse(&text).map_err(|(line, what)| about(&format!("line {line}: {what}")))
    }

    fn parse(text: &str) -> Result<Tokens, (usize, &'static str)> {
        let mut tokens = Tokens::default();
        for (line, words) in (1..).zip(text.lines().map(str::trim)) {
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let (number, token) = words
                .split_once(' ')
                .ok_or((line, "it has no number and a token"))?;
            let number = number
                .parse()
                .map_err(|_| (line, "it begins with no number of a participant"))?;
            let token = Some(token.trim()).filter(|token| token.len() >= CHARACTERS_MIN);
            let token = token.and_then(Token::of_text);
            let token = token.ok_or((
                line,
                "a token has 8 to 32 characters that can be seen, without spaces",
            ))?;
            if tokens.0.insert(ParticipantId(number), token).is_some() {
                return Err((line, "the participant has a token already"));
            }
        }
        Ok(tokens)
    }

    /// Whether a token is that of a participant.
    #[must_use]
    pub fn admits(&self, participant: ParticipantId, token: Token) -> bool {
        // Whether there is such a participant takes as long as any comparison.
        let expected = self.0.get(&participant).copied();
        let is_equal = expected.unwrap_or_default() == token;
        is_equal && expected.is_some()
    }

    /// The token of a participant; an empty one where it has none.
    #[must_use]
    pub fn of(&self, participant: ParticipantId) -> Token {
        self.0.get(&participant).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn each_participant_has_its_own_token() {
        let tokens = Tokens::parse("# participants\n\n3  long-enough\n4 other-token\n").unwrap();
        let token = |text| Token::of_text(text).unwrap();
        assert!(tokens.admits(ParticipantId(3), token("long-enough")));
        for (participant, text) in [
            (3, "other-token"),
            (3, ""),
            (3, "long-enough!"),
            (5, ""),
            (5, "long-enough"),
        ] {
            assert!(
                !tokens.admits(ParticipantId(participant), token(text)),
                "{participant} {text}"
            );
        }
        assert_eq!(
            format!("{tokens:?}"),
            "Tokens({ParticipantId(3): Token, ParticipantId(4): Token})"
        );
    }

    #[test]
    fn a_line_that_is_wrong_is_named_without_its_secret() {
        for (text, line) in [
            ("3", 1),
            ("# first\nx secret-token", 2),
            ("3 short", 1),
            ("3 with space-in-it", 1),
            ("3 0123456789012345678901234567890123", 1),
            ("3 long-enough\n3 long-enough", 2),
        ] {
            let (found, what) = Tokens::parse(text).unwrap_err();
            assert_eq!(found, line, "{text}");
            assert!(!what.contains("secret"), "{what}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, "3 long-enough\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let refused = Tokens::read(&path).unwrap_err();
        assert!(
            refused.ends_with("others can read them (mode 640): chmod 600"),
            "{refused}"
        );
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(Tokens::read(&path).is_ok());
    }
}
