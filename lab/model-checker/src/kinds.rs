//! Kinds of messages and timers, by name.

use std::fmt;

/// Whether something is of a kind, by the first word of its name.
pub(crate) fn is_kind(what: &impl fmt::Debug, kind: &str) -> bool {
    let mut word = FirstWord {
        left: kind,
        is_it: true,
    };
    // It stops writing after the first word.
    let _ = fmt::write(&mut word, format_args!("{what:?}"));
    word.is_it && word.left.is_empty()
}

/// Compares the first word written with one that is expected.
struct FirstWord<'a> {
    left: &'a str,
    is_it: bool,
}

impl fmt::Write for FirstWord<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find(|c: char| !c.is_alphanumeric());
        let word = &text[..end.unwrap_or(text.len())];
        match self.left.strip_prefix(word) {
            Some(left) => self.left = left,
            None => self.is_it = false,
        }
        if end.is_some() || !self.is_it {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_kind;

    #[test]
    fn a_kind_is_the_first_word_of_what_is_written() {
        assert!(is_kind(&Some(3), "Some"));
        assert!(!is_kind(&Some(3), "So"));
        assert!(!is_kind(&Some(3), "Somebody"));
        assert!(!is_kind(&None::<u8>, "Some"));
    }
}
