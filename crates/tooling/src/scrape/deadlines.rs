//! What replicas and gateways say of requests that are ordered by deadlines.

use super::labelled;

/// Sums over all that were asked.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Deadlines {
    /// Entries that their gateway answered on the fast path, and those on any other.
    fast: f64,
    slow: f64,
    /// Requests that replicas released, and how long they had held them for their deadlines.
    released: f64,
    held_us: f64,
}

impl Deadlines {
    pub(super) fn parse(text: &str) -> Deadlines {
        let figure = |name: &str| {
            let value = labelled(text, "quorate_protocol", &format!("figure=\"{name}\""));
            // What another protocol had said of itself.
            if value.is_nan() { 0.0 } else { value }
        };
        Deadlines {
            fast: figure("answered_fast_total"),
            slow: figure("answered_slowly_total"),
            released: figure("released_total"),
            held_us: figure("held_us_total"),
        }
    }

    pub(super) fn since(self, earlier: Deadlines) -> Deadlines {
        Deadlines {
            fast: self.fast - earlier.fast,
            slow: self.slow - earlier.slow,
            released: self.released - earlier.released,
            held_us: self.held_us - earlier.held_us,
        }
    }

    pub(super) fn plus(self, other: Deadlines) -> Deadlines {
        Deadlines {
            fast: self.fast + other.fast,
            slow: self.slow + other.slow,
            released: self.released + other.released,
            held_us: self.held_us + other.held_us,
        }
    }

    /// Entries that gateways answered.
    pub fn entries(&self) -> f64 {
        self.fast + self.slow
    }

    /// How many of them on the fast path; `None` where nothing has deadlines.
    pub fn fast_share(&self) -> Option<f64> {
        (self.entries() > 0.0).then(|| self.fast / self.entries())
    }

    /// How long a replica held a request, in the mean.
    pub fn held_us(&self) -> Option<f64> {
        (self.released > 0.0).then(|| self.held_us / self.released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_say_which_path_and_replicas_how_long() {
        let gateway = "quorate_protocol{figure=\"answered_fast_total\"} 30\n\
                       quorate_protocol{figure=\"answered_slowly_total\"} 10\n";
        let replica = "quorate_protocol{figure=\"answered_fast_total\"} NaN\n\
                       quorate_protocol{figure=\"released_total\"} 40\n\
                       quorate_protocol{figure=\"held_us_total\"} 2000\n";
        let all = Deadlines::parse(gateway).plus(Deadlines::parse(replica));
        assert_eq!(all.fast_share(), Some(0.75));
        assert_eq!(all.held_us(), Some(50.0));
        assert_eq!(all.since(all).fast_share(), None);
    }
}
