//! Files and functions are seen at a glance.

use crate::{Finding, Tree, rust};

/// The most lines of a file.
const FILE_LINES: usize = 500;
/// The most lines of a function, from its name to its last brace.
const FUNCTION_LINES: usize = 70;

/// Files above [`FILE_LINES`].
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let lengths = tree
        .rust()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES);
    lengths
        .map(|(path, lines)| Finding {
            rule: "file-length",
            subject: path.to_owned(),
            amount: lines,
            detail: format!("{lines} lines, at most {FILE_LINES}"),
        })
        .collect()
}

/// Functions above [`FUNCTION_LINES`].
pub(super) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        for function in rust::functions(text) {
            let lines = function.last - function.first + 1;
            if lines > FUNCTION_LINES {
                findings.push(Finding {
                    rule: "function-length",
                    subject: format!("{path}:{}", function.name),
                    amount: lines,
                    detail: format!(
                        "{lines} lines from line {}, at most {FUNCTION_LINES}",
                        function.first + 1
                    ),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_functions_are_found() {
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(FUNCTION_LINES));
        let file = "// A line.\n".repeat(FILE_LINES);
        let most = format!(
            "fn most() {{\n{}}}\n",
            "    x();\n".repeat(FUNCTION_LINES - 2)
        );
        let tree = Tree::of(&[
            ("crates/a/src/function.rs", &long),
            ("crates/a/src/file.rs", &format!("{file}// One more.\n")),
            ("crates/a/src/fits.rs", &file),
            ("crates/a/src/most.rs", &most),
        ]);
        let found: Vec<_> = files(&tree).into_iter().map(|f| f.subject).collect();
        assert_eq!(found, ["crates/a/src/file.rs"]);
        let found: Vec<_> = functions(&tree).into_iter().map(|f| f.subject).collect();
        assert_eq!(found, ["crates/a/src/function.rs:long"]);
    }
}
