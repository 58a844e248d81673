//! Where the values end in JSON that comes in pieces.

/// Follows a sequence of JSON objects. Each byte is looked at once, however the pieces are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueEnds {
    /// Brackets that are open.
    depth: usize,
    is_in_text: bool,
    /// The last byte was a backslash within a text.
    is_escaped: bool,
}

impl ValueEnds {
    /// Follows these bytes, which come next, through the end of the present value. Says how many they are if its end is
    /// among them. What is no object is one byte long, so that whoever decodes it refuses it.
    pub fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.ends_with(*byte) {
                return Some(at + 1);
            }
        }
        None
    }

    /// Whether a value has begun and is not complete.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.depth > 0
    }

    fn ends_with(&mut self, byte: u8) -> bool {
        if self.is_in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'{' => self.depth += 1,
            _ if self.depth == 0 => return !byte.is_ascii_whitespace(),
            b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                return self.depth == 0;
            }
            b'"' => self.is_in_text = true,
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a text that comes in pieces of this many bytes, without white space around them.
    fn values(text: &str, piece_bytes: usize) -> Vec<String> {
        let mut ends = ValueEnds::default();
        let mut values = vec![String::new()];
        for mut piece in text.as_bytes().chunks(piece_bytes) {
            while !piece.is_empty() {
                let end = ends.next(piece);
                let (head, rest) = piece.split_at(end.unwrap_or(piece.len()));
                let value = values.last_mut().expect("there is one");
                value.extend(head.iter().map(|byte| char::from(*byte)));
                if end.is_some() {
                    values.push(String::new());
                }
                piece = rest;
            }
        }
        let trimmed = values.iter().map(|value| value.trim().to_owned());
        trimmed.filter(|value| !value.is_empty()).collect()
    }

    #[test]
    fn values_are_told_apart_whatever_is_in_them() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            (" {} \n{\"a\":{}}", &["{}", "{\"a\":{}}"]),
            (
                r#"{"a":"}\"{"}{"b":[{},["]"]]}"#,
                &[r#"{"a":"}\"{"}"#, r#"{"b":[{},["]"]]}"#],
            ),
            ("{}v{", &["{}", "v", "{"]),
            (r#"{"a":"\\"}{"#, &[r#"{"a":"\\"}"#, "{"]),
            ("[{}]", &["[", "{}", "]"]),
        ];
        for (text, expected) in cases {
            for piece_bytes in 1..=text.len().max(1) {
                assert_eq!(
                    values(text, piece_bytes),
                    expected,
                    "{text} by {piece_bytes}"
                );
            }
        }
    }
}
