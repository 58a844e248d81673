//! What probes came to, as a page of metrics shows it.

use crate::page::Page;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What probes came to since the process began.
#[derive(Debug, Default)]
pub struct ProbeCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How often `/health` was well, and how often not.
    health: [u64; 2],
    /// By kind and name of the check: whether it was well last, how often it was, how often not.
    checks: BTreeMap<(&'static str, &'static str), (bool, [u64; 2])>,
}

impl ProbeCounts {
    /// Notes what `/health` came to.
    pub(crate) fn count_health(&self, is_well: bool) {
        self.lock().health[usize::from(!is_well)] += 1;
    }

    /// Notes what a check came to.
    pub(crate) fn count_check(&self, kind: &'static str, name: &'static str, is_well: bool) {
        let mut counts = self.lock();
        let (last, times) = counts.checks.entry((kind, name)).or_default();
        *last = is_well;
        times[usize::from(!is_well)] += 1;
    }

    /// Adds the counts to a page of metrics, under etcd's names.
    pub(crate) fn show(&self, page: &mut Page) {
        let counts = self.lock();
        let [well, failed] = counts.health;
        page.counter(
            "etcd_server_health_success",
            "Requests of /health that found the member well.",
            well,
        );
        page.counter(
            "etcd_server_health_failures",
            "Requests of /health that found it not well.",
            failed,
        );
        let last = counts.checks.iter().map(|((kind, name), (last, _))| {
            let labels = vec![("type", *kind), ("name", *name)];
            (labels, f64::from(u8::from(*last)))
        });
        page.family(
            "etcd_server_healthcheck",
            "gauge",
            "What each check came to last.",
            last,
        );
        let times = counts
            .checks
            .iter()
            .flat_map(|((kind, name), (_, [well, failed]))| {
                let sample = |status, times: u64| {
                    let labels = vec![("type", *kind), ("name", *name), ("status", status)];
                    (labels, times as f64)
                };
                [sample("success", *well), sample("error", *failed)]
            });
        page.family(
            "etcd_server_healthchecks_total",
            "counter",
            "How often each check came to what.",
            times,
        );
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
