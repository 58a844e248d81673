//! Types that hold a whole machine have walls inside: few fields, few files that see all of them, few public methods.
//!
//! Every number is a finding of its own, so that the ledger holds each of them to what it was.

use crate::{Finding, Tree, rust};
use std::collections::BTreeMap;

/// The types that are measured.
const TYPES: [&str; 2] = ["Host", "Replica"];
/// Where these types are: a crate whose files are one room, and folders of protocols that are a room each.
const ROOMS: [&str; 2] = ["crates/host/src/", "crates/protocols/src/"];

/// What is counted of a type.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    fields: usize,
    /// Files with an `impl` of methods.
    files: usize,
    /// Methods that are `pub`.
    public: usize,
    /// Calls of a method on `self` that another file defines.
    calls: usize,
}

/// The numbers of each measured type.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, room) in rooms(tree) {
        let subject = format!("{room}:{name}");
        let numbers = measure(tree, &room, name);
        let rows = [
            ("room-fields", numbers.fields),
            ("room-files", numbers.files),
            ("room-public-methods", numbers.public),
            ("room-calls-across-files", numbers.calls),
        ];
        for (rule, amount) in rows.into_iter().filter(|(_, amount)| *amount > 0) {
            findings.push(Finding {
                rule,
                subject: subject.clone(),
                amount,
                detail: amount.to_string(),
            });
        }
    }
    findings
}

/// Each measured type with the folder whose files may see its fields.
fn rooms(tree: &Tree) -> Vec<(&'static str, String)> {
    let mut rooms = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !rust::is_test(path)) {
        let Some(parent) = ROOMS.iter().find(|room| path.starts_with(*room)) else {
            continue;
        };
        for name in TYPES {
            let is_defined = text.lines().any(|line| defines(line, name));
            let folder = match name {
                "Host" => (*parent).to_owned(),
                _ => path[..path.rfind('/').map_or(0, |end| end + 1)].to_owned(),
            };
            if is_defined {
                rooms.push((name, folder));
            }
        }
    }
    rooms
}

fn defines(line: &str, name: &str) -> bool {
    let after = line
        .strip_prefix("pub struct ")
        .or_else(|| line.strip_prefix("pub(crate) struct "))
        .and_then(|rest| rest.strip_prefix(name));
    after.is_some_and(|rest| rest.starts_with([' ', '<']))
}

fn measure(tree: &Tree, room: &str, name: &str) -> Numbers {
    let mut numbers = Numbers::default();
    let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut bodies = Vec::new();
    let files = tree.rust().filter(|(path, _)| path.starts_with(room));
    for (path, text) in files.filter(|(path, _)| !rust::is_test(path)) {
        let text = rust::without_tests(text);
        numbers.fields += fields(text, name);
        let blocks = impls(text, name);
        numbers.files += usize::from(!blocks.is_empty());
        for block in blocks {
            for function in rust::functions(block) {
                homes.insert(function.name, path);
                numbers.public += usize::from(function.is_public);
            }
            bodies.push((path, block));
        }
    }
    for (path, block) in bodies {
        let called = block.split("self.").skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            rest[end..].starts_with('(').then_some(&rest[..end])
        });
        let elsewhere = called.filter(|called| homes.get(called).is_some_and(|home| *home != path));
        numbers.calls += elsewhere.count();
    }
    numbers
}

fn fields(text: &str, name: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let Some(first) = lines.iter().position(|line| defines(line, name)) else {
        return 0;
    };
    let last = rust::last_line(&lines, first).unwrap_or(first);
    let inside = lines[first..last].iter().skip(1);
    let fields = inside.filter(|line| {
        let code = rust::without_comment(line).trim_end();
        rust::indent(line) == 4 && code.contains(": ") && !code.trim_start().starts_with('#')
    });
    fields.count()
}

/// The blocks of a type's own methods, without implementations of traits.
fn impls<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("impl").map(|at| from + at) {
        from = at + 4;
        let begins_line = at == 0 || text[..at].ends_with('\n');
        let Some(head_end) = text[at..].find('{').filter(|_| begins_line) else {
            continue;
        };
        let head = &text[at + 4..at + head_end];
        let bounds = head.split(" where").next().unwrap_or(head);
        let target = bounds.split_once('>').map_or(bounds, |(generics, rest)| {
            if generics.starts_with('<') {
                rest
            } else {
                bounds
            }
        });
        let is_own = target
            .trim_start_matches('>')
            .trim_start()
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['<', ' ', '\n']) && !head.contains(" for "));
        if is_own {
            let end = text[at..].find("\n}").map_or(text.len(), |end| at + end);
            blocks.push(&text[at..end]);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_files_methods_and_calls_are_counted() {
        let host = "pub struct Host<M: Machine> {\n    /// The machine: one.\n    machine: M,\n    log: Log,\n}\n\
                    impl<M: Machine> Host<M> {\n    pub fn turn(&mut self) {\n        self.save();\n        \
                    self.own();\n    }\n    fn own(&self) {}\n}\nimpl<M: Machine> Drop for Host<M> {\n}\n";
        let saving = "impl<M: Machine> Host<M> {\n    pub(crate) fn save(&mut self) {}\n}\n";
        let tree = Tree::of(&[
            ("crates/host/src/host.rs", host),
            ("crates/host/src/saving.rs", saving),
        ]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|f| (f.rule, f.amount))
            .collect();
        assert_eq!(
            found,
            [
                ("room-fields", 2),
                ("room-files", 2),
                ("room-public-methods", 1),
                ("room-calls-across-files", 1)
            ]
        );
    }
}
