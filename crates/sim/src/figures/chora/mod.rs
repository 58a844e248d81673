//! The figures of Chora's paper: what a round's length does (Figure 8), what synchrony does (9), latency
//! against throughput (7), and a crash (10).

mod chart;
mod cost;
mod lab;
mod node;
mod page;
mod points;

use super::FiguresOptions;
use super::points::Failure;
use points::Figures;
use std::process::ExitCode;

/// The protocol that these are about.
pub(super) const NAME: &str = "chora";
/// How long a run is measured, ms.
const RUN_MS: u64 = 40;

/// Measures and prints; exit codes as for other protocols.
pub(super) fn run(options: &FiguresOptions) -> ExitCode {
    let figures = match Figures::measure(options, RUN_MS) {
        Ok(figures) => figures,
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
        Err(Failure::Violated(why)) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        println!("{:#}", figures.as_json());
    } else {
        print!("{}", page::text(&figures));
    }
    if let Some(path) = &options.plot
        && let Err(error) = std::fs::write(path, chart::render(&figures))
    {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
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
