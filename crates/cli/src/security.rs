//! Options about what clients and replicas prove, and how what they say is encrypted.

use crate::modes::PeerTransport;
use crate::peer_tls::{PeerTlsOptions, PeerTlsSettings};
use crate::tls::{AutoTlsOptions, ClientTlsOptions, ClientTlsSettings};
use clap::Args;
use serde::{Deserialize, Serialize};

/// Everything about TLS and secrets that a replica is told.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct SecurityOptions {
    #[command(flatten)]
    #[serde(flatten)]
    client: ClientTlsOptions,

    #[command(flatten)]
    #[serde(flatten)]
    auto: AutoTlsOptions,

    #[command(flatten)]
    #[serde(flatten)]
    peer: PeerTlsOptions,
}

/// How both ports of a replica are secured.
#[derive(Clone, Debug)]
pub(crate) struct SecuritySettings {
    /// The port for clients.
    pub(crate) client: ClientTlsSettings,
    /// The port for other replicas, and calls to theirs.
    pub(crate) peer: PeerTlsSettings,
}

/// The URLs that say where TLS is spoken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortUrls<'a> {
    /// Where the replica listens for clients.
    pub(crate) client: &'a str,
    /// Where clients reach it.
    pub(crate) advertised: &'a str,
    /// Where it listens for other replicas.
    pub(crate) peer: &'a str,
    /// Where other replicas reach it.
    pub(crate) own: &'a str,
}

impl SecurityOptions {
    /// What is asked for on the port for other replicas alone, at the URL `listened`, which others reach at `own`.
    pub(crate) fn peer(&self, listened: &str, own: &str) -> Result<PeerTlsSettings, String> {
        let nobody = std::iter::empty();
        (self.peer).resolve(&self.auto, &self.client.parameters, listened, own, nobody)
    }

    /// What is asked for; `others` are the URLs of all replicas.
    pub(crate) fn resolve<'a>(
        &self,
        urls: PortUrls<'_>,
        others: impl Iterator<Item = &'a String>,
        transport: PeerTransport,
    ) -> Result<SecuritySettings, String> {
        let parameters = &self.client.parameters;
        let peer = self
            .peer
            .resolve(&self.auto, parameters, urls.peer, urls.own, others)?;
        if peer.is_encrypted() && transport == PeerTransport::Udp {
            return Err("--peer-transport udp: datagrams are not encrypted, and replicas are to speak TLS: leave out \
                        one of the two"
                .to_owned());
        }
        Ok(SecuritySettings {
            client: self
                .client
                .resolve(&self.auto, urls.client, urls.advertised)?,
            peer,
        })
    }
}
