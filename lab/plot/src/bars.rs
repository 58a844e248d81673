//! Bar diagrams side by side, on logarithmic scales.

use crate::svg::Svg;

/// A page of diagrams, two in a row.
pub struct Chart {
    /// What all of them are about.
    pub head: String,
    /// What is compared.
    pub series: Vec<Series>,
    /// The diagrams, from the top.
    pub panels: Vec<Panel>,
    /// Lines of words below them.
    pub foot: Vec<String>,
}

/// One of the things compared.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Of its bars, as in CSS.
    pub color: &'static str,
}

/// One diagram: bars of all series, in groups. Its scale shows the powers of ten around its values.
pub struct Panel {
    /// What is shown, and in which unit.
    pub title: String,
    /// From left to right.
    pub groups: Vec<Group>,
    /// How a value is written.
    pub show: fn(f64) -> String,
}

/// Bars beside each other.
pub struct Group {
    /// Stands below them.
    pub name: String,
    /// Values above 0, each with the index of its series.
    pub bars: Vec<(usize, f64)>,
}

impl Chart {
    /// Draws the page.
    #[must_use]
    pub fn render(&self) -> String {
        let rows = self.panels.len().div_ceil(2) as f64;
        let legend = self.legend();
        let last_y = legend.last().map_or(LEGEND_Y, |(_, y)| *y);
        let head = HEAD + last_y - LEGEND_Y;
        let height = head + rows * ROW + self.foot.len() as f64 * LINE + MARGIN;
        let mut svg = Svg::new(WIDTH, height, STYLE);
        svg.text((MARGIN, 26.0), "head", &self.head);
        for (series, (x, y)) in self.series.iter().zip(legend) {
            svg.rect((x, y), (12.0, 12.0), series.color);
            svg.text((x + 18.0, y + 11.0), "legend", &series.name);
        }
        for (at, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + (at % 2) as f64 * (PANEL_WIDTH + MARGIN);
            panel.draw(&mut svg, &self.series, left, head + (at / 2) as f64 * ROW);
        }
        for (at, words) in self.foot.iter().enumerate() {
            let y = head + rows * ROW + at as f64 * LINE;
            svg.text((MARGIN, y), "foot", words);
        }
        svg.finish()
    }

    /// Where each series stands in the legend, which takes as many lines as it needs.
    fn legend(&self) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (MARGIN, LEGEND_Y);
        let mut places = Vec::new();
        for series in &self.series {
            let width = LEGEND_WIDTH_MIN.max(40.0 + series.name.len() as f64 * LETTER);
            if x > MARGIN && x + width > WIDTH {
                (x, y) = (MARGIN, y + LINE);
            }
            places.push((x, y));
            x += width;
        }
        places
    }
}

impl Panel {
    /// Powers of ten that hold all values.
    fn decades(&self) -> (i32, i32) {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let low = bars().map(|bar| bar.1).fold(f64::INFINITY, f64::min);
        let high = bars().map(|bar| bar.1).fold(0.0, f64::max);
        if high <= 0.0 {
            return (0, 1);
        }
        // The smallest bar must be seen as well.
        let low = (low * 0.8).log10().floor() as i32;
        (low, (high.log10().ceil() as i32).max(low + 1))
    }

    fn draw(&self, svg: &mut Svg, series: &[Series], left: f64, top: f64) {
        let (low, high) = self.decades();
        let height =
            |value: f64| PLOT_HEIGHT * (value.log10() - f64::from(low)) / f64::from(high - low);
        let bottom = top + TITLE + PLOT_HEIGHT;
        let x0 = left + AXIS;
        svg.text((x0, top + 16.0), "title", &self.title);
        for decade in low..=high {
            let value = 10f64.powi(decade);
            let y = bottom - height(value);
            svg.line((x0, y), (left + PANEL_WIDTH, y), "grid");
            svg.text((x0 - 6.0, y + 4.0), "axis", &(self.show)(value));
        }
        let width = PLOT_WIDTH / self.groups.len().max(1) as f64;
        for (at, group) in self.groups.iter().enumerate() {
            let middle = x0 + width * (at as f64 + 0.5);
            svg.text((middle, bottom + 16.0), "name", &group.name);
            let bar_width = (width * 0.8 / group.bars.len().max(1) as f64).min(BAR_WIDTH_MAX);
            let first = middle - bar_width * group.bars.len() as f64 / 2.0;
            for (nth, (which, value)) in group.bars.iter().enumerate() {
                let at = (first + bar_width * nth as f64, bottom);
                let size = (bar_width - 2.0, height(*value));
                svg.rect((at.0, bottom - size.1), size, series[*which].color);
                self.draw_value(svg, *value, at, size);
            }
        }
    }

