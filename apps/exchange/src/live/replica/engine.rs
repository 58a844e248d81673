//! An engine that is as slow as it is told to be.

/// How late the clock may be looked at without a loss of what the engine could have done since, in ns.
const SLACK_NS: u64 = 200_000;

/// When an engine of a rate may take the next order. It takes no CPU time for what it waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Engine {
    /// The time for an order, in ns; 0 where nothing slows the engine.
    order_ns: u64,
    /// When the engine is free again, by the steady clock.
    free_ns: u64,
}

impl Engine {
    /// An engine of so many orders in a second; 0 is as many as there are.
    pub(super) fn of_rate(rate: u64) -> Engine {
        Engine {
            order_ns: 1_000_000_000_u64.checked_div(rate).unwrap_or_default(),
            free_ns: 0,
        }
    }

    /// How long it takes until the engine is free, in ns.
    pub(super) fn free_in_ns(&self, steady_ns: u64) -> u64 {
        self.free_ns.saturating_sub(steady_ns)
    }

    /// Takes an order.
    pub(super) fn take(&mut self, steady_ns: u64) {
        if self.order_ns > 0 {
            let begun_ns = self.free_ns.max(steady_ns.saturating_sub(SLACK_NS));
            self.free_ns = begun_ns.saturating_add(self.order_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: somebody looks each millisecond, and an engine of 100 us is always asked for more.
    #[test]
    fn an_engine_does_what_its_rate_says_and_saves_nothing_up() {
        let mut engine = Engine::of_rate(10_000);
        let mut taken = 0;
        let mut free = |now_ns: u64| {
            while engine.free_in_ns(now_ns) == 0 {
                engine.take(now_ns);
                taken += 1;
            }
            std::mem::take(&mut taken)
        };
        let idle_ns = 1_000_000_000;
        assert_eq!(free(idle_ns), 3, "two of the slack, and one");
        let later = (1..=100).map(|look| free(idle_ns + look * 100_000));
        assert_eq!(later.sum::<u64>(), 100);
        let mut fast = Engine::of_rate(0);
        fast.take(5);
        assert_eq!(fast.free_in_ns(5), 0);
    }
}
