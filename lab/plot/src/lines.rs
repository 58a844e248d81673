//! Curves side by side, on even scales.

use crate::bars::Series;
use crate::svg::Svg;

/// A page of diagrams, two in a row.
pub struct Curves {
    /// What all of them are about.
    pub head: String,
    /// The diagrams, from the top.
    pub plots: Vec<Plot>,
    /// Lines of words below them.
    pub foot: Vec<String>,
}

/// One diagram; both of its scales begin at 0, unless there are values below.
pub struct Plot {
    /// What is shown over what, and in which units.
    pub title: String,
    /// The diagram's curves, each a series and its points from left to right.
    pub curves: Vec<(Series, Vec<(f64, f64)>)>,
}

impl Curves {
    /// Draws the page.
    #[must_use]
    pub fn render(&self) -> String {
        let rows = self.plots.len().div_ceil(2) as f64;
        let height = HEAD + rows * ROW + self.foot.len() as f64 * LINE + MARGIN;
        let width = 2.0 * (PLOT_WIDTH + AXIS + MARGIN) + MARGIN;
        let mut svg = Svg::new(width, height, &self.style());
        svg.text((MARGIN, 26.0), "head", &self.head);
        let mut curves = 0;
        for (at, plot) in self.plots.iter().enumerate() {
            let left = MARGIN + (at % 2) as f64 * (PLOT_WIDTH + AXIS + MARGIN);
            plot.draw(&mut svg, curves, (left, HEAD + (at / 2) as f64 * ROW));
            curves += plot.curves.len();
        }
        for (at, words) in self.foot.iter().enumerate() {
            let y = HEAD + rows * ROW + at as f64 * LINE;
            svg.text((MARGIN, y), "foot", words);
        }
        svg.finish()
    }

    /// Every curve is a class of lines.
    fn style(&self) -> String {
        let curves = self.plots.iter().flat_map(|plot| &plot.curves);
        let classes = curves.enumerate().map(|(at, (series, _))| {
            let color = series.color;
            format!(".c{at} {{ stroke: {color}; stroke-width: 2 }}\n")
        });
        STYLE.to_owned() + &classes.collect::<String>()
    }
}

impl Plot {
    fn draw(&self, svg: &mut Svg, first: usize, (left, top): (f64, f64)) {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let xs = Scale::of(points().map(|point| point.0));
        let ys = Scale::of(points().map(|point| point.1));
        let (x0, y0) = (left + AXIS, top + TITLE + PLOT_HEIGHT);
        let place =
            |(x, y): (f64, f64)| (x0 + xs.part(x) * PLOT_WIDTH, y0 - ys.part(y) * PLOT_HEIGHT);
        svg.text((x0, top + 16.0), "title", &self.title);
        for value in ys.marks() {
            let (_, y) = place((xs.low, value));
            svg.line((x0, y), (x0 + PLOT_WIDTH, y), "grid");
            svg.text((x0 - 6.0, y + 4.0), "axis", &show(value));
        }
        for value in xs.marks() {
            let (x, _) = place((value, ys.low));
            svg.text((x, y0 + 16.0), "mark", &show(value));
        }
        for (at, (series, points)) in self.curves.iter().enumerate() {
            let class = format!("c{}", first + at);
            for pair in points.windows(2) {
                svg.line(place(pair[0]), place(pair[1]), &class);
            }
            if points.len() <= DOTS_MAX {
                points
                    .iter()
                    .for_each(|point| svg.dot(place(*point), 3.0, series.color));
            }
            let x = left + AXIS + (at % 3) as f64 * LEGEND_WIDTH;
            let y = y0 + 34.0 + (at / 3) as f64 * LINE;
            svg.rect((x, y - 10.0), (12.0, 12.0), series.color);
            svg.text((x + 18.0, y), "legend", &series.name);
        }
    }
}

/// From a round number to another that hold all values.
struct Scale {
    low: f64,
    step: f64,
    steps: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let high = values.clone().fold(0.0, f64::max);
        let low = values.fold(0.0, f64::min);
        let about = ((high - low) / 5.0).max(f64::MIN_POSITIVE);
        let decade = 10f64.powf(about.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= about * 0.999);
        let step = step.unwrap_or(10.0 * decade);
        let low = (low / step).floor() * step;
        Scale {
            low,
            step,
            steps: ((high - low) / step).ceil().max(1.0),
        }
    }

    fn part(&self, value: f64) -> f64 {
        (value - self.low) / (self.step * self.steps)
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps as u32).map(|at| self.low + f64::from(at) * self.step)
    }
}

/// A number on a scale, without what floating point adds to it.
fn show(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

const STYLE: &str = "\
.head { font-size: 16px; font-weight: bold }
.title { font-size: 13px; font-weight: bold }
.axis { text-anchor: end; fill: #666; font-size: 11px }
.mark { text-anchor: middle; fill: #666; font-size: 11px }
.grid { stroke: #ddd }
";
const MARGIN: f64 = 20.0;
const HEAD: f64 = 44.0;
const TITLE: f64 = 26.0;
const AXIS: f64 = 62.0;
const PLOT_WIDTH: f64 = 460.0;
const PLOT_HEIGHT: f64 = 220.0;
const ROW: f64 = TITLE + PLOT_HEIGHT + 86.0;
const LINE: f64 = 18.0;
const LEGEND_WIDTH: f64 = 155.0;
/// Points of a curve that are marked.
const DOTS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_hold_all() {
        let scale = Scale::of([3.0, 47.0].into_iter());
        let marks: Vec<f64> = scale.marks().collect();
        assert_eq!(marks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(scale.part(25.0), 0.5);
        let below = Scale::of([-1.0, 1.0].into_iter());
        assert_eq!((below.low, below.part(1.0)), (-1.0, 1.0));
        assert_eq!(Scale::of(std::iter::empty()).part(0.0), 0.0);
        assert_eq!(show(0.1 + 0.2), "0.3");
    }

    #[test]
    fn every_curve_has_its_color_and_its_name() {
        let series = |name: &str, color| Series {
            name: name.into(),
            color,
        };
        let curves = vec![
            (series("one", "#d55e00"), vec![(0.0, 1.0), (1.0, 2.0)]),
            (series("other", "#0072b2"), vec![(0.0, 2.0), (1.0, 0.0)]),
        ];
        let title = "y over x".to_owned();
        let picture = Curves {
            head: "both".into(),
            plots: vec![Plot { title, curves }],
            foot: vec!["that is all".into()],
        };
        let picture = picture.render();
        for part in [
            "class=\"c0\"",
            "class=\"c1\"",
            ".c1 { stroke: #0072b2",
            ">other<",
            "that is all",
        ] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
    }
}
