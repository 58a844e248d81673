//! Doc lines stand alone: they make sense on hover, in search results, and after the lines around them moved.

use crate::{Finding, Tree};

/// The fewest words of a doc comment.
const FEWEST_WORDS: usize = 3;

/// How doc lines begin that lean on what stands beside them.
const LEANING: [&str; 25] = [
    "The same",
    "As above",
    "As below",
    "As there",
    "As before",
    "Likewise",
    "Ditto",
    "Which",
    "Whom",
    "Whose",
    "Their",
    "Those",
    "Them",
    "They",
    "It",
    "Its",
    "And",
    "But",
    "So",
    "Such",
    "What it",
    "The other",
    "The others",
    "The former",
    "The latter",
];

/// Doc comments that lean on their neighbours, or say too little.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        for (line, paragraph) in first_paragraphs(text) {
            let leaning = LEANING.iter().find(|start| begins_with(&paragraph, start));
            if let Some(start) = leaning {
                let detail = format!("line {line} leans on its neighbours: \"{start} ...\"");
                findings.push(Finding::once("doc-leans", path, detail));
            } else if paragraph.split_whitespace().count() < FEWEST_WORDS {
                let detail = format!("line {line} says too little: \"{paragraph}\"");
                findings.push(Finding::once("doc-words", path, detail));
            }
        }
    }
    findings
}

fn begins_with(paragraph: &str, start: &str) -> bool {
    let rest = paragraph.strip_prefix(start);
    rest.is_some_and(|rest| {
        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '\'')
    })
}

/// The first paragraph of each doc comment, and the line where it begins, from 1.
fn first_paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs = Vec::new();
    let mut current: Option<(usize, String, bool)> = None;
    for (at, line) in text.lines().chain(std::iter::once("")).enumerate() {
        let doc = line
            .trim_start()
            .strip_prefix("///")
            .or_else(|| line.trim_start().strip_prefix("//!"));
        match (doc, &mut current) {
            (Some(words), None) => current = Some((at + 1, words.trim().to_owned(), true)),
            (Some(words), Some((_, paragraph, open))) => {
                *open &= !words.trim().is_empty();
                if *open {
                    paragraph.push(' ');
                    paragraph.push_str(words.trim());
                }
            }
            (None, Some(_)) => {
                paragraphs.extend(current.take().map(|(at, paragraph, _)| (at, paragraph)));
            }
            (None, None) => {}
        }
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_lines_that_lean_or_say_too_little_are_found() {
        let code = "/// Which.\nfn a() {}\n/// The same for reads.\nfn b() {}\n/// A queue.\nfn c() {}\n\
                    /// Itinerary of a\n/// frame.\nfn d() {}\n/// Theirs.\nfn e() {}\n";
        let found = check(&Tree::of(&[("crates/a/src/lib.rs", code)]));
        let found: Vec<_> = found.iter().map(|f| (f.rule, f.detail.as_str())).collect();
        assert_eq!(
            found,
            [
                ("doc-leans", "line 1 leans on its neighbours: \"Which ...\""),
                (
                    "doc-leans",
                    "line 3 leans on its neighbours: \"The same ...\""
                ),
                ("doc-words", "line 5 says too little: \"A queue.\""),
                ("doc-words", "line 10 says too little: \"Theirs.\""),
            ]
        );
    }
}
