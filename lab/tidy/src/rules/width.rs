//! Lines fit a window: code by its own limit, pages by theirs.

use crate::{Finding, Tree};

/// The most columns of a line of code. rustfmt breaks code at 100, and neither comments nor strings.
const CODE_COLUMNS: usize = 120;
/// The most columns of a line of a page. Rows of tables and blocks of commands cannot be broken.
const PAGE_COLUMNS: usize = 160;

/// Lines that are wider than their kind of file allows.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let code = tree
        .files()
        .filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".sh"));
    let mut findings: Vec<Finding> = code
        .flat_map(|(path, text)| {
            let numbered = text.lines().enumerate();
            let long = numbered.filter(|(_, line)| line.chars().count() > CODE_COLUMNS);
            long.map(move |(at, _)| finding(path, at, CODE_COLUMNS))
        })
        .collect();
    for (path, text) in tree.pages() {
        let mut in_block = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            }
            let is_free = in_block || line.trim_start().starts_with('|');
            if !is_free && line.chars().count() > PAGE_COLUMNS {
                findings.push(finding(path, at, PAGE_COLUMNS));
            }
        }
    }
    findings
}

fn finding(path: &str, at: usize, most: usize) -> Finding {
    Finding::once(
        "line-width",
        path,
        format!("line {} has more than {most} columns", at + 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_found() {
        let wide = "x".repeat(PAGE_COLUMNS + 1);
        let page = format!("{wide}\n| {wide} |\n```sh\n{wide}\n```\n");
        let code = format!("// {}\n", "x".repeat(CODE_COLUMNS));
        let tree = Tree::of(&[("docs/a.md", &page), ("crates/a/src/lib.rs", &code)]);
        let found = check(&tree);
        let details: Vec<&str> = found.iter().map(|f| f.detail.as_str()).collect();
        assert_eq!(
            details,
            [
                "line 1 has more than 120 columns",
                "line 1 has more than 160 columns"
            ]
        );
    }
}
