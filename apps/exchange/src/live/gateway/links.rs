//! Links to replicas: who leads, and who is asked for what is missing.

use super::Event;
use crate::exchange::GatewayId;
use crate::link::{FromReplica, ToReplica};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The pause before a replica that is not there is dialled again.
const DIAL_PAUSE: Duration = Duration::from_millis(20);
/// How long dialling may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The links of a gateway, by the places of replicas.
#[derive(Debug)]
pub(super) struct ReplicaLinks {
    outboxes: Vec<Option<Outbox>>,
    /// Whether each replica says that it leads. One that comes back may say so for a moment.
    leads: Vec<bool>,
    leader: Option<usize>,
    /// The replica that is asked next.
    next: usize,
}

/// Keeps a link to a replica, for as long as the gateway runs.
pub(super) async fn keep(
    replica: usize,
    address: String,
    gateway: GatewayId,
    events: mpsc::Sender<Event>,
) {
    loop {
        let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(&address)).await;
        if let Ok(Ok(stream)) = dialled {
            let (outbox, outgoing) = Outbox::new();
            outbox.send(ToReplica::Hello(gateway).to_bytes());
            if events.send(Event::Linked(replica, outbox)).await.is_err() {
                return;
            }
            let heard = |message| Event::Heard(replica, message);
            // Why it broke is told by the replica.
            let _ = connection::run(stream, outgoing, FromReplica::take, &events, heard).await;
            if events.send(Event::Unlinked(replica)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(DIAL_PAUSE).await;
    }
}

impl ReplicaLinks {
    pub(super) fn new(replicas: usize) -> Self {
        ReplicaLinks {
            outboxes: vec![None; replicas],
            leads: vec![false; replicas],
            leader: None,
            next: 0,
        }
    }

    pub(super) fn begin(&mut self, replica: usize, outbox: Outbox) {
        self.outboxes[replica] = Some(outbox);
    }

    /// Forgets a link that ended; says whether requests go to another replica from now on.
    pub(super) fn end(&mut self, replica: usize) -> bool {
        self.outboxes[replica] = None;
        self.lead(replica, false)
    }

    /// Learns whether a replica leads; says whether requests go to another one from now on.
    pub(super) fn lead(&mut self, replica: usize, leads: bool) -> bool {
        self.leads[replica] = leads;
        let before = self.leader;
        if leads {
            self.leader = Some(replica);
        } else if before == Some(replica) {
            self.leader = self.leads.iter().position(|leads| *leads);
        }
        self.leader != before && self.leader.is_some()
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.leader
    }

    pub(super) fn send_to_leader(&mut self, message: &ToReplica) {
        if let Some(leader) = self.leader {
            self.send(leader, message);
        }
    }

    /// Asks a replica, each time another one of those that are there.
    pub(super) fn ask(&mut self, message: &ToReplica) {
        for _ in 0..self.outboxes.len() {
            self.next = (self.next + 1) % self.outboxes.len();
            if self.outboxes[self.next].is_some() {
                return self.send(self.next, message);
            }
        }
    }

    pub(super) fn tell_time(&mut self, replica: usize, asked_ns: u64) {
        let now_ns = clock::now().clock_ns;
        let answer = ToReplica::Clock {
            asked_ns,
            received_ns: now_ns,
            answered_ns: now_ns,
        };
        self.send(replica, &answer);
    }

    fn send(&mut self, replica: usize, message: &ToReplica) {
        let outbox = &mut self.outboxes[replica];
        if outbox
            .as_ref()
            .is_some_and(|outbox| !outbox.send(message.to_bytes()))
        {
            *outbox = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::SymbolId;

    /// Everything that may wait for an answer goes to a new leader before anything of it is sent.
    #[tokio::test]
    async fn all_that_waits_for_answers_can_go_to_a_new_leader_at_once() {
        let mut links = ReplicaLinks::new(1);
        let (outbox, _outgoing) = Outbox::new();
        outbox.send(ToReplica::Hello(GatewayId(1)).to_bytes());
        links.begin(0, outbox);
        assert!(links.lead(0, true));
        for from in 0..super::super::PENDING_MAX.all as u64 {
            let symbol = SymbolId(0);
            links.send_to_leader(&ToReplica::Fetch { symbol, from });
        }
        assert!(links.outboxes[0].is_some());
    }

    #[test]
    fn a_leader_that_takes_it_back_leaves_the_place_to_the_one_that_leads() {
        let mut links = ReplicaLinks::new(3);
        assert!(links.lead(2, true));
        assert!(links.lead(1, true));
        assert_eq!(links.leader(), Some(1));
        assert!(links.lead(1, false));
        assert_eq!(links.leader(), Some(2));
        assert!(!links.end(2));
        assert_eq!(links.leader(), None);
    }
}
