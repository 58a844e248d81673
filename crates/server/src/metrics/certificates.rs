//! What is shown of the certificates of this process.

use super::{Metrics, Registry};
use crate::tls::Certificates;
use std::sync::OnceLock;

/// Figures of [`Certificates`], once there are some.
#[derive(Debug, Default)]
pub(super) struct CertificateMetrics(OnceLock<Certificates>);

impl Metrics {
    /// Shows from now on how long these certificates are valid.
    pub(crate) fn show_certificates(&self, certificates: Certificates) {
        let _ = self.certificates.0.set(certificates);
    }

    /// Shows whether whoever reaches the peer port may act as a member.
    pub(crate) fn show_peer_proof(&self, proof: Option<&str>) {
        let help = "Whether whoever reaches the peer port can act as a member, for want of certificates and secrets.";
        let gauge = Registry(&self.recorder).gauge("quorate_peer_port_open", help);
        gauge.set(f64::from(u8::from(proof.is_none())));
    }

    /// Brings the figures of certificates up to date.
    pub(super) fn publish_certificates(&self) {
        let help =
            "Seconds until this process's own certificate expires, by port; below 0 once it has.";
        let certificates = self.certificates.0.get();
        for (port, expiry) in certificates.map(Certificates::expiries).unwrap_or_default() {
            let on = Registry(&self.recorder);
            let gauge =
                on.labelled_gauge("quorate_certificate_expiry_seconds", help, ("port", port));
            gauge.set(expiry.seconds_left as f64);
        }
    }
}
