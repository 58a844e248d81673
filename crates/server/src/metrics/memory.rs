//! What is shown of the memory that clients take.

use super::Registry;
use crate::budget::Budget;
use metrics::{Counter, Gauge};
use std::sync::OnceLock;

/// Figures of a [`Budget`], once there is one.
pub(super) struct MemoryMetrics {
    budget: OnceLock<Budget>,
    used: Gauge,
    limit: Gauge,
    refused: Counter,
}

impl MemoryMetrics {
    pub(super) fn new(on: &Registry<'_>) -> Self {
        MemoryMetrics {
            budget: OnceLock::new(),
            used: on.gauge(
                "quorate_client_memory_bytes",
                "Bytes of requests being received and of answers not yet taken by their clients.",
            ),
            limit: on.gauge(
                "quorate_client_memory_limit_bytes",
                "The most that quorate_client_memory_bytes may be.",
            ),
            refused: on.counter(
                "quorate_client_memory_refused_total",
                "Requests refused because the memory for clients was in use.",
            ),
        }
    }

    /// Shows this budget from now on. There is one for each process.
    pub(super) fn show(&self, budget: Budget) {
        let _ = self.budget.set(budget);
    }

    /// Brings the figures up to date.
    pub(super) fn publish(&self) {
        if let Some(budget) = self.budget.get() {
            self.used.set(budget.used() as f64);
            self.limit.set(budget.limit() as f64);
            self.refused.absolute(budget.refused());
        }
    }
}
