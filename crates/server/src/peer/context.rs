//! What all connections of a replica share.

use super::contacts::Contacts;
use super::datagrams::Datagrams;
use super::gateways::Gateways;
use super::handshake::Identity;
use super::incarnations::Incarnations;
use super::tunnels::TunnelQueue;
use crate::log_limit::LogLimit;
use crate::tls::PeerSecurity;
use std::sync::Arc;

/// What handshakes need to know: who this replica is, and who its peers are.
#[derive(Clone, Debug)]
pub(super) struct PeerContext {
    pub(super) identity: Arc<Identity>,
    pub(super) incarnations: Arc<Incarnations>,
    pub(super) contacts: Arc<Contacts>,
    /// What takes and sends datagrams, if frames may go that way.
    pub(super) datagrams: Option<Arc<Datagrams>>,
    pub(super) gateways: Arc<Gateways>,
    /// Connections for the face.
    pub(super) tunnels: Arc<TunnelQueue>,
    /// What connections begin with.
    pub(super) security: PeerSecurity,
    /// For lines about strangers.
    pub(super) log: Arc<LogLimit>,
}

impl PeerContext {
    /// What a replica knows that begins to look for its peers.
    pub(super) fn new(
        identity: Identity,
        incarnations: Incarnations,
        security: PeerSecurity,
    ) -> PeerContext {
        PeerContext {
            identity: Arc::new(identity),
            incarnations: Arc::new(incarnations),
            contacts: Arc::default(),
            datagrams: None,
            gateways: Arc::default(),
            tunnels: Arc::default(),
            security,
            log: Arc::default(),
        }
    }

    /// A replica that nobody has called.
    #[cfg(test)]
    pub(super) fn alone(identity: Identity) -> PeerContext {
        let incarnations = Incarnations::of(&identity.epoch);
        PeerContext::new(identity, incarnations, PeerSecurity::default())
    }
}
