//! Writes a second over time around the first change of each kind.

use std::time::Duration;

use quorate_plot::Svg;

use super::summary::Done;
use crate::timeline::{self, MARGIN, ROW, SHEET, Timeline};
use quorate_load::trial::Sample;

/// Draws the picture: a diagram for each kind, with lines where the change was asked for and where it
/// was done.
pub(super) fn render(done: &[Done], samples: &[Sample], title: &str) -> String {
    let is_first =
        |(at, change): &(usize, &Done)| done[..*at].iter().all(|d| d.kind != change.kind);
    let firsts: Vec<&Done> = (done.iter().enumerate().filter(is_first))
        .map(|(_, change)| change)
        .collect();
    let height = HEAD + firsts.len() as f64 * ROW;
    let mut svg = Svg::new(SHEET, height, &format!("{}{STYLE}", timeline::STYLE));
    svg.text(
        (MARGIN, 26.0),
        "head",
        &format!("Changes under load: {title}"),
    );
    for (at, change) in firsts.into_iter().enumerate() {
        panel(&mut svg, change, samples, HEAD + at as f64 * ROW);
    }
    svg.finish()
}

fn panel(svg: &mut Svg, change: &Done, samples: &[Sample], top: f64) {
    let span = change.from.saturating_sub(AROUND)..change.until + AROUND;
    let rates = timeline::rates(samples, &span, BIN);
    let timeline = Timeline {
        top,
        span,
        most: rates.iter().copied().fold(1.0, f64::max),
    };
    let title = format!("{}: writes per second", change.what);
    timeline.frame(svg, &title, change.from);
    timeline.draw(svg, &rates, BIN, "rate");
    timeline.mark(svg, change.from, "mark");
    timeline.mark(svg, change.until, "mark");
    timeline.legend(svg, 1, "mark", "asked for, and done");
}

/// A gap of 20 ms is seen.
const BIN: Duration = Duration::from_millis(20);
const AROUND: Duration = Duration::from_millis(500);
const HEAD: f64 = 46.0;
const STYLE: &str = "\
.rate { stroke: #0072b2; stroke-width: 1.5 }
.mark { stroke: #d55e00; stroke-dasharray: 5 4 }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::summary::tests::{done, sample};

    #[test]
    fn the_first_change_of_each_kind_is_drawn() {
        let samples: Vec<Sample> = (0..200).map(|at| sample(10 * at)).collect();
        let done = [
            done("add", 500, 600),
            done("remove", 800, 900),
            done("add", 1000, 1100),
        ];
        let picture = render(&done, &samples, "3 replicas");
        let count = |class: &str| picture.matches(&format!("class=\"{class}\"")).count();
        assert_eq!((count("title"), count("mark")), (2, 2 * 3));
        assert_eq!(count("rate"), 2 * 54, "1.1 s in bins of 20 ms");
        assert!(picture.contains(">100<"), "the rate");
    }
}
