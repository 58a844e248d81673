//! This repository keeps the rules of `quorate-tidy`.

use quorate_tidy::rules::{self, Orders};
use quorate_tidy::{Ledger, Tree, root};
use std::fs;
use std::path::Path;

/// Set to take what has shrunk into the ledger, and to write files of this crate that are not there.
const RECORD: &str = "QUORATE_RECORD";

#[test]
fn the_repository_is_tidy() {
    let folder = root().join("lab/tidy");
    let records = std::env::var_os(RECORD).is_some();
    let order_path = folder.join("order.txt");
    let ledger_path = folder.join("exceptions.txt");
    let (order, ledger) = (read(&order_path), read(&ledger_path));
    if records {
        // Pages name these files, so they are there before the tree is read.
        write(&order_path, order.as_deref().unwrap_or_default());
        write(&ledger_path, ledger.as_deref().unwrap_or_default());
    }
    let tree = Tree::read(&root()).expect("the repository can be read");
    let orders = match order {
        None if records => Orders::suggest(&tree),
        text => Orders::parse(&text.unwrap_or_default()),
    };

    let findings = rules::all(&tree, &orders);
    let ledger = match ledger {
        None if records => Ledger::of(&findings),
        text => Ledger::parse(&text.unwrap_or_default()).expect("the ledger is well formed"),
    };
    let ledger = match records {
        true => ledger.shrunk_to(&findings),
        false => ledger,
    };
    if records {
        write(&order_path, &orders.render());
        write(&ledger_path, &ledger.render());
    }
    let complaints = ledger.complaints(&findings);
    assert!(
        complaints.is_empty(),
        "{} breaches:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("files of this crate can be written");
}
