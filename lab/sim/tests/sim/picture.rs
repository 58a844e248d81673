//! A seed as a message diagram.

use crate::runs::simulator;

/// Every element that begins ends, in the right order, and every attribute is quoted.
fn assert_well_formed(picture: &str) {
    let mut open = Vec::new();
    for tag in picture.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split_whitespace().next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// When a line of the trace first says this, in ms, from a time on.
fn when(lines: &[String], what: &str, from_ms: u64) -> u64 {
    let time = |line: &String| line.trim_start().split('.').next()?.parse::<u64>().ok();
    let found = lines.iter().filter(|line| line.contains(what));
    found
        .filter_map(time)
        .find(|ms| *ms >= from_ms)
        .expect(what)
}

#[test]
fn a_picture_shows_crashes_cuts_losses_and_decisions() {
    let simulator = simulator("--profile crashes,partitions,loss --ops 300 --hurt-ms 1000");
    let (report, lines) = simulator.traced(3);
    let mut all = String::new();
    for (event, shown) in [
        (" crash r", ">crashes</text>"),
        (" open r", ">starts</text>"),
        (" cut ", ">cut r"),
        ("Decided", "<circle"),
    ] {
        let ms = when(&lines, event, 100);
        let (drawn, picture) = simulator.picture(3, Some(ms - 5), Some(ms + 5)).unwrap();
        assert_eq!(drawn, report, "drawing changes nothing");
        assert_well_formed(&picture);
        assert!(picture.contains(shown), "{shown} around {ms} ms: {picture}");
        all += &picture;
    }
    for part in [
        "class=\"message\"",
        "class=\"lost\"",
        ">r3</text>",
        "seed 3",
        ">batch e",
        ">#",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn a_picture_of_a_violation_ends_with_it() {
    let simulator = simulator("--mutant fast-1");
    let (report, picture) = simulator.picture(0, None, None).unwrap();
    let violation = report.violation.expect("a mutant");
    assert_well_formed(&picture);
    assert!(
        picture.contains(&format!(">{}:", violation.kind)),
        "{picture}"
    );
}

#[test]
fn too_much_for_a_picture_is_refused_with_what_would_do() {
    let simulator = simulator("--profile loss");
    let why = simulator.picture(0, Some(0), Some(2_000)).unwrap_err();
    assert!(why.contains("too many") && why.contains("--to "), "{why}");
    let (_, to) = why.rsplit_once("--to ").unwrap();
    let to_ms: u64 = to.parse().unwrap();
    assert!(to_ms < 2_000, "{why}");
    assert!(simulator.picture(0, Some(5), Some(5)).is_err());
}
