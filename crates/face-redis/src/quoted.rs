//! Texts in JSON.

/// A text of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for symbol in text.chars() {
        match symbol {
            '"' | '\\' => out.extend(['\\', symbol]),
            symbol if symbol.is_control() => out.push(' '),
            symbol => out.push(symbol),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_json_end_where_they_end() {
        assert_eq!(quoted("a \"b\" \\ c\n"), r#""a \"b\" \\ c ""#);
    }
}
