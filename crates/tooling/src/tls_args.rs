//! How a command proves itself to servers, by etcdctl's names.

use clap::Args;
use quorate_tls::{ClientFiles, Connector};
use std::path::PathBuf;
use std::sync::Arc;

/// What is spoken to servers over TLS: HTTP/2 for calls, HTTP/1 for pages.
const LANGUAGES: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Certificates for endpoints that speak TLS.
#[derive(Args, Clone, Debug, Default)]
pub struct ClientTlsArgs {
    /// The authorities of servers' certificates, in PEM [default: those of this system]
    #[arg(long, env = "QUORATE_CACERT", value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// The certificate to show to servers, in PEM
    #[arg(long, env = "QUORATE_CERT", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// The private key of --cert, in PEM
    #[arg(long, env = "QUORATE_KEY", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Take whatever certificate a server shows: what is sent is encrypted, and may be read by anybody who answers
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,
}

impl ClientTlsArgs {
    /// Whether anything is said of TLS: endpoints without a scheme speak it then, as with etcdctl.
    #[must_use]
    pub fn are_given(&self) -> bool {
        self.cacert.is_some() || self.cert.is_some() || self.insecure_skip_tls_verify
    }

    /// What connects to these endpoints over TLS; `None` if they all speak plain text.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn connector(&self, endpoints: &[String]) -> Result<Option<Arc<Connector>>, String> {
        let is_secured = |url: &String| self.complete(url).starts_with(HTTPS);
        endpoints
            .iter()
            .any(is_secured)
            .then(|| self.open())
            .transpose()
    }

    /// What connects to servers over TLS.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn open(&self) -> Result<Arc<Connector>, String> {
        let connector = Connector::new(ClientFiles {
            authorities: self.cacert.clone(),
            certificate: self.cert.clone().zip(self.key.clone()),
            takes_all: self.insecure_skip_tls_verify,
            languages: LANGUAGES,
            ..ClientFiles::default()
        });
        connector.map(Arc::new).map_err(|error| error.to_string())
    }

    /// An endpoint with its scheme.
    #[must_use]
    pub fn complete(&self, endpoint: &str) -> String {
        match endpoint.contains("://") {
            true => endpoint.to_owned(),
            false if self.are_given() => format!("{HTTPS}{endpoint}"),
            false => format!("http://{endpoint}"),
        }
    }
}

const HTTPS: &str = "https://";
