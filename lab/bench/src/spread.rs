//! Figures of several turns: the middle one, and how far the others lie from it.

use quorate_tooling::tables::median;

/// The least, the middle and the most of several figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) middle: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let figures: Vec<f64> = figures.collect();
        Spread {
            least: figures.iter().copied().fold(f64::INFINITY, f64::min),
            middle: median(figures.clone()).unwrap_or(f64::NAN),
            most: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    pub(crate) fn show(self, digits: usize) -> String {
        self.show_by(|figure| format!("{figure:.digits$}"))
    }

    /// The figures as `show` writes each of them.
    pub(crate) fn show_by(self, show: impl Fn(f64) -> String) -> String {
        let (least, middle, most) = (show(self.least), show(self.middle), show(self.most));
        format!("{middle} [{least}-{most}]")
    }
}
