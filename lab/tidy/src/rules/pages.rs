//! What a page names is there: paths, identifiers, flags, commands, packages, and what links lead to.

use crate::{Finding, Tree};
use std::collections::BTreeSet;

/// The rule's name.
const RULE: &str = "page-names";

/// Endings of file names; a span with one of them is a path.
const ENDINGS: [&str; 9] = [
    ".rs", ".md", ".toml", ".sh", ".txt", ".svg", ".json", ".proto", ".py",
];
/// Folders of the repository; a span that begins with one of them is a path.
const FOLDERS: [&str; 5] = ["apps/", "crates/", "lab/", "docs/", "scripts/"];
/// Programs of this repository, whose commands are checked.
const PROGRAMS: [&str; 2] = ["quorate", "quorate-lab"];
/// Commands that have commands of their own.
const PARENTS: [&str; 4] = ["bench", "cluster", "log", "sim"];

/// What pages name and what is not there.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let known = Known::of(tree);
    let mut findings = Vec::new();
    for (path, text) in tree.pages() {
        let text = match path {
            "CHANGELOG.md" => newest(text),
            _ => text,
        };
        let mut missing = Vec::new();
        let page = Page::of(text);
        for span in &page.spans {
            missing.extend(known.missing_of_span(span));
        }
        for command in &page.commands {
            missing.extend(known.missing_of_command(command));
        }
        for link in &page.links {
            missing.extend(known.missing_of_link(path, link));
        }
        findings.extend(
            missing
                .into_iter()
                .map(|missing| Finding::once(RULE, path, format!("{missing} is not there"))),
        );
    }
    findings
}

/// The newest part of a changelog: up to the second heading of a version.
fn newest(text: &str) -> &str {
    let second = text.match_indices("\n## ").nth(1);
    second.map_or(text, |(at, _)| &text[..at])
}

/// What a page names.
#[derive(Default)]
struct Page<'a> {
    /// What stands between backticks.
    spans: Vec<String>,
    /// Lines of blocks of `sh`.
    commands: Vec<String>,
    /// Targets of links.
    links: Vec<&'a str>,
}

impl<'a> Page<'a> {
    fn of(text: &'a str) -> Self {
        let mut page = Page::default();
        for (number, part) in text.split("```").enumerate() {
            if number % 2 == 0 {
                let spans = part.split('`').skip(1).step_by(2);
                let spans = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
                page.spans.extend(spans);
                let links = part.split("](").skip(1);
                page.links
                    .extend(links.filter_map(|link| link.split(')').next()));
            } else if let Some(script) = part.strip_prefix("sh\n") {
                let script = script.replace("\\\n", " ");
                page.commands.extend(script.lines().map(|line| {
                    let end = line.find(" #").unwrap_or(line.len());
                    line[..end].trim().to_owned()
                }));
            }
        }
        page
    }
}

/// What there is to be named.
struct Known<'a> {
    tree: &'a Tree,
    /// Words of sources, each with `_` for `-`.
    words: BTreeSet<String>,
    packages: BTreeSet<String>,
}

impl<'a> Known<'a> {
    fn of(tree: &'a Tree) -> Self {
        let mut words = BTreeSet::new();
        let mut packages = BTreeSet::new();
        for (path, text) in tree.files() {
            if path.ends_with(".md") || path.ends_with(".svg") || path.ends_with(".lock") {
                continue;
            }
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            for word in text.split(|c| !is_word(c)).filter(|word| word.len() > 1) {
                let word = word.trim_start_matches('-').replace('-', "_");
                if !words.contains(&word) {
                    words.insert(word);
                }
            }
            if path.ends_with("Cargo.toml") {
                let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
                packages.extend(name.map(|name| name.trim_end_matches('"').to_owned()));
            }
        }
        Known {
            tree,
            words,
            packages,
        }
    }

    fn has_word(&self, word: &str) -> bool {
        word.len() < 2 || self.words.contains(&word.replace('-', "_"))
    }

    /// Whether a path, or its end, is one of the repository. `*` stands for one part, `**` for any.
    fn has_path(&self, path: &str) -> bool {
        let path = path.trim_start_matches("../").trim_start_matches("./");
        let pattern: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is_folder = path.ends_with('/') || !ENDINGS.iter().any(|end| path.ends_with(end));
        self.tree.files().any(|(file, _)| {
            let parts: Vec<&str> = file.split('/').collect();
            (0..parts.len()).any(|from| matches(&parts[from..], &pattern, is_folder))
        })
    }

