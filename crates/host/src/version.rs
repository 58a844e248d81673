//! Versions of what replicas say to each other.
//!
//! A version covers the frames between two replicas and everything in them. A replica speaks a row
//! of versions; two agree on the newest that both speak when they connect, and each frame names the
//! one it is in. A cluster is upgraded and downgraded one replica after the other that way.
//!
//! | version | what it added |
//! |---|---|
//! | 1 | |
//! | 2 | a handshake says where its sender serves clients, its name, and the feature level it knows |
//! | 3 | frames claim how far their sender's promises go, and peers say what they remember of that; a replica without data is told where the members are; one that cannot write its log asks where it may answer reads |
//! | 4 | nothing but the feature level that its speaker knows |
//! | 5 | nothing but the feature level that its speaker knows |
//! | 6 | nothing but the feature level that its speaker knows |
//! | 7 | nothing but the feature level that its speaker knows |
//! | 8 | nothing but the feature level that its speaker knows |
//!
//! What changes the meaning of commands is no matter of versions: it is a *feature level*, part of the
//! replicated state, raised by an order once all replicas know it. A cluster can go back to an older
//! program until then.
//!
//! | feature level | what it added |
//! |---|---|
//! | 1 | |
//! | 2 | names of replicas, and where they serve clients, are part of the state |
//! | 3 | alarms are part of the state, and commands are refused because of them; logs note how far promises of peers went |
//! | 4 | the etcd store has users and roles; what else has come since with new kinds of commands |
//! | 5 | the embedded store of the Redis face has users, and commands say in whose name they are asked |
//! | 6 | the stream of real servers behind the Redis face may be that of another server for a while |
//! | 7 | a group may go on with protocol `raft` |
//! | 8 | the data of the embedded store of the Redis face may be that of another server for a while |

use quorate_core::{Peers, ReplicaId};
use std::collections::BTreeMap;
use std::fmt;

/// The feature level of a new group: what commands mean in the first program that had levels.
pub const FIRST_LEVEL: u32 = 1;
/// From this one on names of replicas, and where they serve clients, are part of the state.
pub(crate) const PUBLISHING_LEVEL: u32 = 2;
/// From this feature level on alarms are part of the state.
pub const ALARM_LEVEL: u32 = 3;
/// From this one on logs note how far the promises of peers went. Older programs cannot read such records.
pub(crate) const REMEMBERING_LEVEL: u32 = ALARM_LEVEL;
/// From this feature level on commands may change users and roles, and say who asks for them.
pub const USERS_LEVEL: u32 = 4;
/// From this wire version on its speaker knows [`USERS_LEVEL`].
const USERS_VERSION: WireVersion = WireVersion(4);
/// From this feature level on commands may change the users of the embedded store behind the Redis face.
pub const REDIS_USERS_LEVEL: u32 = 5;
/// From this wire version on its speaker knows [`REDIS_USERS_LEVEL`].
const REDIS_USERS_VERSION: WireVersion = WireVersion(5);
/// From this feature level on commands may bring the data of another server to real ones behind the Redis face.
pub const REDIS_IMPORT_LEVEL: u32 = 6;
/// From this wire version on its speaker knows [`REDIS_IMPORT_LEVEL`].
const REDIS_IMPORT_VERSION: WireVersion = WireVersion(6);
/// From this feature level on a group may go on with protocol `raft`.
pub const RAFT_LEVEL: u32 = 7;
/// From this wire version on its speaker knows [`RAFT_LEVEL`].
const RAFT_VERSION: WireVersion = WireVersion(7);
/// From this feature level on commands may bring the data of another server to the embedded store of the Redis face.
pub const REDIS_STORE_IMPORT_LEVEL: u32 = 8;
/// From this wire version on its speaker knows [`REDIS_STORE_IMPORT_LEVEL`].
const REDIS_STORE_IMPORT_VERSION: WireVersion = WireVersion(8);
/// From this one on frames claim how far their sender's promises go.
const CLAIMING_VERSION: WireVersion = WireVersion(3);

/// From this wire version on a replica may ask another one where it may answer reads.
pub(crate) const STALL_VERSION: WireVersion = WireVersion(3);

/// A version of frames and of everything in them, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WireVersion(pub u32);

