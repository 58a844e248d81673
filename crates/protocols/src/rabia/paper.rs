//! The figures of Rabia's paper (sections 1 and 6, appendix E) and the settings they belong to.

use crate::registry::paper::{About, Paper, Setting, Shares};

/// Appendix E: table 3 and the text before it.
pub(super) static PAPER: Paper = Paper {
    about: About::Slots,
    settings: &[
        Setting {
            name: "three-step",
            what: "Algorithm 2 as it is printed: one slot at a time, decisions by votes only",
            params: &[
                ("mode", "three_step"),
                ("fast_rules", "false"),
                ("vote_hold_us", "0"),
                ("window", "1"),
                ("batch_commands", "300"),
            ],
            delays: 3,
        },
        Setting {
            name: "two-step",
            what: "the same with votes right after the proposals, as the paper's authors published it",
            params: &[
                ("mode", "two_step"),
                ("fast_rules", "false"),
                ("vote_hold_us", "0"),
                ("window", "1"),
                ("batch_commands", "300"),
            ],
            delays: 2,
        },
        Setting {
            name: "default",
            what: "what `quorate up` runs: two-step, decisions by equal proposals where all agree, a vote \
                   that waits for them, two slots at a time",
            params: &[],
            delays: 1,
        },
    ],
    shares: &[
        Shares {
            load: "open loop",
            fast_percent: 99.58,
            noop_percent: 0.31,
        },
        Shares {
            load: "closed loop",
            fast_percent: 96.81,
            noop_percent: 2.22,
        },
    ],
    measured: "three and five replicas in memory on 4-CPU machines of one zone of a public cloud, round trips \
               of 0.25 ms; requests of 16 bytes, half of them reads, ten from a client at once, batched by the \
               replica until there are 20 such tens or 5 ms are over; one slot at a time. The shares are over \
               all its runs, overload included; the fast path takes 3 delays",
    differs: "a batch is closed as soon as it may be proposed, so that slots are small and many at low load; \
              reads need no slot, so that all requests are writes; replicas take turns of up to 20 us and no \
              other time, so that more requests make batches larger and nothing slower",
};
