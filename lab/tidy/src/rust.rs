//! As much of Rust as the rules need, read from text that rustfmt has formatted.

/// Whether a file holds tests alone.
pub(crate) fn is_test(path: &str) -> bool {
    let inside = path.split('/').skip(2);
    path.ends_with("/tests.rs")
        || inside
            .clone()
            .any(|part| matches!(part, "tests" | "benches" | "examples"))
}

/// A file without the test module at its end.
pub(crate) fn without_tests(text: &str) -> &str {
    let end = text
        .match_indices("#[cfg(test)]\nmod ")
        .find(|(at, _)| text[*at..].lines().nth(1).is_some_and(|l| l.ends_with('{')));
    end.map_or(text, |(at, _)| &text[..at])
}

/// A line without the comment at its end. What looks like a comment within a string is cut, too.
pub(crate) fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// The width of a line's indentation, in columns.
pub(crate) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A function: its name, and its first and last line, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Whether it is `pub`, without a restriction to a crate or module.
    pub(crate) is_public: bool,
}

/// All functions of a file that have a body, those within others included.
pub(crate) fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        if let Some(last) = last_line(&lines, first) {
            let is_public = line.trim_start().starts_with("pub ");
            functions.push(Function {
                name,
                first,
                last,
                is_public,
            });
        }
    }
    functions
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        let visibility = word == "pub" || word.starts_with("pub(");
        if word == "fn" {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(&after[..end]).filter(|name| !name.is_empty());
        }
        if !visibility && !matches!(word, "async" | "const" | "unsafe" | "in") {
            return None;
        }
        rest = after.strip_prefix("in ").unwrap_or(after);
    }
}

/// The line that closes an item that begins at a line, where it has a body.
pub(crate) fn last_line(lines: &[&str], first: usize) -> Option<usize> {
    let depth = indent(lines[first]);
    for (at, line) in lines.iter().enumerate().skip(first) {
        let code = without_comment(line).trim_end();
        if indent(line) == depth && code.ends_with(';') {
            return None;
        }
        let is_one_line = at == first && code.ends_with('}') && code.contains('{');
        let is_closing = at > first && indent(line) == depth && code.trim_start().starts_with('}');
        if is_one_line || is_closing {
            return Some(at);
        }
    }
    None
}

/// Every path in code that begins with `crate` or `super`, as its parts; groups in braces give a path for each member.
pub(crate) fn inner_paths(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut paths = Vec::new();
    let mut line_number = 0;
    let code: Vec<&str> = text.lines().map(without_comment).collect();
    let code = code.join("\n");
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let begins = rest.starts_with("crate::") || rest.starts_with("super::");
        let before = code[..at].chars().next_back();
        if begins && !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            let mut found = Vec::new();
            let taken = parse_path(rest, &mut Vec::new(), &mut found);
            paths.extend(found.into_iter().map(|path| (line_number, path)));
            line_number += rest[..taken].matches('\n').count();
            at += taken;
            continue;
        }
        let next = rest.chars().next().map_or(1, char::len_utf8);
        line_number += usize::from(rest.starts_with('\n'));
        at += next;
    }
    paths
}

/// Reads one path, and returns how many bytes it took.
fn parse_path(text: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let name_end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*')
            .unwrap_or(rest.len());
        if name_end > 0 {
            prefix.push(rest[..name_end].to_owned());
            at += name_end;
            if text[at..].starts_with("::") && !text[at..].starts_with("::<") {
                at += 2;
                continue;
            }
            found.push(prefix.clone());
        } else if rest.starts_with('{') {
            at += 1;
            while at < text.len() && !text[at..].starts_with('}') {
                let rest = &text[at..];
                if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                    at += parse_path(rest, prefix, found);
                } else {
                    at += rest.chars().next().map_or(1, char::len_utf8);
                }
            }
            at += 1;
        }
        prefix.truncate(depth);
        return at.max(1).min(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_names_to_their_braces() {
        let text = "impl A {\n    pub fn one() {}\n    pub(crate) fn two(\n        a: u8,\n    ) {\n        a;\n    }\n}\n\
                    trait B {\n    fn no_body();\n}\n";
        let found: Vec<_> = functions(text)
            .iter()
            .map(|f| (f.name, f.first, f.last, f.is_public))
            .collect();
        assert_eq!(found, [("one", 1, 1, true), ("two", 2, 6, false)]);
    }

    #[test]
    fn groups_of_imports_are_taken_apart() {
        let paths = inner_paths(
            "use crate::{\n    a::{B, c::D},\n    e,\n};\nlet x = super::f(1); // crate::g\n",
        );
        let joined: Vec<String> = paths.iter().map(|(_, path)| path.join("::")).collect();
        let expected = ["crate::a::B", "crate::a::c::D", "crate::e", "super::f"];
        assert_eq!(joined, expected);
    }

    #[test]
    fn test_modules_are_left_out() {
        let text = "mod a;\n#[cfg(test)]\nmod fuzz;\nfn b() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(
            without_tests(text),
            "mod a;\n#[cfg(test)]\nmod fuzz;\nfn b() {}\n"
        );
    }
}
