//! TLS towards those who are dialled.

use crate::connection::Connection;
use crate::error::TlsError;
use crate::files;
use crate::handshake::{HANDSHAKE_TIMEOUT, shake_hands};
use crate::parameters::Parameters;
use crate::source::{CertificateFile, Expiry};
use crate::verify_server::{ServerJudge, ServerRules};
use crate::watched::Watched;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where systems keep the authorities that all programs trust.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What TLS towards others is made from.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// The authorities that servers' certificates must be of, in PEM; `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// The paths of a certificate and its key in PEM, for servers that want one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates that are not taken any more, in PEM or DER.
    pub revoked: Option<PathBuf>,
    /// Whether every server is taken, whoever it is: what is sent is encrypted, and that is all.
    pub takes_all: bool,
    /// The name that servers' certificates must have; `None` for the host that is dialled.
    pub server_name: Option<String>,
    /// The versions and cipher suites of TLS.
    pub parameters: Parameters,
    /// What is spoken over it, by the names of ALPN.
    pub languages: &'static [&'static [u8]],
}

impl ClientFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = [&self.authorities, &self.revoked]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        if let Some((certificate, key)) = &self.certificate {
            paths.extend([certificate.clone(), key.clone()]);
        }
        paths
    }

    fn load(&self) -> Result<ClientState, TlsError> {
        let (authorities, trusted, library) = match self.takes_all {
            true => (PathBuf::new(), Vec::new(), None),
            false => {
                let path = self.authorities.clone().or_else(system_authorities);
                let path = path.ok_or_else(|| {
                    let why =
                        "this system has no list of trusted authorities: name a file with --cacert";
                    TlsError::Settings(why.to_owned())
                })?;
                let (trusted, library) = self.verifier(&path)?;
                (path, trusted, Some(library))
            }
        };
        let own = match &self.certificate {
            None => None,
            Some((certificate, key)) => Some((files::chain(certificate)?, files::key(key)?)),
        };
        let own_file = self.certificate.as_ref().zip(own.as_ref());
        let own_file = own_file.map(|((path, _), (chain, _))| CertificateFile {
            path: path.clone(),
            certificate: chain.first.clone(),
        });
        let rules = Arc::new(ServerRules {
            library,
            provider: Arc::clone(&self.parameters.provider),
            trusted,
            authorities,
        });
        let own = own.map(|(chain, key)| (chain.certificates, key));
        Ok(ClientState {
            config: self.config(&rules, own)?,
            rules,
            own: own_file,
        })
    }

    fn verifier(&self, path: &Path) -> Result<Verifier, TlsError> {
        let authorities = files::authorities(path)?;
        let provider = Arc::clone(&self.parameters.provider);
        let roots = Arc::new(authorities.roots);
        let mut builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
        if let Some(path) = &self.revoked {
            builder = builder
                .with_crls(files::revoked(path)?)
                .allow_unknown_revocation_status();
        }
        let library = builder.build().map_err(|error| {
            TlsError::file(self.revoked.as_deref().unwrap_or(path), error.to_string())
        })?;
        Ok((authorities.certificates, library))
    }

    fn config(&self, rules: &Arc<ServerRules>, own: Option<Own>) -> Result<ClientConfig, TlsError> {
        let Parameters { provider, versions } = &self.parameters;
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
        let builder = builder.with_protocol_versions(versions);
        let builder = builder.map_err(|error| TlsError::Settings(error.to_string()))?;
        let judge = Arc::new(ServerJudge::new(Arc::clone(rules), ""));
        let builder = builder.dangerous().with_custom_certificate_verifier(judge);
        let mut config = match (own, &self.certificate) {
            (Some((chain, key)), Some((certificate, path))) => {
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| {
                    let why = format!("it does not fit {}: {error}", certificate.display());
                    TlsError::file(path, why)
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.languages.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);
type Verifier = (Vec<CertificateDer<'static>>, Arc<dyn ServerCertVerifier>);

fn system_authorities() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = SYSTEM_AUTHORITIES.iter().map(PathBuf::from);
    named.into_iter().chain(usual).find(|path| path.exists())
}

/// What was made of the files.
struct ClientState {
    config: ClientConfig,
    rules: Arc<ServerRules>,
    own: Option<CertificateFile>,
}

/// TLS towards others.
#[derive(Debug)]
pub struct Connector {
    server_name: Option<String>,
    state: Watched<ClientState>,
}

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn new(files: ClientFiles) -> Result<Connector, TlsError> {
        let (paths, server_name) = (files.paths(), files.server_name.clone());
        let state = Watched::new(paths, move || files.load())?;
        Ok(Connector { server_name, state })
    }

    /// Does the handshake with the server at the other end, which was dialled at `host`.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self, tcp: TcpStream, host: &str) -> Result<Connection, TlsError> {
        let state = self.state.present();
        let (session, judge) = self.session(&state, host)?;
        let refused = || judge.refused();
        let hands = shake_hands(tcp, session.into(), refused, state.own.as_ref());
        timeout(HANDSHAKE_TIMEOUT, hands)
            .await
            .unwrap_or(Err(TlsError::Timeout))
    }

    /// Does the handshake on a socket that blocks; reads and writes wait no longer than `patience`.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect_blocking(
        &self,
        mut tcp: std::net::TcpStream,
        host: &str,
        patience: Duration,
    ) -> Result<impl Read + Write + use<>, TlsError> {
        tcp.set_read_timeout(Some(patience))?;
        tcp.set_write_timeout(Some(patience))?;
        let state = self.state.present();
        let (mut session, judge) = self.session(&state, host)?;
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut tcp) {
                return Err(blocking_failure(error, judge.refused(), state.own.as_ref()));
            }
        }
        Ok(StreamOwned::new(session, tcp))
    }

    fn session(
        &self,
        state: &ClientState,
        host: &str,
    ) -> Result<(ClientConnection, Arc<ServerJudge>), TlsError> {
        let host = self.server_name.as_deref().unwrap_or(host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| TlsError::Settings(format!("{host:?} is no name of a host")))?;
        let judge = Arc::new(ServerJudge::new(Arc::clone(&state.rules), host));
        let mut config = state.config.clone();
        config
            .dangerous()
            .set_certificate_verifier(Arc::clone(&judge) as _);
        let session = ClientConnection::new(Arc::new(config), name);
        let session = session.map_err(|error| TlsError::Settings(error.to_string()))?;
        Ok((session, judge))
    }

    /// How long the own certificate is valid, if there is one.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.state.present().own.clone().map(Expiry::of)
    }
}

fn blocking_failure(
    error: io::Error,
    refused: Option<String>,
    own: Option<&CertificateFile>,
) -> TlsError {
    if let Some(why) = refused {
        return TlsError::Certificate(why);
    }
    let of_tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (of_tls, error.kind()) {
        (Some(of_tls), _) => crate::describe::failure(of_tls, own),
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => TlsError::Closed,
        (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => TlsError::Timeout,
        (None, _) => TlsError::Io(error),
    }
}
