//! The modules of a crate have an order, and import only from modules that stand before them.

use crate::{Finding, Tree, rust};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The rule's name.
const RULE: &str = "module-order";

/// The declared orders: for each folder of a crate's source, its modules, from those that import nothing on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders(BTreeMap<String, Vec<String>>);

/// One crate's modules and what they import from each other.
struct Crate<'a> {
    folder: String,
    modules: BTreeSet<&'a str>,
    imports: Vec<Import<'a>>,
}

/// A module names something of another module of its crate.
struct Import<'a> {
    path: &'a str,
    /// The line of the file, from 1.
    line: usize,
    by: &'a str,
    from: &'a str,
}

impl Orders {
    /// Reads folders, each with its modules indented below it, one a line.
    pub fn parse(text: &str) -> Self {
        let mut orders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut folder = String::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if !line.starts_with(' ') {
                line.trim().clone_into(&mut folder);
            } else {
                let modules = orders.entry(folder.clone()).or_default();
                modules.push(line.trim().to_owned());
            }
        }
        Orders(orders)
    }

    /// The text that [`Orders::parse`] reads.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# The order of modules in each crate: a module imports only from modules above it (quorate-tidy).\n",
        );
        for (folder, modules) in &self.0 {
            writeln!(text, "{folder}").expect("strings take everything");
            for module in modules {
                writeln!(text, "  {module}").expect("strings take everything");
            }
        }
        text
    }

    /// An order for each crate that few imports are against.
    pub fn suggest(tree: &Tree) -> Self {
        let orders = crates(tree).into_iter().filter(|c| c.modules.len() > 1);
        Orders(orders.map(|c| (c.folder.clone(), suggest(&c))).collect())
    }

    /// Modules without a place, places without a module, and imports against the order.
    pub(super) fn check(&self, tree: &Tree) -> Vec<Finding> {
        let mut findings = Vec::new();
        for one in crates(tree).iter().filter(|c| c.modules.len() > 1) {
            let order = self.0.get(&one.folder).map_or(&[][..], Vec::as_slice);
            let places: BTreeMap<&str, usize> = order.iter().map(String::as_str).zip(0..).collect();
            for module in one.modules.iter().filter(|m| !places.contains_key(*m)) {
                let detail = "has no place in lab/tidy/order.txt";
                findings.push(Finding::once(
                    RULE,
                    format!("{}/{module}", one.folder),
                    detail,
                ));
            }
            for module in places.keys().filter(|m| !one.modules.contains(*m)) {
                let detail = "has a place in lab/tidy/order.txt and is no module";
                findings.push(Finding::once(
                    RULE,
                    format!("{}/{module}", one.folder),
                    detail,
                ));
            }
            for import in &one.imports {
                let (by, from) = (places.get(import.by), places.get(import.from));
                if by.zip(from).is_some_and(|(by, from)| from > by) {
                    let detail = format!(
                        "line {}: `{}` imports from `{}`, which stands behind it",
                        import.line, import.by, import.from
                    );
                    findings.push(Finding::once(RULE, import.path, detail));
                }
            }
        }
        findings
    }
}

/// Every crate with a `lib.rs` or `main.rs`.
fn crates(tree: &Tree) -> Vec<Crate<'_>> {
    let mut crates = Vec::new();
    for folder in tree.crates() {
        let source = format!("{folder}/src");
        let root = ["lib", "main"]
            .iter()
            .find_map(|name| tree.get(&format!("{source}/{name}.rs")));
        let Some(root) = root else {
            continue;
        };
        let modules = modules(root);
        let exports = exports(root, &modules);
        let mut imports = Vec::new();
        for (path, text) in tree.rust().filter(|(path, _)| !rust::is_test(path)) {
            let inside = path.strip_prefix(&source).and_then(|p| p.strip_prefix('/'));
            let Some(parts) = inside.and_then(|inside| inside.strip_suffix(".rs")) else {
                continue;
            };
            let parts: Vec<&str> = parts.split('/').filter(|part| *part != "mod").collect();
            let Some(by) = modules.get(parts[0]).copied() else {
                continue;
            };
            for (line, named) in rust::inner_paths(rust::without_tests(text)) {
                let first = in_root(&parts, &named);
                let from = first.and_then(|name| modules.get(name).or_else(|| exports.get(name)));
                if let Some(from) = from.copied().filter(|from| *from != by) {
                    let line = line + 1;
                    imports.push(Import {
                        path,
                        line,
                        by,
                        from,
                    });
                }
            }
        }
        crates.push(Crate {
            folder: source,
            modules,
            imports,
        });
    }
    crates
}

