//! Throughput over time, a diagram for each load, with a line for each protocol and its faults.

use std::time::Duration;

use quorate_plot::Svg;

use super::Kind;
use super::course::{BIN, Course};
use crate::timeline::{self, MARGIN, ROW, SHEET, Timeline};

/// Draws the picture.
pub(super) fn render(courses: &[Course], title: &str) -> String {
    let mut kinds: Vec<Kind> = Vec::new();
    for course in courses {
        if !kinds.contains(&course.kind) {
            kinds.push(course.kind);
        }
    }
    let height = HEAD + kinds.len() as f64 * ROW;
    let mut svg = Svg::new(SHEET, height, &format!("{}{STYLE}", timeline::STYLE));
    svg.text(
        (MARGIN, 26.0),
        "head",
        &format!("Replicas hurt under load: {title}"),
    );
    for (at, kind) in kinds.into_iter().enumerate() {
        let own: Vec<&Course> = courses
            .iter()
            .filter(|course| course.kind == kind)
            .collect();
        panel(&mut svg, kind, &own, HEAD + at as f64 * ROW);
    }
    svg.finish()
}

/// Draws one diagram.
fn panel(svg: &mut Svg, kind: Kind, courses: &[&Course], top: f64) {
    let rates: Vec<Vec<f64>> = courses.iter().map(|course| course.rates()).collect();
    let longest = courses.iter().map(|course| course.duration).max();
    let timeline = Timeline {
        top,
        span: Duration::ZERO..longest.unwrap_or(BIN),
        most: rates.iter().flatten().copied().fold(1.0, f64::max),
    };
    let title = format!("{kind}: operations per second");
    timeline.frame(svg, &title, Duration::ZERO);
    for (index, (course, rates)) in courses.iter().zip(&rates).enumerate() {
        let (line, mark) = CLASSES[index % CLASSES.len()];
        timeline.draw(svg, rates, BIN, line);
        for outage in &course.outages {
            timeline.mark(svg, outage.at, mark);
            timeline.mark(svg, outage.back, mark);
        }
        let words = format!("{} (dashed: faults)", course.protocol);
        timeline.legend(svg, index, line, &words);
    }
    if let Some(course) = courses.iter().find(|course| !course.watched.is_empty()) {
        timeline.draw_points(svg, &course.watched, "watched");
        let words = format!("{}, from none to most of it", course.figure);
        timeline.legend(svg, courses.len(), "watched", &words);
    }
}

/// Of a protocol's line and its faults, told apart also by those who see no difference between red
/// and green.
const CLASSES: [(&str, &str); 2] = [("first", "first-mark"), ("second", "second-mark")];
const STYLE: &str = "\
.first { stroke: #0072b2; stroke-width: 1.5 }
.second { stroke: #d55e00; stroke-width: 1.5 }
.watched { stroke: #009e73; stroke-width: 1 }
.first-mark { stroke: #0072b2; stroke-dasharray: 5 4 }
.second-mark { stroke: #d55e00; stroke-dasharray: 5 4 }
";
const HEAD: f64 = 46.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::course::tests::course;

    #[test]
    fn every_run_is_a_line_with_its_faults() {
        let mut other = course();
        other.protocol = "multi-paxos".to_owned();
        let picture = render(&[course(), other], "5 replicas");
        let count = |class: &str| picture.matches(&format!("class=\"{class}\"")).count();
        assert_eq!(
            (count("first"), count("first-mark")),
            (9 + 1, 2),
            "ten bins and the legend; the fault and its end"
        );
        assert_eq!((count("second"), count("second-mark")), (9 + 1, 2));
        assert_eq!(
            count("watched"),
            1 + 1,
            "from one time to the other, and the legend"
        );
        assert_eq!(count("title"), 1, "one load");
        assert!(picture.contains(">20<") && picture.contains("write-intensive"));
    }
}
