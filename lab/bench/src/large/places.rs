//! Where small puts spend their time in the replica that leads, by its own histograms.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Beside, Phase};
use quorate_tooling::scrape;
use quorate_tooling::tables::{align, median};
use quorate_tooling::units::show_ns;

/// The places of a put's way, and what they are to people.
const PLACES: [(&str, &str); 9] = [
    ("ring", "queue before the protocol"),
    ("order", "protocol to answer"),
    ("log", "one flush"),
    ("network", "frames to sockets"),
    ("apply", "one command"),
    ("turn", "one turn of the core"),
    ("bulk", "one step of a long fragment"),
    ("total", "as the core sees it"),
    ("face", "request to answer"),
];

/// What one replica's histograms say, since it began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading(BTreeMap<&'static str, Histogram>);

/// Samples at or below each bound, ascending, and their sum in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
struct Histogram {
    below: Vec<(f64, f64)>,
    sum: f64,
}

/// Time spent at a place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spent {
    /// The number of samples.
    pub count: u64,
    /// The mean of the samples, in ns.
    pub mean_ns: u64,
    /// The bound of the bucket in which the 99th percentile is, in ns.
    pub p99_below_ns: u64,
}

impl Reading {
    /// Asks a replica.
    pub(crate) fn take(url: &str) -> Result<Reading, String> {
        Ok(Reading::parse(&scrape::get(url, "/metrics")?))
    }

    fn parse(page: &str) -> Reading {
        let each = PLACES.map(|(place, _)| (place, Histogram::parse(page, place)));
        Reading(each.into_iter().collect())
    }

    /// What was spent where since `earlier`, at the places that had samples.
    pub(crate) fn since(&self, earlier: &Reading) -> BTreeMap<&'static str, Spent> {
        let each = self.0.iter().filter_map(|(place, now)| {
            let was = earlier.0.get(place)?;
            Some((*place, now.since(was)?))
        });
        each.collect()
    }
}

impl Histogram {
    fn parse(page: &str, place: &str) -> Histogram {
        let beginning = format!("quorate_latency_seconds_bucket{{place=\"{place}\",le=\"");
        let bucket = |line: &str| {
            let (bound, count) = line.strip_prefix(&beginning)?.split_once("\"} ")?;
            let bound = bound.parse().unwrap_or(f64::INFINITY);
            Some((bound, count.trim().parse().ok()?))
        };
        let label = format!("place=\"{place}\"");
        Histogram {
            below: page.lines().filter_map(bucket).collect(),
            sum: scrape::labelled(page, "quorate_latency_seconds_sum", &label),
        }
    }

    fn since(&self, earlier: &Histogram) -> Option<Spent> {
        let was = |bound: f64| {
            let mut earlier = earlier.below.iter();
            earlier
                .find(|(its, _)| *its == bound)
                .map_or(0.0, |(_, n)| *n)
        };
        let new = self
            .below
            .iter()
            .map(|(bound, n)| (*bound, n - was(*bound)));
        let new: Vec<(f64, f64)> = new.collect();
        let count = new.last().map_or(0.0, |(_, count)| *count);
        let (p99, _) = new.iter().find(|(_, below)| *below >= 0.99 * count)?;
        (count > 0.0).then(|| Spent {
            count: count as u64,
            mean_ns: ((self.sum - earlier.sum) / count * 1e9) as u64,
            p99_below_ns: (p99 * 1e9) as u64,
        })
    }
}

/// Of each place the mean, and the bound below which 99 of 100 samples are: medians of the turns.
pub(super) fn table(phases: &[Phase]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for (place, what) in PLACES {
        let mut row = vec![place.to_owned()];
        for beside in [Beside::Nothing, Beside::Large, Beside::Load] {
            let own = phases.iter().filter(|one| one.beside == beside);
            let own: Vec<&Spent> = own.filter_map(|one| one.places.get(place)).collect();
            let of = |of: fn(&Spent) -> u64| {
                let each = median(own.iter().map(|spent| of(spent) as f64).collect());
                each.map_or("-".to_owned(), |ns| match ns as u64 {
                    u64::MAX => "more".to_owned(),
                    ns => show_ns(ns),
                })
            };
            row.extend([of(|spent| spent.mean_ns), of(|spent| spent.p99_below_ns)]);
        }
        row.push(what.to_owned());
        rows.push(row);
    }
    align(&rows)
}

const HEADINGS: [&str; 8] = [
    "at the leader",
    "alone",
    "p99 <=",
    "beside large",
    "p99 <=",
    "beside load",
    "p99 <=",
    "",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn page(counts: [u32; 3], sum: f64) -> String {
        let [ms, ten, all] = counts;
        format!(
            "quorate_latency_seconds_bucket{{place=\"log\",le=\"0.001\"}} {ms}\n\
             quorate_latency_seconds_bucket{{place=\"log\",le=\"0.01\"}} {ten}\n\
             quorate_latency_seconds_bucket{{place=\"log\",le=\"+Inf\"}} {all}\n\
             quorate_latency_seconds_sum{{place=\"log\"}} {sum}\n"
        )
    }

    #[test]
    fn what_was_spent_is_the_difference_of_two_pages() {
        let before = Reading::parse(&page([100, 100, 100], 0.05));
        let after = Reading::parse(&page([198, 200, 200], 0.25));
        let spent = Spent {
            count: 100,
            mean_ns: 2_000_000,
            p99_below_ns: 10_000_000,
        };
        assert_eq!(after.since(&before), [("log", spent)].into());
        assert_eq!(after.since(&after), [].into());
    }
}
