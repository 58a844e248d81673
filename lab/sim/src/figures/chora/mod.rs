//! The figures of Chora's paper: what a round's length does (Figure 8), what synchrony does (9), latency
//! against throughput (7), and a crash (10).

mod chart;
mod cost;
mod lab;
pub(super) mod modes;
mod page;
mod points;
mod trouble;
mod worker;

use super::points::Failure;
use super::{FiguresOptions, Report};
use points::Figures;
use serde_json::Value;

/// The protocol that these are about.
pub(super) const NAME: &str = "chora";
/// How long a run is measured, ms.
const RUN_MS: u64 = 40;

/// Measures all of it.
pub(super) fn measure(options: &FiguresOptions) -> Result<Figures, Failure> {
    Figures::measure(options, RUN_MS)
}

impl Report for Figures {
    fn text(&self) -> String {
        page::text(self)
    }

    fn as_json(&self) -> Value {
        page::as_json(self)
    }

    fn picture(&self) -> String {
        chart::render(self)
    }
}

#[cfg(test)]
mod tests {
    use super::points::best;
    use super::*;

    fn measure(line: &str) -> Figures {
        let options = crate::parse(line).unwrap();
        match Figures::measure(&options, 3) {
            Ok(figures) => figures,
            Err(Failure::Usage(why) | Failure::Violated(why)) => panic!("{why}"),
        }
    }

    /// One run of all that is asserted: each takes a while.
    #[test]
    fn the_shapes_are_the_papers() {
        let figures = measure("--replicas 3 --plot chora.svg");
        let best_of = |points| best(points, 3).unwrap();
        let full = best_of(&figures.lengths);
        let shortest = &figures.lengths[0];
        assert!((full.multicasts_per_commit() - 1.0).abs() < 0.1);
        assert!(
            shortest.multicasts_per_commit() > 1.2,
            "too short for a pulse of each"
        );
        assert!(full.per_second() > best_of(&figures.responsive).per_second());
        let longest = figures.lengths.last().unwrap();
        assert!(full.per_second() > 2.0 * longest.per_second());
        let kappas = page::kappas(&figures);
        assert!(kappas.is_sorted_by(|a, b| a.1 > b.1), "{kappas:?}");
        assert!(kappas[0].2 > kappas[1].2.max(kappas[2].2), "{kappas:?}");
    }
}
