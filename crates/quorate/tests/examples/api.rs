//! The page of everything public says what the sources say.

use std::fs;
use std::path::Path;

/// What the name of something public comes after.
const KINDS: [&str; 7] = [
    "pub fn ",
    "pub const fn ",
    "pub async fn ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
];

/// The row of a source file: the names of what is public in it, in order.
fn row(name: &str, source: &str) -> Option<String> {
    let names = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = KINDS.iter().find_map(|kind| line.strip_prefix(kind))?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        Some(format!("`{}`", &rest[..end]))
    });
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| format!("| `{name}` | {} |", names.join(", ")))
}

#[test]
fn nothing_is_public_that_the_page_does_not_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = root.join("../../docs/reference/embed-api.md");
    let page = fs::read_to_string(page).unwrap();
    let mut expected = Vec::new();
    for entry in fs::read_dir(root.join("src")).unwrap() {
        let path = entry.unwrap().path();
        let source = match path.is_dir() {
            true => path.join("mod.rs"),
            false => path.clone(),
        };
        let name = path.file_stem().unwrap().to_string_lossy();
        if let Ok(source) = fs::read_to_string(source) {
            expected.extend(row(&name, &source));
        }
    }
    let testing = fs::read_to_string(root.join("../../lab/testing/src/lib.rs")).unwrap();
    expected.extend(row("testing", &testing));
    expected.sort_unstable();
    let listed: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(listed, expected, "docs/reference/embed-api.md");
}