    fn missing_of_span(&self, span: &str) -> Vec<String> {
        let first = span.split(' ').next().unwrap_or_default();
        if PROGRAMS.contains(&first) || first == "cargo" || first.starts_with("scripts/") {
            return self.missing_of_command(span);
        }
        let name = first.trim_end_matches([':', ',']);
        if let Some(flag) = name.strip_prefix("--") {
            let flag = flag.split('=').next().unwrap_or_default();
            return one_missing(span, self.has_word(flag));
        }
        if span.contains(' ') {
            return Vec::new();
        }
        let path = name.split("::").next().unwrap_or_default();
        let is_path = (FOLDERS.iter().any(|folder| path.starts_with(folder))
            || ENDINGS.iter().any(|end| path.ends_with(end)))
            && path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-./*".contains(c))
            && ENDINGS.iter().all(|end| path != *end);
        if is_path {
            return one_missing(span, self.has_path(path));
        }
        let called = name.strip_suffix("()");
        let identifier = called.unwrap_or(name);
        let is_identifier = identifier
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        // Names of the operating system are of neither kind.
        let is_constant = !identifier.contains(|c: char| c.is_ascii_lowercase() || c == ':');
        let tells = called.is_some() || identifier.contains("::") || identifier.contains('_');
        if is_identifier && tells && !is_constant {
            let known = identifier.split("::").all(|part| self.has_word(part));
            return one_missing(span, known);
        }
        Vec::new()
    }

    fn missing_of_command(&self, command: &str) -> Vec<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let Some(first) = words.first() else {
            return Vec::new();
        };
        let mut missing = Vec::new();
        let mut require =
            |what: String, is_there: bool| missing.extend(one_missing(&what, is_there));
        let after = |flag: &str| {
            let at = words.iter().position(|word| *word == flag)?;
            words.get(at + 1).copied()
        };
        if first.starts_with("scripts/") {
            require((*first).to_owned(), self.tree.get(first).is_some());
        }
        if *first == "cargo" {
            for package in words
                .iter()
                .zip(&words[1..])
                .filter(|(flag, _)| **flag == "-p")
            {
                require(
                    format!("package {}", package.1),
                    self.packages.contains(*package.1),
                );
            }
            for flag in ["--example", "--bench", "--test"] {
                if let Some(target) = after(flag) {
                    let path = format!("{target}.rs");
                    let is_there =
                        self.has_path(&path) || self.has_path(&format!("{target}/main.rs"));
                    require(format!("{flag} {target}"), is_there);
                }
            }
        }
        if PROGRAMS.contains(first) {
            let named = words.iter().skip(1);
            for (at, word) in named.take(2).enumerate() {
                let is_command = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                if !is_command || word.starts_with('-') || (at == 1 && !PARENTS.contains(&words[1]))
                {
                    break;
                }
                require(
                    format!("command {word} of {first}"),
                    self.has_word(&camel(word)),
                );
            }
        }
        missing
    }

    fn missing_of_link(&self, page: &str, link: &str) -> Vec<String> {
        if link.contains("://") || link.contains(' ') {
            return Vec::new();
        }
        let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = match target {
            "" => page.to_owned(),
            _ => resolve(page, target),
        };
        let folder = format!("{}/", path.trim_end_matches('/'));
        let is_folder = self.tree.files().any(|(file, _)| file.starts_with(&folder));
        let has_heading = |text: &str| {
            let headings = text.lines().filter(|line| line.starts_with('#'));
            anchor.is_empty() || headings.map(slug).any(|heading| heading == anchor)
        };
        let is_there = is_folder || self.tree.get(&path).is_some_and(has_heading);
        one_missing(link, is_there)
    }
}

fn one_missing(what: &str, is_there: bool) -> Vec<String> {
    match is_there {
        true => Vec::new(),
        false => vec![format!("`{what}`")],
    }
}

/// Whether the parts of a path fit a pattern, to its end or, for a folder, to any depth.
fn matches(parts: &[&str], pattern: &[&str], is_folder: bool) -> bool {
    match (parts.split_first(), pattern.split_first()) {
        (_, None) => is_folder || parts.is_empty(),
        (None, Some(_)) => false,
        (Some((_, parts_left)), Some((&"**", pattern_left))) => {
            matches(parts, pattern_left, is_folder) || matches(parts_left, pattern, is_folder)
        }
        (Some((part, parts_left)), Some((wanted, pattern_left))) => {
            part_fits(part, wanted) && matches(parts_left, pattern_left, is_folder)
        }
    }
}

fn part_fits(part: &str, wanted: &str) -> bool {
    match wanted.split_once('*') {
        None => part == wanted,
        Some((start, end)) => {
            part.len() >= start.len() + end.len() && part.starts_with(start) && part.ends_with(end)
        }
    }
}

/// A link's target as a path from the root.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchor of a heading, as GitHub makes it.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The name of a command's variant: `force-new` is `ForceNew`.
fn camel(command: &str) -> String {
    let parts = command.split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_uppercase() + rest
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("docs/guide/b.md", "# Two words\n"),
            ("scripts/run.sh", "exit"),
            (
                "crates/host/Cargo.toml",
                "[package]\nname = \"quorate-host\"\n",
            ),
            (
                "crates/host/src/log/mod.rs",
                "fn turn() {}\nenum Command { Serve, ForceNew, Cluster }\nstruct Log { patience_ms: u8 }\n",
            ),
        ]);
        check(&tree).into_iter().map(|f| f.detail).collect()
    }

    #[test]
    fn what_is_there_is_not_told() {
        let page = "`log/mod.rs`, `crates/*/src/log/`, `Log::turn`, `turn()`, `--patience-ms`, `quorate serve`, \
                    [b](guide/b.md#two-words), `cargo test -p quorate-host`, `scripts/run.sh`\n\
                    ```sh\nquorate cluster force-new --into x   # a comment\n```\n";
        assert!(missing(page).is_empty(), "{:?}", missing(page));
    }

    #[test]
    fn what_is_not_there_is_told() {
        let page = "`log/gone.rs` `lab/gone/` `Log::gone` `gone()` `--gone` `quorate gone` [c](guide/gone.md) \
                    [b](guide/b.md#gone) `cargo test -p gone` `scripts/gone.sh`\n```sh\nquorate cluster gone\n```\n";
        assert_eq!(missing(page).len(), 11, "{:?}", missing(page));
    }

    #[test]
    fn of_a_changelog_the_newest_part_counts() {
        let text = "# Changelog\n\n## 2\n\n`a`\n\n## 1\n\n`b`\n";
        assert_eq!(newest(text), "# Changelog\n\n## 2\n\n`a`\n");
    }
}
