//! How long the certificates of this process are valid, for those who are to replace them in time.

use super::{PeerSecurity, PortTls};
use quorate_tls::Expiry;
use std::sync::Arc;
use std::time::Duration;

const DAY_SECONDS: i64 = 24 * 60 * 60;
/// How long before a certificate expires operators are told.
const WARNED_SECONDS: i64 = 30 * DAY_SECONDS;
/// The pause between two lines in the log.
const WARN_EVERY: Duration = Duration::from_secs(12 * 60 * 60);

/// The certificates that this process shows to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    client: Option<Arc<PortTls>>,
    peer: PeerSecurity,
}

impl Certificates {
    pub(crate) fn of(client: Option<Arc<PortTls>>, peer: PeerSecurity) -> Certificates {
        Certificates { client, peer }
    }

    /// What each is for, and how long it is valid.
    pub(crate) fn expiries(&self) -> Vec<(&'static str, Expiry)> {
        let client = self.client.as_ref().map(|tls| ("client", tls.expiry()));
        let peer = self.peer.expiry().map(|expiry| ("peer", expiry));
        client.into_iter().chain(peer).collect()
    }

    /// What an operator is to be told, one line for each certificate that expires soon.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let expiries = self.expiries().into_iter();
        expiries
            .filter_map(|(port, expiry)| warning(port, &expiry))
            .collect()
    }

    /// Tells the log of certificates that expire soon, for as long as it is polled.
    pub(crate) async fn watch(self) {
        loop {
            for line in self.warnings() {
                tracing::warn!("{line}");
            }
            tokio::time::sleep(WARN_EVERY).await;
        }
    }
}

/// What an operator is to be told of certificates that expire soon, one line for each: of the port for clients, and of
/// what other replicas are shown.
#[must_use]
pub fn expiry_warnings(client: Option<Arc<PortTls>>, peer: PeerSecurity) -> Vec<String> {
    Certificates::of(client, peer).warnings()
}

fn warning(port: &str, Expiry { file, seconds_left }: &Expiry) -> Option<String> {
    let when = match *seconds_left {
        WARNED_SECONDS.. => return None,
        left @ 0.. => format!("expires in {} days", left / DAY_SECONDS),
        _ => "has expired".to_owned(),
    };
    Some(format!(
        "EXPIRY: the certificate of the {port} port, {file}, {when}; replace the file, and it is read again by itself"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_tls::{Certificate, CertificateFile};

    #[test]
    fn operators_are_told_thirty_days_ahead() {
        let line = |seconds_left| {
            let certificate = Certificate {
                common_name: "db".to_owned(),
                serial: "4001".to_owned(),
                ..Certificate::default()
            };
            let path = "/etc/db.pem".into();
            let file = CertificateFile { path, certificate };
            warning("client", &Expiry { file, seconds_left })
        };
        assert_eq!(line(WARNED_SECONDS), None);
        let soon = line(WARNED_SECONDS - 1).unwrap();
        assert!(
            soon.contains("/etc/db.pem (CN=db, serial 4001), expires in 29 days"),
            "{soon}"
        );
        assert!(line(-1).unwrap().contains("has expired"));
    }
}
