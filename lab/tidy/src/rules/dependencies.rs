//! The product stands without the laboratory.

use crate::{Finding, Tree};

/// Crates of the product and of programs on it that depend on one of the laboratory, except for tests.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifest = |folder: &str| {
        tree.get(&format!("{folder}/Cargo.toml"))
            .unwrap_or_default()
    };
    let in_lab = tree.crates().filter(|folder| folder.starts_with("lab/"));
    let lab: Vec<&str> = in_lab
        .filter_map(|folder| package(manifest(folder)))
        .collect();
    let mut findings = Vec::new();
    for folder in tree.crates().filter(|folder| !folder.starts_with("lab/")) {
        for name in dependencies(manifest(folder)) {
            if lab.contains(&name) {
                let detail = format!("depends on {name}, which is of the laboratory");
                findings.push(Finding::once("wings", folder, detail));
            }
        }
    }
    findings
}

fn package(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("name = "))?;
    line.split('"').nth(1)
}

/// The names in every table of dependencies but that for tests.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut counts = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.contains("dependencies") && !line.contains("dev-dependencies");
        } else if counts {
            let end = line.find(['=', '.', ' ']).unwrap_or(line.len());
            names.push(&line[..end]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_crate_that_needs_the_laboratory_is_found() {
        let sim = "[package]\nname = \"quorate-sim\"\n";
        let host =
            "[package]\nname = \"quorate-host\"\n[dependencies]\nquorate-sim.workspace = true\n";
        let tests = "[package]\nname = \"quorate-etcd\"\n[dev-dependencies]\nquorate-sim = { path = \"x\" }\n";
        let tree = Tree::of(&[
            ("lab/sim/Cargo.toml", sim),
            ("crates/host/Cargo.toml", host),
            ("crates/etcd/Cargo.toml", tests),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|f| f.subject).collect();
        assert_eq!(found, ["crates/host"]);
    }
}
