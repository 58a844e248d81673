//! The peers that this replica is in touch with by now: members come and go.

use super::addresses::Addresses;
use super::call_back::Origin;
use super::handshake::{Lane, PeerInfo, PeerLane};
use super::outgoing::Shared;
use crate::metrics::PeerMetrics;
use crate::run::random_u64;
use quorate_core::{Boot, Epoch, ReplicaId};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The peers as connections know them; the core says who they are.
#[derive(Debug, Default)]
pub(super) struct Contacts(Mutex<ContactTable>);

#[derive(Debug, Default)]
struct ContactTable {
    peers: BTreeMap<ReplicaId, Contact>,
    /// The newest epoch, once it is not the first.
    newest: Option<Epoch>,
}

#[derive(Debug)]
struct Contact {
    metrics: PeerMetrics,
    /// To wake a dialler when its peer calls.
    dialers: Vec<Arc<Shared>>,
    /// What hellos to it carry; drawn for the first.
    token: Option<Boot>,
    /// What was found out about hellos from it.
    origin: Arc<Origin>,
    /// What the peer said of itself last.
    about: Option<PeerInfo>,
    /// The present connection from it on each lane; a new one ends the one before.
    current: BTreeMap<Lane, Arc<Notify>>,
}

impl Contacts {
    /// Somebody is a peer, and is dialled, if that is how peers are reached.
    pub(super) fn know(&self, peer: ReplicaId, metrics: PeerMetrics, dialer: Option<Arc<Shared>>) {
        let mut state = self.state();
        let contact = state.peers.entry(peer).or_insert_with(|| Contact {
            metrics,
            dialers: Vec::new(),
            token: None,
            origin: Arc::default(),
            about: None,
            current: BTreeMap::new(),
        });
        contact.dialers.extend(dialer);
    }

    /// Ends the connections of a replica that is no peer any more.
    pub(super) fn forget(&self, peer: ReplicaId) {
        if let Some(contact) = self.state().peers.remove(&peer) {
            contact.current.values().for_each(|ends| ends.notify_one());
        }
    }

    /// A peer says this of itself; one that speaks an older version says nothing.
    pub(super) fn said(&self, peer: ReplicaId, about: Option<PeerInfo>) {
        if let Some(contact) = self.state().peers.get_mut(&peer) {
            contact.about = about;
        }
    }

    /// The token for hellos to a peer: the same for as long as it is one.
    pub(super) fn token(&self, peer: ReplicaId) -> io::Result<Boot> {
        let mut state = self.state();
        let contact = state.peers.get_mut(&peer);
        let contact = contact.ok_or_else(|| io::Error::other("it is no peer any more"))?;
        match contact.token {
            Some(token) => Ok(token),
            None => Ok(*contact.token.insert(Boot(random_u64()?))),
        }
    }

    /// Whether hellos to a peer carry this token.
    pub(super) fn has_token(&self, peer: ReplicaId, token: Boot) -> bool {
        let state = self.state();
        let contact = state.peers.get(&peer);
        contact.is_some_and(|contact| contact.token == Some(token))
    }

    /// What was found out about hellos from a peer, and where it is called back.
    pub(super) fn origin(&self, peer: ReplicaId) -> Option<(Arc<Origin>, String)> {
        let state = self.state();
        let contact = state.peers.get(&peer)?;
        let address = contact.dialers.last()?.address().to_owned();
        Some((Arc::clone(&contact.origin), address))
    }

    /// A peer was dialled, and answered.
    pub(super) fn dialled(&self, peer: ReplicaId) {
        if let Some(contact) = self.state().peers.get(&peer) {
            contact.origin.dialled();
        }
    }

    /// A peer may be there again: whoever waits to dial it does so now.
    pub(super) fn heard(&self, peer: ReplicaId) {
        if let Some(contact) = self.state().peers.get(&peer) {
            contact.dialers.iter().for_each(|dialer| dialer.heard());
        }
    }

    /// Where each peer is dialled.
    pub(super) fn addresses(&self) -> Addresses {
        let state = self.state();
        let at = |(peer, contact): (&ReplicaId, &Contact)| {
            let dialer = contact.dialers.last()?;
            Some((*peer, dialer.address().to_owned()))
        };
        Addresses(state.peers.iter().filter_map(at).collect())
    }

    /// What each peer has said of itself.
    pub(super) fn about(&self) -> BTreeMap<ReplicaId, PeerInfo> {
        let state = self.state();
        let said = |(peer, contact): (&ReplicaId, &Contact)| Some((*peer, contact.about.clone()?));
        state.peers.iter().filter_map(said).collect()
    }

    /// Whether it is a peer.
    pub(super) fn knows(&self, peer: ReplicaId) -> bool {
        self.state().peers.contains_key(&peer)
    }

    /// A peer has called: says what is counted of it, and when this connection is to end. `None` if it is
    /// no peer by now.
    pub(super) fn called(
        &self,
        PeerLane { peer, lane }: PeerLane,
    ) -> Option<(PeerMetrics, Arc<Notify>)> {
        let mut state = self.state();
        let contact = state.peers.get_mut(&peer)?;
        let dialers = contact.dialers.iter();
        dialers
            .filter(|dialer| dialer.lane == lane)
            .for_each(|dialer| dialer.heard());
        if lane == Lane::Messages
            && let Some(before) = contact.current.remove(&Lane::Datagrams)
        {
            // It may be a former start of the peer that sends them.
            before.notify_one();
        }
        let mine = Arc::new(Notify::new());
        if let Some(before) = contact.current.insert(lane, Arc::clone(&mine)) {
            before.notify_one();
        }
        Some((contact.metrics.clone(), mine))
    }

    /// The newest epoch, for those who ask before they join.
    pub(super) fn tell_newest(&self, epoch: Epoch) {
        self.state().newest = Some(epoch);
    }

    /// The newest epoch, as [`Contacts::tell_newest`] set it.
    pub(super) fn newest(&self) -> Option<Epoch> {
        self.state().newest.clone()
    }

    fn state(&self) -> MutexGuard<'_, ContactTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
