//! The rules, one file each.

mod dependencies;
mod docs;
mod examples;
mod length;
mod order;
mod pages;
mod repetition;
mod rooms;
mod width;

pub use order::Orders;

use crate::{Finding, Tree};

/// What all rules find in a tree whose modules have these orders.
pub fn all(tree: &Tree, orders: &Orders) -> Vec<Finding> {
    let mut findings = orders.check(tree);
    findings.extend(length::files(tree));
    findings.extend(length::functions(tree));
    findings.extend(docs::check(tree));
    findings.extend(examples::check(tree));
    findings.extend(pages::check(tree));
    findings.extend(width::check(tree));
    findings.extend(dependencies::check(tree));
    findings.extend(repetition::check(tree));
    findings.extend(rooms::check(tree));
    findings
}
