//! What a replica's metrics page says: counters, gauges and histograms by name and label.

use std::collections::BTreeMap;

/// One reading of a metrics page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// The samples by everything before the value: name and labels.
    samples: BTreeMap<String, f64>,
}

/// Bucket counts of a histogram, cumulative, by upper bound in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    buckets: Vec<(f64, f64)>,
}

impl Reading {
    pub(crate) fn parse(text: &str) -> Reading {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Reading {
            samples: samples.collect(),
        }
    }

    /// A counter or gauge; 0 if it is not there.
    pub(super) fn value(&self, name: &str) -> f64 {
        self.samples.get(name).copied().unwrap_or(0.0)
    }

    /// The sum of a metric over all peers.
    pub(crate) fn of_peers(&self, name: &str) -> f64 {
        self.of_each_peer(name).values().sum()
    }

    /// A metric of each peer, by the peer's name.
    pub(crate) fn of_each_peer(&self, name: &str) -> BTreeMap<&str, f64> {
        let beginning = format!("{name}{{peer=\"");
        let samples = self.samples.range(beginning.clone()..);
        let samples = samples.take_while(|(name, _)| name.starts_with(&beginning));
        let of_peers = samples.filter_map(|(name, value)| {
            let peer = name[beginning.len()..].strip_suffix("\"}")?;
            Some((peer, *value))
        });
        of_peers.collect()
    }

    /// The time in seconds that was spent at a place in all, and how often.
    pub(crate) fn time_at(&self, place: &str) -> (f64, f64) {
        let of = |what| format!("quorate_latency_seconds_{what}{{place=\"{place}\"}}");
        (self.value(&of("sum")), self.value(&of("count")))
    }

    /// What the protocol says of itself, by name; what it does not say is left out.
    pub(super) fn protocol(&self) -> BTreeMap<String, f64> {
        let beginning = "quorate_protocol{figure=\"";
        let samples = self.samples.range(beginning.to_owned()..);
        let samples = samples.take_while(|(name, _)| name.starts_with(beginning));
        let told = samples.filter(|(_, value)| value.is_finite());
        told.filter_map(|(name, value)| {
            let figure = name[beginning.len()..].strip_suffix("\"}")?;
            Some((figure.to_owned(), *value))
        })
        .collect()
    }

    /// The latencies of a place.
    pub(super) fn latency(&self, place: &str) -> Histogram {
        let beginning = format!("quorate_latency_seconds_bucket{{place=\"{place}\",le=\"");
        let samples = self
            .samples
            .range(beginning.clone()..)
            .take_while(|(name, _)| name.starts_with(&beginning));
        let mut buckets: Vec<(f64, f64)> = samples
            .filter_map(|(name, count)| {
                let bound = name[beginning.len()..].strip_suffix("\"}")?;
                Some((bound.parse().unwrap_or(f64::INFINITY), *count))
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Histogram { buckets }
    }
}

impl Histogram {
    /// What was added since an earlier reading of the same histogram.
    pub(super) fn since(&self, earlier: &Histogram) -> Histogram {
        let before = |at: usize| earlier.buckets.get(at).map_or(0.0, |bucket| bucket.1);
        let buckets = self.buckets.iter().enumerate();
        Histogram {
            buckets: buckets
                .map(|(at, (bound, count))| (*bound, (count - before(at)).max(0.0)))
                .collect(),
        }
    }

    pub(super) fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |bucket| bucket.1)
    }

    /// The value in us below which `share` of all samples lie, as exactly as the buckets tell.
    pub(super) fn quantile_us(&self, share: f64) -> Option<f64> {
        let total = self.count();
        if total == 0.0 {
            return None;
        }
        let rank = share * total;
        let at = self.buckets.iter().position(|bucket| bucket.1 >= rank)?;
        let (low, below) = match at.checked_sub(1) {
            Some(before) => self.buckets[before],
            None => (0.0, 0.0),
        };
        let (high, until) = self.buckets[at];
        let seconds = match high.is_finite() {
            true => low + (high - low) * ((rank - below) / (until - below).max(1.0)),
            false => low,
        };
        // The buckets tell no more than tenths.
        Some((seconds * 1e7).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP quorate_turns_total x\nquorate_turns_total 7\n\
        quorate_latency_seconds_bucket{place=\"log\",le=\"0.001\"} 50\n\
        quorate_latency_seconds_bucket{place=\"log\",le=\"0.01\"} 100\n\
        quorate_latency_seconds_bucket{place=\"log\",le=\"+Inf\"} 100\n\
        quorate_latency_seconds_bucket{place=\"total\",le=\"+Inf\"} 3\nnonsense\n\
        quorate_latency_seconds_sum{place=\"log\"} 0.25\nquorate_latency_seconds_count{place=\"log\"} 100\n\
        quorate_peer_queued_bytes{peer=\"2\"} 3\nquorate_peer_queued_bytes{peer=\"3\"} 4\n\
        quorate_protocol{figure=\"view\"} 2\nquorate_protocol{figure=\"gone\"} NaN\n";

    #[test]
    fn quantiles_come_from_buckets_and_differences_from_two_readings() {
        let reading = Reading::parse(PAGE);
        assert_eq!(reading.value("quorate_turns_total"), 7.0);
        assert_eq!(reading.value("missing"), 0.0);
        let log = reading.latency("log");
        assert_eq!((log.count(), log.quantile_us(0.5)), (100.0, Some(1000.0)));
        assert_eq!(log.quantile_us(0.75), Some(5500.0));
        assert_eq!(reading.latency("ring").quantile_us(0.5), None);
        assert_eq!(reading.time_at("log"), (0.25, 100.0));
        assert_eq!(reading.of_peers("quorate_peer_queued_bytes"), 7.0);
        assert_eq!(reading.protocol(), BTreeMap::from([("view".into(), 2.0)]));
        let same = log.since(&log);
        assert_eq!((same.count(), same.quantile_us(0.5)), (0.0, None));
    }
}
