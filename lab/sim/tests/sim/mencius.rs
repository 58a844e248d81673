//! Mencius: seeds that must pass.

use crate::runs::{self, hits};
use quorate_sim::Report;
use std::ops::Range;

fn pass(line: &str, seeds: Range<u64>) -> Vec<Report> {
    runs::pass(&format!("--protocol mencius {line}"), seeds)
}

#[test]
fn three_owners_pass() {
    let reports = pass("--replicas 3", 0..15);
    assert!(hits(&reports, "lane taken over") > 0, "owners fail");
    assert!(hits(&reports, "own lane taken back") > 0, "they come back");
}

#[test]
fn other_sizes_pass() {
    pass("--replicas 5", 0..5);
    pass("--replicas 4", 0..3);
    pass("--replicas 1", 0..3);
}

#[test]
fn small_windows_and_single_acknowledgements_pass() {
    pass("--replicas 3 --param window=1 --param ahead=1", 0..5);
    pass("--replicas 3 --param ack=each", 0..5);
}