    /// Writes a value along its bar, or on top of a short one.
    fn draw_value(&self, svg: &mut Svg, value: f64, at: (f64, f64), size: (f64, f64)) {
        let ((x, bottom), (width, height)) = (at, size);
        let (class, foot) = match height < VALUE_LENGTH {
            true => ("above", bottom - height),
            false => ("value", bottom),
        };
        let place = (x + width / 2.0 + 3.0, foot - 5.0);
        svg.text_upwards(place, class, &(self.show)(value));
    }
}

const STYLE: &str = "\
.head { font-size: 16px; font-weight: bold }
.title { font-size: 13px; font-weight: bold }
.axis { text-anchor: end; fill: #666; font-size: 11px }
.name { text-anchor: middle }
.value { font-size: 11px; fill: #fff }
.above { font-size: 11px }
.grid { stroke: #ddd }
";
const MARGIN: f64 = 20.0;
const HEAD: f64 = 70.0;
const LEGEND_Y: f64 = 38.0;
const WIDTH: f64 = 2.0 * (PANEL_WIDTH + MARGIN) + MARGIN;
const TITLE: f64 = 26.0;
const AXIS: f64 = 62.0;
const PANEL_WIDTH: f64 = 540.0;
const PLOT_WIDTH: f64 = PANEL_WIDTH - AXIS;
const PLOT_HEIGHT: f64 = 220.0;
const ROW: f64 = TITLE + PLOT_HEIGHT + 50.0;
const BAR_WIDTH_MAX: f64 = 46.0;
/// Room that a value takes along its bar.
const VALUE_LENGTH: f64 = 60.0;
const LINE: f64 = 18.0;
const LEGEND_WIDTH_MIN: f64 = 100.0;
/// About the width of a letter.
const LETTER: f64 = 6.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, bars: &[(usize, f64)]) -> Group {
        Group {
            name: name.into(),
            bars: bars.to_vec(),
        }
    }

    #[test]
    fn a_legend_that_is_too_long_for_a_line_takes_another() {
        let chart = |count: usize| Chart {
            head: "rates".into(),
            series: (0..count)
                .map(|at| Series {
                    name: format!("series {at}"),
                    color: "#0072b2",
                })
                .collect(),
            panels: Vec::new(),
            foot: Vec::new(),
        };
        let places = chart(15).legend();
        assert!(places.iter().all(|(x, _)| x + LEGEND_WIDTH_MIN <= WIDTH));
        assert_eq!(places.last(), Some(&(MARGIN + 300.0, LEGEND_Y + LINE)));
        assert!(chart(11).legend().iter().all(|(_, y)| *y == LEGEND_Y));
    }

    #[test]
    fn every_bar_is_inside_and_a_decade_is_a_decade() {
        let series = |name: &str| Series {
            name: name.into(),
            color: "#0072b2",
        };
        let chart = Chart {
            head: "rates".into(),
            series: vec![series("one"), series("other")],
            panels: vec![Panel {
                title: "per second".into(),
                groups: vec![
                    group("1 client", &[(0, 1000.0), (1, 100.0)]),
                    group("64 clients", &[(0, 10_000.0)]),
                ],
                show: |value| format!("{value:.0}"),
            }],
            foot: vec!["that is all".into()],
        };
        let picture = chart.render();
        let attribute = |shape: &str| {
            shape
                .split("height=\"")
                .nth(1)?
                .split('"')
                .next()?
                .parse()
                .ok()
        };
        // Two rectangles of the legend come first.
        let bars = picture.split("<rect x=").skip(3);
        let heights: Vec<f64> = bars.filter_map(attribute).collect();
        let (one, other, busy) = (heights[0], heights[1], heights[2]);
        assert!((one - other - (busy - one)).abs() < 0.2, "{heights:?}");
        assert!(other > 0.0 && busy <= PLOT_HEIGHT, "{heights:?}");
        assert!(picture.contains("that is all") && picture.ends_with("</svg>\n"));
    }
}
