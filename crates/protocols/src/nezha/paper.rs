//! The settings that the figures of Nezha's paper belong to (sections 2, 3 and 8.5), and what it says of them.

use crate::registry::paper::{About, Paper, Setting};

/// Sections 2, 3 and 8; the technical report's appendix D.
pub(super) static PAPER: Paper = Paper {
    about: About::Deadlines,
    settings: &[
        Setting {
            name: "paper",
            what: "deadlines allow for the 50th percentile of delays",
            params: &[("hold", "100"), ("percentile", "50")],
            delays: 2,
        },
        Setting {
            name: "default",
            what: "what `quorate up --protocol nezha` runs: what deadlines allow for is found out",
            params: &[],
            delays: 2,
        },
        Setting {
            name: "unheld",
            what: "deadlines are the times of sending, so that nothing waits and what is overtaken is late",
            params: &[("hold", "0")],
            delays: 2,
        },
        Setting {
            name: "slow",
            what: "deadlines are further away than anything is held, so that the leader takes requests as they \
                   come, and followers take them from it",
            params: &[("hold", "200"), ("far_us", "20")],
            delays: 3,
        },
    ],
    shares: &[],
    measured: "with proxies on machines of their own, clocks synchronised to tens of nanoseconds (Huygens), in one zone of a \
               public cloud whose network reorders: the score of two senders goes beyond 28 % as their rate grows, that \
               of many with 10,000 messages a second each up to 43 %; writes of a key-value store, which conflict by key",
    differs: "every replica is a gateway, so that what a gateway says to its own replica takes no time and is no \
              message; all writes of the store conflict, for they share its revision; links keep the order of what \
              goes over them, as TCP does; replicas take turns of up to 20 us and no other time",
};
