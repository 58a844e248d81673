//! Whether this replica reaches a quorum, as clients are told who do not want to be served without one.
//!
//! A broken connection says at once that a peer is gone. A frozen process, or a network that drops everything, leaves
//! the connection as it is: then only silence tells. Replicas that have nothing to do are silent, too, so peers are
//! asked for a sign of life, but only while some client wants to know. `docs/decisions/0030-no-leader.md` has the
//! reasons.

use quorate_core::ReplicaId;
use std::collections::{BTreeMap, BTreeSet};

/// The time between two checks of which peers were heard of, in ns.
const CHECK_EVERY_NS: u64 = 250_000_000;
/// A peer that said nothing for so long is asked for a sign of life, in ns.
const ASK_AFTER_NS: u64 = 500_000_000;
/// A peer that said nothing for so long is not reached, in ns.
const SILENT_AFTER_NS: u64 = 2_000_000_000;
/// A quorum that was missed for so long is lost, in ns.
const LOST_AFTER_NS: u64 = 2_000_000_000;
/// A look that comes so much too late says that this replica itself was held up, in ns.
const LATE_NS: u64 = 1_000_000_000;

/// Whether a replica reaches a quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quorum {
    /// Enough members give signs of life.
    Reached,
    /// No quorum is reached at present: new calls that want a quorum are refused, streams go on.
    Missed,
    /// No quorum was reached for some time: streams that want a quorum end.
    Lost,
}

/// When each peer was heard of, and since when a quorum is missed.
#[derive(Debug, Default)]
pub(crate) struct QuorumWatch {
    /// When a frame of a peer or a connection to it came last, in ns of the monotonic clock.
    heard: BTreeMap<ReplicaId, u64>,
    /// Peers that did not give a sign of life when they were asked.
    silent: BTreeSet<ReplicaId>,
    /// When to look next; `None` while nobody has to be asked.
    check_at: Option<u64>,
    missed_since: Option<u64>,
    is_lost: bool,
}

impl QuorumWatch {
    /// A peer gave a sign of life.
    pub(crate) fn heard(&mut self, peer: ReplicaId, now_ns: u64) {
        self.heard.insert(peer, now_ns);
        self.silent.remove(&peer);
    }

    /// The connection to a peer broke: it is not reached, whatever it may say.
    pub(crate) fn disconnected(&mut self, peer: ReplicaId) {
        self.silent.remove(&peer);
    }

    /// Whether a peer is known not to answer, though there may be a connection to it.
    pub(crate) fn is_silent(&self, peer: ReplicaId) -> bool {
        self.silent.contains(&peer)
    }

    /// Looks who was heard of lately, when it is time; says whom to ask for a sign of life.
    pub(crate) fn check(
        &mut self,
        now_ns: u64,
        is_watched: bool,
        peers: impl Iterator<Item = ReplicaId>,
    ) -> Vec<ReplicaId> {
        // Who was found silent is asked until it speaks or its connection breaks, whoever wants to know.
        if !is_watched && self.silent.is_empty() {
            self.check_at = None;
            return Vec::new();
        }
        match self.check_at {
            Some(at) if at > now_ns => return Vec::new(),
            Some(at) if now_ns - at < LATE_NS => {}
            // Nobody looked until now, or what peers said meanwhile waits to be read.
            _ => {
                self.heard.clear();
                self.missed_since = self.missed_since.map(|_| now_ns);
            }
        }
        self.check_at = Some(now_ns + CHECK_EVERY_NS);
        let mut to_ask = Vec::new();
        for peer in peers {
            let ago_ns = now_ns.saturating_sub(*self.heard.entry(peer).or_insert(now_ns));
            if ago_ns >= ASK_AFTER_NS {
                to_ask.push(peer);
            }
            if ago_ns >= SILENT_AFTER_NS {
                self.silent.insert(peer);
            }
        }
        to_ask
    }

    /// What clients are told, by whether a quorum is reached now.
    pub(crate) fn judge(&mut self, now_ns: u64, is_reached: bool) -> Quorum {
        if is_reached {
            (self.missed_since, self.is_lost) = (None, false);
            return Quorum::Reached;
        }
        let since = *self.missed_since.get_or_insert(now_ns);
        self.is_lost |= now_ns.saturating_sub(since) >= LOST_AFTER_NS;
        match self.is_lost {
            true => Quorum::Lost,
            false => Quorum::Missed,
        }
    }

