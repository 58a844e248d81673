//! Nezha, as registered.

use super::config::Config;
use super::remote_gateway::RemoteGatewayConfig;
use super::{Replica, describe, mutants, paper};
use crate::registry::paper::Paper;
use crate::registry::{Mutant, Protocol};
use crate::shared::words::{described_by, plain_protocol};
use quorate_core::{Seat, Touches};

/// Nezha, as registered.
pub struct Nezha;

impl Protocol for Nezha {
    const NAME: &'static str = "nezha";

    fn commute(config: &mut Config, touches: Touches) {
        if config.commutes {
            config.touches = Some(touches);
        }
    }

    fn remote_gateway(seat: &Seat, touches: Option<Touches>) -> Option<RemoteGatewayConfig> {
        // What the members take for parameters is what they were told to.
        let mut config = Config::of_gateway(seat).ok()?;
        if let Some(touches) = touches {
            Nezha::commute(&mut config, touches);
        }
        Some(RemoteGatewayConfig {
            members: config,
            me: seat.me,
        })
    }

    fn paper() -> Option<&'static Paper> {
        Some(&paper::PAPER)
    }

    plain_protocol!();
    described_by!(describe);
}

/// What seeds try: deadlines that are too soon or far away, bounds on what is held, logs and gateways that
/// take little at once, and leaders that are given up soon.
///
/// Not `wan`, whose round trip of 300 ms has what is lost said again after more than a second: with a log of one entry
/// (`window`) of few commands that is slower than what the simulator's clients ask for. Seeds of it name a round trip.
const VARIATIONS: &[(&str, &[&str])] = &[
    ("owd_us", &["50", "20000"]),
    ("far_us", &["20", "50000"]),
    ("hold", &["0", "100", "200"]),
    ("sync_us", &["500", "20000"]),
    ("percentile", &["25", "100"]),
    ("window", &["1", "8"]),
    ("outstanding", &["1", "4"]),
    ("batch_commands", &["1", "4"]),
    ("rtt_us", &["50", "20000"]),
    ("election_ms", &["25", "500"]),
];

const BRANCHES: &[&str] = &[
    "behind the view",
    "behind those who left",
    "committed fast",
    "committed slowly",
    "double decision skipped",
    "far deadline",
    "late at a follower",
    "late at the leader",
    "leader overtaken",
    "leader suspected",
    "overtaken while unsynced",
    "read confirmed",
    "rejoined",
    "sums asked for",
    "view change",
    "view started",
    "waited too long",
    "window full",
    "word of a former life",
];
