//! What is shown of the synchronised clock.

use super::{Registry, seconds};
use crate::clock::ClockError;
use metrics::Gauge;

/// The bound on the clock's error, labelled by its source.
pub(crate) struct ClockMetrics {
    error: Gauge,
    estimated: Gauge,
    synchronised: Gauge,
}

impl ClockMetrics {
    pub(super) fn new(on: &Registry<'_>, source: &str) -> Self {
        let gauge = |name, help| on.labelled_gauge(name, help, ("source", source));
        ClockMetrics {
            error: gauge(
                "quorate_clock_error_seconds",
                "How far the synchronised clock is off at most; infinite when nobody can tell.",
            ),
            estimated: gauge(
                "quorate_clock_estimated_error_seconds",
                "How far off the kernel thinks it is, which is no bound; NaN when it does not say.",
            ),
            synchronised: gauge(
                "quorate_clock_synchronised",
                "Whether somebody vouches for the clock: the kernel, or the operator.",
            ),
        }
    }

    /// Brings them up to date.
    pub(crate) fn show(&self, clock: &ClockError) {
        self.error
            .set(clock.bound_ns.map_or(f64::INFINITY, seconds));
        self.estimated
            .set(clock.estimated_ns.map_or(f64::NAN, seconds));
        self.synchronised
            .set(f64::from(u8::from(clock.bound_ns.is_some())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_scrape_shows_who_vouches_for_the_clock_and_that_nobody_does() {
        let metrics = Metrics::new();
        let mut error = ClockError {
            source: "kernel",
            bound_ns: Some(1_500_000),
            estimated_ns: Some(2_000),
        };
        metrics.clock("kernel").show(&error);
        let text = metrics.render();
        for line in [
            "quorate_clock_error_seconds{source=\"kernel\"} 0.0015",
            "quorate_clock_estimated_error_seconds{source=\"kernel\"} 0.000002",
            "quorate_clock_synchronised{source=\"kernel\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing from\n{text}");
        }
        (error.bound_ns, error.estimated_ns) = (None, None);
        metrics.clock("kernel").show(&error);
        let text = metrics.render();
        for line in [
            "quorate_clock_error_seconds{source=\"kernel\"} inf",
            "quorate_clock_synchronised{source=\"kernel\"} 0",
        ] {
            assert!(text.contains(line), "{line} is missing from\n{text}");
        }
    }
}