    /// When to look or judge next.
    pub(crate) fn next(&self) -> Option<u64> {
        let lost_at = self.missed_since.map(|since| since + LOST_AFTER_NS);
        let lost_at = lost_at.filter(|_| !self.is_lost);
        self.check_at.into_iter().chain(lost_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PEERS: [ReplicaId; 2] = [ReplicaId(2), ReplicaId(3)];

    /// A replica that looks whenever it is time to, and the peers that answer it.
    struct Watched {
        watch: QuorumWatch,
        now_ns: u64,
        answering: Vec<ReplicaId>,
        asked: usize,
    }

    impl Watched {
        fn start() -> Watched {
            Watched {
                watch: QuorumWatch::default(),
                now_ns: 7_000 * MS,
                answering: PEERS.to_vec(),
                asked: 0,
            }
        }

        fn check(&mut self) -> Quorum {
            let asked = self.watch.check(self.now_ns, true, PEERS.into_iter());
            self.asked += asked.len();
            for peer in asked {
                if self.answering.contains(&peer) {
                    self.watch.heard(peer, self.now_ns);
                }
            }
            let silent = PEERS.iter().filter(|peer| self.watch.is_silent(**peer));
            let is_reached = silent.count() < 2;
            self.watch.judge(self.now_ns, is_reached)
        }

        /// Looks for so long; says what was told last.
        fn pass(&mut self, ms: u64) -> Quorum {
            let end = self.now_ns + ms * MS;
            let mut quorum = self.check();
            while let Some(at) = self.watch.next().filter(|at| *at <= end) {
                self.now_ns = at;
                quorum = self.check();
            }
            self.now_ns = end;
            quorum
        }
    }

    #[test]
    fn silent_peers_are_missed_after_two_seconds_and_lost_within_five() {
        let mut replica = Watched::start();
        assert_eq!(replica.pass(60_000), Quorum::Reached);
        replica.answering.clear();
        assert_eq!(replica.pass(1_000), Quorum::Reached);
        assert_eq!(replica.pass(1_500), Quorum::Missed);
        assert_eq!(replica.pass(2_000), Quorum::Lost);
        replica.answering.push(PEERS[0]);
        assert_eq!(replica.pass(500), Quorum::Reached);
    }

    #[test]
    fn peers_that_are_held_up_for_three_seconds_lose_nobody_a_quorum() {
        let mut replica = Watched::start();
        replica.pass(9_900);
        replica.answering.clear();
        assert_ne!(replica.pass(3_000), Quorum::Lost);
        replica.answering = PEERS.to_vec();
        assert_eq!(replica.pass(1_000), Quorum::Reached);
    }

    /// Scenario: this replica itself is frozen for ten seconds, or its disk is.
    #[test]
    fn a_replica_that_was_held_up_does_not_blame_its_peers() {
        let mut replica = Watched::start();
        replica.pass(5_000);
        replica.now_ns += 10_000 * MS;
        assert_eq!(replica.check(), Quorum::Reached);
        assert_eq!(replica.pass(5_000), Quorum::Reached);
    }

    #[test]
    fn nobody_is_asked_while_no_client_wants_to_know() {
        let mut replica = Watched::start();
        replica.pass(5_000);
        assert!(replica.asked > 0);
        let asked = replica
            .watch
            .check(replica.now_ns + MS, false, PEERS.into_iter());
        assert_eq!((asked, replica.watch.next()), (Vec::new(), None));
    }

    /// Scenario: a client is told that the quorum is lost, and leaves. Until a peer speaks, it is not reached for
    /// others.
    #[test]
    fn a_silent_peer_is_asked_until_it_speaks_or_is_gone() {
        let mut replica = Watched::start();
        replica.pass(5_000);
        replica.answering.clear();
        replica.pass(5_000);
        let mut look = |watch: &mut QuorumWatch| {
            replica.now_ns += CHECK_EVERY_NS;
            watch.check(replica.now_ns, false, PEERS.into_iter())
        };
        let watch = &mut replica.watch;
        assert_eq!(look(watch), PEERS);
        watch.heard(PEERS[0], watch.check_at.unwrap());
        assert_eq!(look(watch), [PEERS[1]]);
        watch.disconnected(PEERS[1]);
        assert_eq!((look(watch), watch.next()), (Vec::new(), None));
    }

    #[test]
    fn peers_that_speak_by_themselves_are_not_asked() {
        let mut replica = Watched::start();
        for _ in 0..100 {
            replica.pass(100);
            for peer in PEERS {
                replica.watch.heard(peer, replica.now_ns);
            }
        }
        assert_eq!(replica.asked, 0);
    }
}
