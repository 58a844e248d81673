//! The tables of refused requests in the documentation, held against what a cluster answers.

use super::resp::Client;
use quorate_resp::Reply;

const PAGE: &str = include_str!("../../../../../docs/reference/redis-compatibility.md");

/// The requests of a section's table, each with the text of its answer.
fn documented(heading: &str) -> Vec<(String, String)> {
    let begin = format!("\n## {heading}\n");
    let (_, section) = PAGE.split_once(&begin).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    // Between two ticks is every second part.
    let texts = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = (row.split('|').skip(1))
            .map(|cell| cell.replace('\u{1}', "|"))
            .collect();
        let answer = texts(&cells[1]).remove(0);
        let requests = texts(&cells[0]).into_iter();
        requests.map(move |request| (request, answer.clone()))
    })
    .collect()
}

/// Whether a text is what the page says, where three dots stand for anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split("...");
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last == Some("")
}

/// Makes every request of a section's table, at a connection of its own, and expects the answer that the table says.
pub fn expect_documented_refusals(url: &str, heading: &str) {
    let requests = documented(heading);
    assert!(requests.len() > 10, "{heading}: {requests:?}");
    for (request, expected) in requests {
        match Client::connect(url).ask(&request) {
            Reply::Error(text) if is_like(&text, &expected) => {}
            other => panic!("{request:?} is to be refused with {expected:?}, not {other:?}"),
        }
    }
}
