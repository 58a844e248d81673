//! This repository keeps the rules of `quorate-tidy`.

use quorate_tidy::rules::{self, Orders};
use quorate_tidy::{Ledger, Tree, root};
use std::fs;
use std::path::PathBuf;

/// Set to take what has shrunk into the ledger, and to write files of this crate that are not there.
const RECORD: &str = "QUORATE_RECORD";

#[test]
fn the_repository_is_tidy() {
    let folder = root().join("lab/tidy");
    let records = std::env::var_os(RECORD).is_some();
    let tree = Tree::read(&root()).expect("the repository can be read");

    let path = folder.join("order.txt");
    let orders = match read(&path) {
        None if records => {
            let orders = Orders::suggest(&tree);
            fs::write(&path, orders.render()).expect("the order can be written");
            orders
        }
        text => Orders::parse(&text.unwrap_or_default()),
    };

    let findings = rules::all(&tree, &orders);
    let path = folder.join("exceptions.txt");
    let ledger = match read(&path) {
        None if records => Ledger::of(&findings),
        text => Ledger::parse(&text.unwrap_or_default()).expect("the ledger is well formed"),
    };
    if records {
        let shrunk = ledger.shrunk_to(&findings);
        fs::write(&path, shrunk.render()).expect("the ledger can be written");
    }
    let complaints = match records {
        true => ledger.shrunk_to(&findings).complaints(&findings),
        false => ledger.complaints(&findings),
    };
    assert!(
        complaints.is_empty(),
        "{} breaches:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

fn read(path: &PathBuf) -> Option<String> {
    fs::read_to_string(path).ok()
}
