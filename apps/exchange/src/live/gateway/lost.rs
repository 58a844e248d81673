//! Participants whose connection was lost, until the exchange has cancelled their orders.

use super::GatewayMachine;
use crate::book::ParticipantId;
use crate::link::ToReplica;
use crate::live::clock;
use std::collections::BTreeMap;

/// How long the answer of a leader is waited for, in ns.
const RESEND_NS: u64 = 1_000_000_000;

/// Participants whose orders are being cancelled, and when the exchange is told again.
#[derive(Debug, Default)]
pub(super) struct LostParticipants(BTreeMap<ParticipantId, u64>);

impl LostParticipants {
    pub(super) fn contains(&self, participant: ParticipantId) -> bool {
        self.0.contains_key(&participant)
    }

    /// Learns that the orders of a participant are cancelled.
    pub(super) fn handle_cancelled(&mut self, participant: ParticipantId) {
        self.0.remove(&participant);
    }
}

impl GatewayMachine {
    /// Has the orders of a participant cancelled, unless another connection of it is here. Until that is done nobody
    /// logs in as this participant, for what is entered then is not to be cancelled.
    pub(super) fn connection_lost(&mut self, participant: ParticipantId) {
        let is_on = self.sessions.is_on(participant) || self.fix.is_on(participant);
        if self.options.cancels_on_disconnect && !is_on {
            self.lost.0.insert(participant, 0);
            self.tell_lost();
        }
    }

    /// Tells the leader of lost connections, again where it has not answered for long.
    pub(super) fn tell_lost(&mut self) {
        let now_ns = clock::now().steady_ns;
        for (participant, due_ns) in &mut self.lost.0 {
            if *due_ns <= now_ns && self.links.leader().is_some() {
                *due_ns = now_ns + RESEND_NS;
                self.links.send_to_leader(&ToReplica::Lost(*participant));
            }
        }
    }

    /// Tells a new leader of lost connections at once.
    pub(super) fn tell_all_lost(&mut self) {
        self.lost.0.values_mut().for_each(|due_ns| *due_ns = 0);
        self.tell_lost();
    }
}
