//! Requests as people type them: words on a line, some of them in quotation marks.

use bytes::Bytes;

/// The words of a line; `None` if a quotation does not end, or something else than a space follows it.
///
/// Within double quotation marks a backslash begins `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH`; within single ones it
/// keeps a single one from ending the word.
#[must_use]
pub fn split_words(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut words = Vec::new();
    let mut rest = skip_spaces(line);
    // To C a line ends where a zero is.
    while !matches!(rest, [] | [0, ..]) {
        let mut word = Vec::new();
        rest = skip_spaces(take_word(rest, &mut word)?);
        words.push(word.into());
    }
    Some(words)
}

/// Takes a word off the front of a line.
fn take_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', quoted @ ..] => {
                let rest = take_double_quoted(quoted, word)?;
                return is_at_end(rest).then_some(rest);
            }
            [b'\'', quoted @ ..] => {
                let rest = take_single_quoted(quoted, word)?;
                return is_at_end(rest).then_some(rest);
            }
            [byte, after @ ..] if !is_space(*byte) && *byte != 0 => {
                word.push(*byte);
                after
            }
            _ => return Some(rest),
        }
    }
}

fn take_double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] | [0, ..] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(16 * hex(*high) + hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        }
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] | [0, ..] => return None,
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        }
    }
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    &line[spaces..]
}

/// Whether nothing follows, or a space.
fn is_at_end(rest: &[u8]) -> bool {
    rest.first()
        .is_none_or(|byte| is_space(*byte) || *byte == 0)
}

/// Whether a byte is a space to C.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        let words = split_words(line.as_bytes())?;
        Some(words.iter().map(|word| word.to_vec()).collect())
    }

    #[test]
    fn words_stand_between_spaces_or_in_quotation_marks() {
        for (line, expected) in [
            ("", &[][..]),
            ("  \t \x0b", &[]),
            ("\0", &[]),
            ("a\0b c", &["a"]),
            ("set a 1", &["set", "a", "1"]),
            ("  set\ta  1 ", &["set", "a", "1"]),
            (r#"set a "b c""#, &["set", "a", "b c"]),
            (r#"set a "" ''"#, &["set", "a", "", ""]),
            (r#"a"b c""#, &["ab c"]),
            (r#""\n\r\t\b\a\\\"\x41\xzz""#, &["\n\r\t\x08\x07\\\"Axzz"]),
            (r"'a\'b\n'", &[r"a'b\n"]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect();
            assert_eq!(words(line), Some(expected), "{line}");
        }
        let bytes = split_words(br#""\xff\x00""#);
        assert_eq!(bytes, Some(vec![Bytes::from_static(&[0xff, 0])]));
    }

    #[test]
    fn quotations_that_do_not_end_are_refused() {
        for line in ["\"a", "'a", "\"a\"b", "'a'b", r#""a\""#, r"'a\'"] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
