//! What a write costs each role, counted on the network, beside what the protocol comes to in theory.

use crate::figures::points::Point;

/// What a row of the table counts.
pub(super) struct Row {
    pub(super) role: &'static str,
    pub(super) what: &'static str,
    /// What it is in theory, `b` being the entries in a log modification: 1 here.
    pub(super) said: &'static str,
    pub(super) count: fn(&Costs<'_>) -> f64,
}

/// All rows.
pub(super) const ROWS: [Row; 12] = [
    Row {
        role: "gateway",
        what: "sends request",
        said: "n",
        // To its own replica, too.
        count: |costs| costs.sent("gateway", "request") + 1.0,
    },
    Row {
        role: "gateway",
        what: "receives fast-reply",
        said: "n",
        count: |costs| costs.received("gateway", "fast-reply") + 1.0,
    },
    Row {
        role: "gateway",
        what: "receives synced",
        said: "(n-1)/b",
        count: |costs| costs.received("gateway", "synced") + 1.0,
    },
    Row {
        role: "leader",
        what: "receives request",
        said: "1",
        count: |costs| costs.received("leader", "request"),
    },
    Row {
        role: "leader",
        what: "sends fast-reply",
        said: "1",
        count: |costs| costs.sent("leader", "fast-reply"),
    },
    Row {
        role: "leader",
        what: "sends log-mod",
        said: "(n-1)/b",
        count: |costs| costs.sent("leader", "log-mod"),
    },
    Row {
        role: "leader",
        what: "receives synced",
        said: "(n-1)/b",
        count: |costs| costs.received("leader", "synced"),
    },
    Row {
        role: "follower",
        what: "receives request",
        said: "1",
        count: |costs| costs.received("follower", "request"),
    },
    Row {
        role: "follower",
        what: "receives log-mod",
        said: "1/b",
        count: |costs| costs.received("follower", "log-mod"),
    },
    Row {
        role: "follower",
        what: "sends fast-reply",
        said: "1",
        count: |costs| costs.sent("follower", "fast-reply"),
    },
    Row {
        role: "follower",
        what: "sends synced",
        said: "2/b",
        count: |costs| costs.sent("follower", "synced"),
    },
    Row {
        role: "all",
        what: "send anything else",
        said: "0",
        count: |costs| costs.other(),
    },
];

const KNOWN: [&str; 4] = ["request", "fast-reply", "log-mod", "synced"];

/// The messages of a run in which one follower's gateway takes all requests.
pub(super) struct Costs<'a>(pub(super) &'a Point);

impl Costs<'_> {
    /// Sent by a replica of this role, per write.
    fn sent(&self, role: &str, kind: &str) -> f64 {
        self.per_write(|from, _, said| self.is(from, role) && said == kind) / self.how_many(role)
    }

    /// Received by one.
    fn received(&self, role: &str, kind: &str) -> f64 {
        self.per_write(|_, to, said| self.is(to, role) && said == kind) / self.how_many(role)
    }

    /// What nobody counts on.
    fn other(&self) -> f64 {
        self.per_write(|_, _, said| !KNOWN.contains(&said))
    }

    /// All of this kind.
    pub(super) fn all(&self, kind: &str) -> f64 {
        self.per_write(|_, _, said| said == kind)
    }

    /// All of every kind.
    pub(super) fn total(&self) -> f64 {
        self.per_write(|_, _, _| true)
    }

    fn per_write(&self, counts: impl Fn(usize, usize, &str) -> bool) -> f64 {
        let messages = self.0.measured.messages.iter();
        let messages = messages.filter(|((from, to, kind), _)| counts(*from, *to, kind));
        let count: u64 = messages.map(|(_, count)| count).sum();
        count as f64 / self.0.measured.latencies_ns.len().max(1) as f64
    }

    /// The first replica leads; the gateway's own is a follower like the others, and counted apart.
    fn is(&self, replica: usize, role: &str) -> bool {
        let gateway = self.0.steady.gateways.map(|(first, _)| first);
        match role {
            "leader" => replica == 0,
            "gateway" => Some(replica) == gateway,
            _ => replica != 0 && Some(replica) != gateway,
        }
    }

    fn how_many(&self, role: &str) -> f64 {
        match role {
            "follower" => self.0.replicas.saturating_sub(2).max(1) as f64,
            _ => 1.0,
        }
    }
}