/// The modules that a crate's root declares, but for those of tests.
fn modules(root: &str) -> BTreeSet<&str> {
    let mut modules = BTreeSet::new();
    let mut before = "";
    for line in root.lines() {
        let code = line.strip_prefix("pub ").unwrap_or(line);
        let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
        let name = code
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        modules.extend(name.filter(|_| before != "#[cfg(test)]"));
        before = line;
    }
    modules
}

/// The names that a crate's root takes from its modules.
fn exports<'a>(root: &str, modules: &BTreeSet<&'a str>) -> BTreeMap<String, &'a str> {
    let mut exports = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let statement = root[at + 4..].split(';').next().unwrap_or_default();
        let statement = statement
            .trim_start_matches("crate::")
            .trim_start_matches("self::");
        for (_, path) in rust::inner_paths(&format!("crate::{statement}")) {
            let module = path.get(1).and_then(|first| modules.get(first.as_str()));
            if let (Some(module), Some(name)) = (module, path.get(2..).and_then(<[_]>::last)) {
                exports.insert(name.clone(), *module);
            }
        }
    }
    exports
}

/// What a path names in the crate's root, where that is where it leads.
fn in_root<'a>(parts: &[&str], named: &'a [String]) -> Option<&'a str> {
    let ups = named.iter().take_while(|part| *part == "super").count();
    let starts_at_root = named[0] == "crate" || ups == parts.len();
    let first = named.get(ups.max(1))?;
    starts_at_root.then_some(first.as_str())
}

/// An order that few imports are against: each module in its turn goes where it is against the fewest, until none gains.
fn suggest(one: &Crate<'_>) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for import in &one.imports {
        *counts.entry((import.by, import.from)).or_default() += 1;
    }
    let against = |by: &str, from: &str| counts.get(&(by, from)).copied().unwrap_or(0);
    let mut order: Vec<&str> = one.modules.iter().copied().collect();
    let mut gains = true;
    while gains {
        gains = false;
        for module in &one.modules {
            let Some(place) = order.iter().position(|m| m == module) else {
                continue;
            };
            order.remove(place);
            // At the front, all that it imports stands behind it; each step back changes the sum by one neighbour.
            let mut sum: usize = order.iter().map(|other| against(module, other)).sum();
            let mut sums = vec![sum];
            for other in &order {
                sum = sum + against(other, module) - against(module, other);
                sums.push(sum);
            }
            let least = sums.iter().copied().min().unwrap_or_default();
            let best = match sums[place] == least {
                true => place,
                false => sums.iter().position(|sum| *sum == least).unwrap_or(place),
            };
            gains |= best != place;
            order.insert(best, module);
        }
    }
    order.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
            (
                "crates/a/src/lib.rs",
                "pub mod log;\nmod host;\n#[cfg(test)]\nmod fuzz;\npub use host::{Host, Place};\n",
            ),
            (
                "crates/a/src/host.rs",
                "use crate::log::Log;\nuse super::log;\nuse crate::Place;\n",
            ),
            (
                "crates/a/src/log/mod.rs",
                "use crate::{Host, log::format};\nuse super::host;\n",
            ),
            (
                "crates/a/src/log/format.rs",
                "use super::Log;\nuse super::super::Place;\n#[cfg(test)]\nmod tests {\n    use crate::host;\n}\n",
            ),
        ])
    }

    #[test]
    fn imports_against_the_order_are_found() {
        let found = Orders::parse("crates/a/src\n  log\n  host\n").check(&tree());
        let subjects: Vec<_> = found.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(
            subjects,
            [
                "crates/a/src/log/format.rs",
                "crates/a/src/log/mod.rs",
                "crates/a/src/log/mod.rs"
            ]
        );
        let found = Orders::parse("crates/a/src\n  host\n  log\n").check(&tree());
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn modules_without_a_place_are_found() {
        let found = Orders::parse("crates/a/src\n  log\n  hots\n").check(&tree());
        let subjects: Vec<_> = found.iter().map(|f| f.subject.as_str()).collect();
        assert_eq!(subjects, ["crates/a/src/host", "crates/a/src/hots"]);
    }

    #[test]
    fn an_order_is_suggested_that_few_imports_are_against() {
        let orders = Orders::suggest(&tree());
        assert_eq!(orders.check(&tree()).len(), 2);
        assert_eq!(Orders::parse(&orders.render()), orders);
    }
}