/// The versions a replica speaks: all from one to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SupportedVersions {
    /// The first.
    pub oldest: WireVersion,
    /// The last.
    pub newest: WireVersion,
}

impl SupportedVersions {
    /// What this program speaks.
    pub const SHIPPED: SupportedVersions = SupportedVersions {
        oldest: WireVersion(1),
        newest: WireVersion(8),
    };

    /// What the next one might: tests and the simulator upgrade to it and back, so that two versions
    /// in one cluster are nothing new when there are two. No server speaks it. It differs in that
    /// headers of frames end with a mark.
    pub const REHEARSED: SupportedVersions = SupportedVersions {
        newest: WireVersion(SupportedVersions::SHIPPED.newest.0 + 1),
        ..SupportedVersions::SHIPPED
    };

    /// Of these, the ones up to `newest`, for a program that is to speak as an older one would. `None` if
    /// there are none.
    #[must_use]
    pub fn up_to(self, newest: u32) -> Option<SupportedVersions> {
        let newest = WireVersion(newest);
        self.includes(newest)
            .then_some(SupportedVersions { newest, ..self })
    }

    /// Whether handshakes say what is not compared.
    #[must_use]
    pub fn says_more(self) -> bool {
        self.newest >= WireVersion(2)
    }

    /// Whether a replica without data asks where the members are.
    #[must_use]
    pub fn asks_for_addresses(self) -> bool {
        self.newest >= WireVersion(3)
    }

    /// The highest feature level that a program knows which speaks these.
    #[must_use]
    pub fn level(self) -> u32 {
        match self.newest {
            newest if newest >= REDIS_STORE_IMPORT_VERSION => REDIS_STORE_IMPORT_LEVEL,
            newest if newest >= RAFT_VERSION => RAFT_LEVEL,
            newest if newest >= REDIS_IMPORT_VERSION => REDIS_IMPORT_LEVEL,
            newest if newest >= REDIS_USERS_VERSION => REDIS_USERS_LEVEL,
            newest if newest >= USERS_VERSION => USERS_LEVEL,
            newest if newest >= CLAIMING_VERSION => ALARM_LEVEL,
            _ if self.says_more() => PUBLISHING_LEVEL,
            _ => FIRST_LEVEL,
        }
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn includes(&self, version: WireVersion) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }

    /// The version for two replicas of which one speaks these and the other `theirs`: the newest
    /// that is among both.
    #[must_use]
    pub fn common(&self, theirs: SupportedVersions) -> Option<WireVersion> {
        let newest = self.newest.min(theirs.newest);
        (self.includes(newest) && theirs.includes(newest)).then_some(newest)
    }
}

impl WireVersion {
    /// Whether headers claim how far their sender's promises go.
    pub(crate) fn has_claims(self) -> bool {
        self >= CLAIMING_VERSION
    }

    /// Whether headers end with a mark.
    pub(crate) fn has_mark(self) -> bool {
        self == SupportedVersions::REHEARSED.newest
    }
}

impl fmt::Display for WireVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SupportedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "wire version {}", self.newest)
        } else {
            write!(f, "wire versions {} to {}", self.oldest, self.newest)
        }
    }
}

/// What one replica speaks with whom.
#[derive(Debug)]
pub(crate) struct PeerVersions {
    pub(crate) supported: SupportedVersions,
    /// As the connections' handshakes went, and whether they are up. What was agreed on last holds
    /// beyond a connection: what is said while it is down may go out on the next one, and that it
    /// is down may be said late.
    agreed: BTreeMap<ReplicaId, (WireVersion, bool)>,
}

impl PeerVersions {
    pub(crate) fn new(supported: SupportedVersions) -> Self {
        PeerVersions {
            supported,
            agreed: BTreeMap::new(),
        }
    }

    /// A connection to a peer came up in this version, or went down.
    pub(crate) fn agree(&mut self, peer: ReplicaId, version: Option<WireVersion>) {
        if let Some(version) = version {
            self.agreed.insert(peer, (version, true));
        } else if peer.is_gateway() {
            // It never comes back under its number, or soon and says what it speaks.
            self.agreed.remove(&peer);
        } else if let Some((_, is_up)) = self.agreed.get_mut(&peer) {
            *is_up = false;
        }
    }

