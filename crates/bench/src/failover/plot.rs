//! Throughput over time, a diagram for each load, with a line for each protocol and its kills.

use std::time::Duration;

use quorate_plot::Svg;

use super::Mix;
use super::course::{BIN, Course};
use crate::units::show_count;

/// Draws the picture.
pub(super) fn render(courses: &[Course], title: &str) -> String {
    let mut mixes: Vec<Mix> = Vec::new();
    for course in courses {
        if !mixes.contains(&course.mix) {
            mixes.push(course.mix);
        }
    }
    let height = HEAD + mixes.len() as f64 * ROW;
    let mut svg = Svg::new(2.0 * MARGIN + AXIS + WIDTH, height, STYLE);
    svg.text(
        (MARGIN, 26.0),
        "head",
        &format!("Leaders killed under load: {title}"),
    );
    for (at, mix) in mixes.into_iter().enumerate() {
        let own: Vec<&Course> = courses.iter().filter(|course| course.mix == mix).collect();
        panel(&mut svg, mix, &own, HEAD + at as f64 * ROW);
    }
    svg.finish()
}

/// One diagram. Its scale begins at nothing.
fn panel(svg: &mut Svg, mix: Mix, courses: &[&Course], top: f64) {
    let rates: Vec<Vec<f64>> = courses.iter().map(|course| course.rates()).collect();
    let most = rates.iter().flatten().copied().fold(1.0, f64::max);
    let longest = courses
        .iter()
        .map(|course| course.duration)
        .max()
        .unwrap_or(BIN);
    let (left, bottom) = (MARGIN + AXIS, top + TITLE + PLOT);
    let x = |time: Duration| left + WIDTH * time.as_secs_f64() / longest.as_secs_f64();
    let y = |rate: f64| bottom - PLOT * rate / most;
    svg.text(
        (left, top + 14.0),
        "title",
        &format!("{}: operations per second", mix.name()),
    );
    for part in 0..=4 {
        let rate = most * f64::from(part) / 4.0;
        svg.line((left, y(rate)), (left + WIDTH, y(rate)), "grid");
        svg.text((left - 6.0, y(rate) + 4.0), "axis", &show_count(rate));
        let time = longest * part / 4;
        svg.text(
            (x(time), bottom + 16.0),
            "time",
            &format!("{:.0} s", time.as_secs_f64()),
        );
    }
    for (index, (course, rates)) in courses.iter().zip(&rates).enumerate() {
        let (line, mark) = CLASSES[index % CLASSES.len()];
        let at = |bin: usize| x(BIN * bin as u32 + BIN / 2);
        for (bin, pair) in rates.windows(2).enumerate() {
            svg.line((at(bin), y(pair[0])), (at(bin + 1), y(pair[1])), line);
        }
        for kill in &course.kills {
            svg.line((x(kill.at), top + TITLE), (x(kill.at), bottom), mark);
        }
        let legend = (left + 400.0 + 240.0 * index as f64, top + 14.0);
        svg.line(
            (legend.0 - 30.0, legend.1 - 4.0),
            (legend.0 - 6.0, legend.1 - 4.0),
            line,
        );
        svg.text(
            legend,
            "legend",
            &format!("{} (dashed: kills)", course.protocol),
        );
    }
}

/// Of a protocol's line and its kills, told apart also by those who see no difference between red
/// and green.
const CLASSES: [(&str, &str); 2] = [("first", "first-kill"), ("second", "second-kill")];
const STYLE: &str = "\
.head { font-size: 16px; font-weight: bold }
.title { font-size: 13px; font-weight: bold }
.axis { text-anchor: end; fill: #666; font-size: 11px }
.time { text-anchor: middle; fill: #666; font-size: 11px }
.grid { stroke: #ddd }
.first { stroke: #0072b2; stroke-width: 1.5 }
.second { stroke: #d55e00; stroke-width: 1.5 }
.first-kill { stroke: #0072b2; stroke-dasharray: 5 4 }
.second-kill { stroke: #d55e00; stroke-dasharray: 5 4 }
";
const MARGIN: f64 = 20.0;
const HEAD: f64 = 46.0;
const TITLE: f64 = 26.0;
const AXIS: f64 = 62.0;
const WIDTH: f64 = 900.0;
const PLOT: f64 = 220.0;
const ROW: f64 = TITLE + PLOT + 50.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::course::tests::course;

    #[test]
    fn every_run_is_a_line_with_its_kills() {
        let mut other = course();
        other.protocol = "multi-paxos".to_owned();
        let picture = render(&[course(), other], "5 replicas");
        let count = |class: &str| picture.matches(&format!("class=\"{class}\"")).count();
        assert_eq!(
            (count("first"), count("first-kill")),
            (9 + 1, 1),
            "ten bins and the legend"
        );
        assert_eq!((count("second"), count("second-kill")), (9 + 1, 1));
        assert_eq!(count("title"), 1, "one load");
        assert!(picture.contains(">20<") && picture.contains("write-intensive"));
    }
}
