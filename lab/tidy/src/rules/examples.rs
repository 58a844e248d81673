//! Examples in comments are run, and no time is spent where there are none: cargo reads a whole crate to look for them.

use crate::{Finding, Tree};

/// The words behind a fence by which rustdoc takes a block for Rust that it builds.
const BUILT: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];

/// Libraries whose manifest says otherwise than their comments whether examples are to be run.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.crates() {
        if tree.get(&format!("{folder}/src/lib.rs")).is_none() {
            continue;
        }
        let manifest = tree.get(&format!("{folder}/Cargo.toml"));
        let are_run = !manifest.unwrap_or_default().contains("doctest = false");
        let source = format!("{folder}/src/");
        let mut sources = tree.rust().filter(|(path, _)| path.starts_with(&source));
        let has_any = sources.any(|(_, text)| has_example(text));
        let detail = match (has_any, are_run) {
            (true, false) => "has examples in comments, and `doctest = false`",
            (false, true) => "has no examples in comments, and no `doctest = false`",
            _ => continue,
        };
        findings.push(Finding::once("examples", folder, detail.to_owned()));
    }
    findings
}

/// Whether a comment of a file holds Rust that is built.
fn has_example(text: &str) -> bool {
    let mut is_inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let said = line
            .strip_prefix("/// ")
            .or_else(|| line.strip_prefix("//! "));
        let Some(language) = said.and_then(|said| said.trim().strip_prefix("```")) else {
            continue;
        };
        let mut words = language.split(',');
        if !is_inside && words.any(|word| BUILT.contains(&word)) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_that_are_not_run_and_runs_without_examples_are_found() {
        let (off, on) = ("[lib]\ndoctest = false\n", "[package]\n");
        let text = "//! ```text\n//! a\n//! ```\npub fn f() {}\n";
        let example = "/// ```rust,no_run\n/// f();\n/// ```\npub fn f() {}\n";
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", off),
            ("crates/a/src/lib.rs", text),
            ("crates/b/Cargo.toml", on),
            ("crates/b/src/lib.rs", text),
            ("crates/c/Cargo.toml", off),
            ("crates/c/src/lib.rs", "mod d;"),
            ("crates/c/src/d.rs", example),
            ("crates/e/Cargo.toml", on),
            ("crates/e/src/lib.rs", example),
            ("lab/program/Cargo.toml", on),
            ("lab/program/src/main.rs", "fn main() {}"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|f| f.subject).collect();
        assert_eq!(found, ["crates/b", "crates/c"]);
    }
}
