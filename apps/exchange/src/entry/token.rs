//! The secret by which a participant proves who it is.

use std::fmt;
use std::hint;

/// The secret of a participant: a text, with zeros behind it. Nothing shows it.
#[derive(Clone, Copy, Default)]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// The bytes of a token, and the most characters of its text.
    pub const BYTES: usize = 32;

    /// The token of a text; `None` where it is too long, or has characters that cannot be seen.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Token> {
        let mut token = Token::default();
        let bytes = token.0.get_mut(..text.len())?;
        bytes.copy_from_slice(text.as_bytes());
        text.bytes()
            .all(|byte| byte.is_ascii_graphic())
            .then_some(token)
    }

    pub(crate) fn of_bytes(bytes: [u8; Token::BYTES]) -> Token {
        Token(bytes)
    }

    pub(crate) fn to_bytes(self) -> [u8; Token::BYTES] {
        self.0
    }
}

/// Takes as long wherever two tokens differ, so that nobody learns a token from how long a refusal takes.
impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let differing = pairs.fold(0, |differing, (one, two)| {
            hint::black_box(differing | (one ^ two))
        });
        differing == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
