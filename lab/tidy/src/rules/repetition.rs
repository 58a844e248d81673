//! Protocols do not repeat each other.

use crate::{Finding, Tree, rust};
use std::collections::{BTreeMap, BTreeSet};

/// Where protocols are, a folder each.
const PROTOCOLS: &str = "crates/protocols/src/";
/// Folders there that belong to all protocols.
const COMMON: [&str; 2] = ["shared", "registry"];
/// How many lines one after the other are repeated if two protocols have them; fewer may be chance.
const RUN: usize = 3;
/// The most lines of all protocols, in thousandths, that may be repeated.
const SHARE_MAX: usize = 70;

/// Lines that more than one protocol has, if they are too large a share of all.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, &str, Vec<&str>)> = tree
        .rust()
        .filter_map(|(path, text)| Some((protocol(path)?, path, lines(text))))
        .collect();
    let mut protocols_with: BTreeMap<&[&str], BTreeSet<&str>> = BTreeMap::new();
    for (protocol, _, lines) in &files {
        for run in lines.windows(RUN) {
            protocols_with.entry(run).or_default().insert(protocol);
        }
    }
    let mut repeated_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, path, lines) in &files {
        let mut is_repeated = vec![false; lines.len()];
        for (at, run) in lines.windows(RUN).enumerate() {
            if protocols_with[run].len() > 1 {
                is_repeated[at..at + RUN].fill(true);
            }
        }
        repeated_of.insert(path, is_repeated.iter().filter(|is| **is).count());
    }
    let all: usize = files.iter().map(|(_, _, lines)| lines.len()).sum();
    let repeated: usize = repeated_of.values().sum();
    let share = repeated * 1000 / all.max(1);
    if share <= SHARE_MAX {
        return Vec::new();
    }
    let mut most: Vec<(&str, usize)> = repeated_of.into_iter().collect();
    most.sort_by_key(|(_, repeated)| usize::MAX - repeated);
    let most = most.iter().take(5);
    let most: Vec<String> = most
        .map(|(path, count)| format!("{path} {count}"))
        .collect();
    vec![Finding {
        rule: "repetition",
        subject: PROTOCOLS.to_owned(),
        amount: share,
        detail: format!(
            "{repeated} of {all} lines of protocols are those of another one, {share} of a thousand, at most \
             {SHARE_MAX}; most in {}",
            most.join(", ")
        ),
    }]
}

/// The protocol that a file is about, unless it holds tests or is for all of them.
fn protocol(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_prefix(PROTOCOLS)?.split_once('/')?;
    let is_about_one = !COMMON.contains(&folder) && !rust::is_test(path);
    is_about_one.then_some(folder)
}

/// The lines of a file that say something: no comments, imports, modules and lone brackets, and no tests.
fn lines(text: &str) -> Vec<&str> {
    let mut is_import = false;
    let lines = rust::without_tests(text).lines().map(str::trim);
    lines
        .filter(|line| {
            let word = line.strip_prefix("pub ").unwrap_or(line);
            let word = word.strip_prefix("pub(crate) ").unwrap_or(word);
            let word = word.strip_prefix("pub(super) ").unwrap_or(word);
            let was_import = is_import;
            is_import |= word.starts_with("use ") || word.starts_with("mod ");
            let is_left_out = was_import || is_import;
            is_import &= !line.ends_with(';');
            !is_left_out && !line.starts_with("//") && line.contains(char::is_alphanumeric)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str =
        "use a::{\n    b,\n};\nfn one() {\n    two();\n    // Why.\n    three();\n}\n";

    #[test]
    fn what_two_protocols_have_is_found() {
        let tree = Tree::of(&[
            ("crates/protocols/src/a/x.rs", THREE),
            ("crates/protocols/src/b/y.rs", THREE),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].detail.starts_with("6 of 6 lines"),
            "{}",
            found[0].detail
        );
    }

    #[test]
    fn what_one_protocol_has_twice_or_a_test_and_two_lines_are_no_repetition() {
        let two = "fn one() {\n    two();\n    four();\n}\n";
        let tree = Tree::of(&[
            ("crates/protocols/src/a/x.rs", THREE),
            ("crates/protocols/src/a/z.rs", THREE),
            ("crates/protocols/src/b/tests/y.rs", THREE),
            ("crates/protocols/src/b/y.rs", two),
            ("crates/protocols/src/shared/y.rs", THREE),
        ]);
        assert_eq!(check(&tree), Vec::new());
    }
}