    /// These are the peers from now on: forgets the others, unless connected.
    pub(crate) fn meet(&mut self, peers: &[ReplicaId]) {
        self.agreed
            .retain(|peer, (_, is_up)| *is_up || peers.contains(peer));
    }

    /// The version of the connection to this peer, while that is up.
    pub(crate) fn up_in(&self, peer: ReplicaId) -> Option<WireVersion> {
        let agreed = self.agreed.get(&peer).filter(|(_, is_up)| *is_up);
        agreed.map(|(version, _)| *version)
    }

    /// Whether a connection to this peer is up.
    pub(crate) fn is_up(&self, peer: ReplicaId) -> bool {
        self.agreed.get(&peer).is_some_and(|(_, is_up)| *is_up)
    }

    /// The version of a frame for these peers. A broadcast is encoded once, so in the oldest version
    /// that any peer wanted last.
    pub(crate) fn towards(&self, peers: Peers) -> WireVersion {
        let agreed = match peers {
            Peers::One(peer) => self.agreed.get(&peer).map(|(version, _)| *version),
            Peers::All => {
                let members = self.agreed.iter().filter(|(peer, _)| !peer.is_gateway());
                members.map(|(_, (version, _))| *version).min()
            }
        };
        agreed.unwrap_or(self.supported.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supported(oldest: u32, newest: u32) -> SupportedVersions {
        SupportedVersions {
            oldest: WireVersion(oldest),
            newest: WireVersion(newest),
        }
    }

    #[test]
    fn two_replicas_speak_the_newest_version_that_both_know() {
        let cases = [
            ((1, 1), (1, 1), Some(1)),
            ((1, 2), (1, 1), Some(1)),
            ((1, 4), (3, 9), Some(4)),
            ((2, 2), (1, 3), Some(2)),
            ((1, 2), (3, 4), None),
            // Nonsense from a peer is no version either.
            ((1, 3), (3, 2), None),
        ];
        for (mine, theirs, expected) in cases {
            let (mine, theirs) = (supported(mine.0, mine.1), supported(theirs.0, theirs.1));
            assert_eq!(
                mine.common(theirs),
                expected.map(WireVersion),
                "{mine}, {theirs}"
            );
            assert_eq!(theirs.common(mine), mine.common(theirs));
        }
    }

    #[test]
    fn a_broadcast_is_for_the_oldest_that_listens() {
        let (old, new) = (
            SupportedVersions::SHIPPED.newest,
            SupportedVersions::REHEARSED.newest,
        );
        let mut peer_versions = PeerVersions::new(SupportedVersions::REHEARSED);
        let one = |id| Peers::One(ReplicaId(id));
        let oldest = SupportedVersions::SHIPPED.oldest;
        assert_eq!(
            peer_versions.towards(Peers::All),
            oldest,
            "nobody is connected"
        );
        peer_versions.agree(ReplicaId(2), Some(new));
        assert_eq!(
            (
                peer_versions.towards(Peers::All),
                peer_versions.towards(one(3))
            ),
            (new, oldest)
        );
        peer_versions.agree(ReplicaId(3), Some(old));
        assert_eq!(
            (
                peer_versions.towards(Peers::All),
                peer_versions.towards(one(2))
            ),
            (old, new)
        );
        peer_versions.agree(ReplicaId(3), Some(new));
        assert_eq!(peer_versions.towards(Peers::All), new);
    }

    /// News that a connection broke may come when the next one is up already.
    #[test]
    fn what_was_agreed_holds_beyond_the_connection() {
        let (old, new) = (
            SupportedVersions::SHIPPED.newest,
            SupportedVersions::REHEARSED.newest,
        );
        let mut peer_versions = PeerVersions::new(SupportedVersions::REHEARSED);
        peer_versions.agree(ReplicaId(2), Some(new));
        peer_versions.agree(ReplicaId(3), Some(old));
        peer_versions.agree(ReplicaId(3), None);
        assert!(peer_versions.is_up(ReplicaId(2)) && !peer_versions.is_up(ReplicaId(3)));
        assert_eq!(peer_versions.towards(Peers::All), old);
        peer_versions.meet(&[ReplicaId(3)]);
        assert_eq!(peer_versions.towards(Peers::All), old);
        peer_versions.meet(&[]);
        assert_eq!(
            peer_versions.towards(Peers::All),
            new,
            "2 is there, 3 was removed"
        );
    }
}
