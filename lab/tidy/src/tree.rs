//! The files of a repository as text.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where crates are: programs on the product, the product, and the laboratory.
const WINGS: [&str; 3] = ["apps/", "crates/", "lab/"];

/// Folders that hold no source.
const SKIPPED: [&str; 3] = ["target", ".git", "quorate-data"];

/// Every file by its path from the root, with `/` between folders. Files that are no text have an empty one.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

/// The root of this repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Tree {
    /// Reads all files below a folder.
    ///
    /// # Errors
    ///
    /// A folder or file that cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default();
                if path.is_dir() {
                    if !SKIPPED.iter().any(|skipped| name == *skipped) {
                        folders.push(path);
                    }
                } else {
                    let relative = path.strip_prefix(root).unwrap_or(&path);
                    let text = String::from_utf8(fs::read(&path)?).unwrap_or_default();
                    files.insert(relative.to_string_lossy().replace('\\', "/"), text);
                }
            }
        }
        Ok(Tree { files })
    }

    /// A tree of paths and texts, for tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let owned = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Tree {
            files: owned.collect(),
        }
    }

    /// The text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All paths with their texts, in order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files of all crates.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files()
            .filter(|(path, _)| path.ends_with(".rs"))
            .filter(|(path, _)| is_in_wing(path))
    }

    /// The pages for people: README, CHANGELOG, CONTRIBUTING, and everything below `docs/`.
    pub fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files()
            .filter(|(path, _)| path.ends_with(".md"))
            .filter(|(path, _)| path.starts_with("docs/") || !path.contains('/'))
    }

    /// The folders of crates below `apps/`, `crates/` and `lab/`, such as `crates/host`.
    pub fn crates(&self) -> impl Iterator<Item = &str> {
        self.files()
            .filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"))
            .filter(|folder| is_in_wing(folder))
    }
}

fn is_in_wing(path: &str) -> bool {
    WINGS.iter().any(|wing| path.starts_with(wing))
}
