//! TLS in a cluster on this machine, by certificates that its replicas make for themselves.

use serde::{Deserialize, Serialize};

/// Who speaks TLS by certificates that the replicas make for themselves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OwnCertificates {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) clients: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) peers: bool,
}

impl OwnCertificates {
    /// The options that have a replica make its certificates.
    pub(super) fn flags(self) -> impl Iterator<Item = String> {
        let told = [
            (self.clients, "--auto-tls"),
            (self.peers, "--peer-auto-tls"),
        ];
        (told.into_iter())
            .filter(|(is_wanted, _)| *is_wanted)
            .map(|(_, flag)| flag.to_owned())
    }

    pub(super) fn are_none(&self) -> bool {
        *self == OwnCertificates::default()
    }
}
