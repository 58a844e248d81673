//! The longest silences of a run: what a failure cost those who talk to the survivors.

use std::fmt;

use serde::Serialize;

use quorate_tooling::units::show_ns;

/// Longest times without a completion, per endpoint and over the endpoints alive at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// Longest time in which no client of any surviving endpoint completed an operation.
    pub surviving: Gap,
    /// Each endpoint's own.
    pub endpoints: Vec<EndpointGap>,
}

/// A time without completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The length of the silence, in ns.
    pub longest_ns: u64,
    /// When it began, from the end of the warm-up.
    pub began_ns: u64,
}

/// The longest silence of one endpoint's clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointGap {
    /// The endpoint's URL.
    pub url: String,
    /// The endpoint's longest silence.
    #[serde(flatten)]
    pub gap: Gap,
    /// Whether its clients completed operations until the end.
    pub survived: bool,
}

impl Gaps {
    /// Finds the silences in `completions`: for each endpoint the times, from the beginning of a
    /// run of `run_ns`, at which an operation succeeded.
    pub fn find(completions: &[(String, Vec<u64>)], run_ns: u64) -> Gaps {
        let alive = |times: &[u64]| {
            times
                .iter()
                .max()
                .is_some_and(|&last| run_ns.saturating_sub(last) < ALIVE_NS)
        };
        let any_alive = completions.iter().any(|(_, times)| alive(times));
        let mut together = Vec::new();
        let mut endpoints = Vec::new();
        for (url, times) in completions {
            let survived = alive(times);
            // When nobody is alive at the end the whole cluster's silence is the figure.
            if survived || !any_alive {
                together.extend_from_slice(times);
            }
            let gap = longest(times.clone(), run_ns);
            endpoints.push(EndpointGap {
                url: url.clone(),
                gap,
                survived,
            });
        }
        Gaps {
            surviving: longest(together, run_ns),
            endpoints,
        }
    }
}

impl fmt::Display for Gaps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  gap          surviving endpoints together: {}",
            self.surviving
        )?;
        for endpoint in &self.endpoints {
            let fate = if endpoint.survived {
                ""
            } else {
                " (silent at the end)"
            };
            writeln!(
                out,
                "  gap          {}: {}{fate}",
                endpoint.url, endpoint.gap
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} from {:.3} s on",
            show_ns(self.longest_ns),
            self.began_ns as f64 / 1e9
        )
    }
}

/// The longest silence in a run of `run_ns` with completions at `times`.
pub fn longest(mut times: Vec<u64>, run_ns: u64) -> Gap {
    times.push(run_ns);
    times.sort_unstable();
    let mut gap = Gap::default();
    let mut last = 0;
    for time in times {
        if time.saturating_sub(last) > gap.longest_ns {
            gap = Gap {
                longest_ns: time - last,
                began_ns: last,
            };
        }
        last = time;
    }
    gap
}

/// Endpoints that completed something this shortly before the end count as surviving.
const ALIVE_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn every_100_ms(from: u64, to: u64) -> Vec<u64> {
        (from..to).step_by(100_000_000).collect()
    }

    #[test]
    fn a_killed_endpoint_does_not_count_as_silence_of_the_survivors() {
        let killed = ("a".to_owned(), every_100_ms(0, 2 * SECOND));
        // The survivor stalls from 1.9 s to 2.5 s, while the other is dying.
        let mut times = every_100_ms(0, 2 * SECOND);
        times.extend(every_100_ms(5 * SECOND / 2, 5 * SECOND));
        let gaps = Gaps::find(&[killed, ("b".to_owned(), times)], 5 * SECOND);
        assert_eq!(gaps.surviving.longest_ns, 600_000_000);
        assert_eq!(gaps.surviving.began_ns, 1_900_000_000);
        assert_eq!(gaps.endpoints[0].gap.longest_ns, 5 * SECOND - 1_900_000_000);
        assert_eq!(
            (gaps.endpoints[0].survived, gaps.endpoints[1].survived),
            (false, true)
        );
    }

    #[test]
    fn when_everything_died_the_whole_cluster_is_silent() {
        let gaps = Gaps::find(&[("a".to_owned(), vec![SECOND])], 9 * SECOND);
        assert_eq!(
            gaps.surviving,
            Gap {
                longest_ns: 8 * SECOND,
                began_ns: SECOND
            }
        );
    }
}
