//! A diagram of a rate over time, with marks where something happened.

use std::ops::Range;
use std::time::Duration;

use quorate_plot::Svg;

use quorate_load::trial::Sample;
use quorate_tooling::units::show_count;

/// One diagram on a sheet. Its scale begins at nothing.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    /// Where it begins on the sheet, its title included.
    pub(crate) top: f64,
    /// What time it shows.
    pub(crate) span: Range<Duration>,
    /// The highest rate.
    pub(crate) most: f64,
}

impl Timeline {
    /// The title, the grid and what it says at the axes, times counted from `zero`.
    pub(crate) fn frame(&self, svg: &mut Svg, title: &str, zero: Duration) {
        let (left, bottom) = (LEFT, self.bottom());
        svg.text((left, self.top + 14.0), "title", title);
        for part in 0..=4 {
            let rate = self.most * f64::from(part) / 4.0;
            let y = self.y(rate);
            svg.line((left, y), (left + WIDTH, y), "grid");
            svg.text((left - 6.0, y + 4.0), "axis", &show_count(rate));
            let time = self.span.start + self.length() * part / 4;
            let seconds = time.as_secs_f64() - zero.as_secs_f64();
            let words = match self.length() < Duration::from_secs(10) {
                true => format!("{seconds:.2} s"),
                false => format!("{seconds:.0} s"),
            };
            svg.text((self.x(time), bottom + 16.0), "time", &words);
        }
    }

    /// A line through the rates of bins, the first of which begins with the span.
    pub(crate) fn draw(&self, svg: &mut Svg, rates: &[f64], bin: Duration, class: &str) {
        let middle = |index: usize| self.x(self.span.start + bin * index as u32 + bin / 2);
        for (index, pair) in rates.windows(2).enumerate() {
            let from = (middle(index), self.y(pair[0]));
            svg.line(from, (middle(index + 1), self.y(pair[1])), class);
        }
    }

    /// A line through what was seen at times, from 0 at the bottom to the most of it at the top.
    pub(crate) fn draw_points(&self, svg: &mut Svg, seen: &[(Duration, f64)], class: &str) {
        let most = seen.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let at = |(time, value): (Duration, f64)| (self.x(time), self.y(self.most * value / most));
        if most > 0.0 {
            let pairs = seen.windows(2);
            pairs.for_each(|pair| svg.line(at(pair[0]), at(pair[1]), class));
        }
    }

    /// A line down where something happened.
    pub(crate) fn mark(&self, svg: &mut Svg, at: Duration, class: &str) {
        let x = self.x(at);
        svg.line((x, self.top + TITLE), (x, self.bottom()), class);
    }

    /// A word for a line of a class, in the place of a number beside the title.
    pub(crate) fn legend(&self, svg: &mut Svg, place: usize, class: &str, words: &str) {
        let (x, y) = (LEFT + 400.0 + 240.0 * place as f64, self.top + 14.0);
        svg.line((x - 30.0, y - 4.0), (x - 6.0, y - 4.0), class);
        svg.text((x, y), "legend", words);
    }

    fn bottom(&self) -> f64 {
        self.top + TITLE + PLOT
    }

    fn length(&self) -> Duration {
        self.span.end.saturating_sub(self.span.start)
    }

    fn x(&self, time: Duration) -> f64 {
        let since = time.saturating_sub(self.span.start).as_secs_f64();
        LEFT + WIDTH * since / self.length().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn y(&self, rate: f64) -> f64 {
        self.bottom() - PLOT * rate / self.most
    }
}

/// Operations a second, in bins that begin with the span.
pub(crate) fn rates(samples: &[Sample], span: &Range<Duration>, bin: Duration) -> Vec<f64> {
    let length = span.end.saturating_sub(span.start);
    let mut counts = vec![0.0; length.as_nanos().div_ceil(bin.as_nanos()) as usize];
    for sample in samples.iter().filter(|sample| sample.done >= span.start) {
        let index = (sample.done - span.start).as_nanos() / bin.as_nanos();
        if let Some(count) = counts.get_mut(index as usize) {
            *count += 1.0 / bin.as_secs_f64();
        }
    }
    counts
}

/// Rules of the classes that every diagram uses.
pub(crate) const STYLE: &str = "\
.head { font-size: 16px; font-weight: bold }
.title { font-size: 13px; font-weight: bold }
.axis { text-anchor: end; fill: #666; font-size: 11px }
.time { text-anchor: middle; fill: #666; font-size: 11px }
.grid { stroke: #ddd }
";
/// How wide a sheet is.
pub(crate) const SHEET: f64 = 2.0 * MARGIN + AXIS + WIDTH;
/// How high a diagram is, with its title.
pub(crate) const ROW: f64 = TITLE + PLOT + 50.0;
/// Left of everything.
pub(crate) const MARGIN: f64 = 20.0;
const AXIS: f64 = 62.0;
const LEFT: f64 = MARGIN + AXIS;
const WIDTH: f64 = 900.0;
const TITLE: f64 = 26.0;
const PLOT: f64 = 220.0;
