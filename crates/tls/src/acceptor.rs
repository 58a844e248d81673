//! TLS on a port.

use crate::certificate::{now, validity_trouble};
use crate::connection::Connection;
use crate::error::TlsError;
use crate::files;
use crate::handshake::{HANDSHAKE_TIMEOUT, shake_hands};
use crate::names::AllowedNames;
use crate::parameters::Parameters;
use crate::source::{CertificateFile, Expiry};
use crate::verify_client::{ClientJudge, ClientRules};
use crate::watched::Watched;
use rustls::crypto::ring::Ticketer;
use rustls::server::{
    ProducesTickets, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sessions of TLS 1.2 without tickets that are kept for resumption.
const SESSIONS_MAX: usize = 1024;
/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What is said to callers that speak HTTP/1 in plain text, as Go's servers do.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";
/// How plain requests begin.
const METHODS: [&[u8]; 6] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI"];

/// What a port's TLS is made from.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The path of the certificate in PEM, with those that lead to an authority.
    pub certificate: PathBuf,
    /// The path of its key in PEM.
    pub key: PathBuf,
    /// The authorities of callers' certificates, in PEM: with them, every caller must have one.
    pub authorities: Option<PathBuf>,
    /// Certificates that are not taken any more, in PEM or DER.
    pub revoked: Option<PathBuf>,
    /// The names that the port is for, of those whose certificates are good.
    pub allowed: AllowedNames,
    /// The versions and cipher suites of TLS.
    pub parameters: Parameters,
    /// What is spoken over it, by the names of ALPN.
    pub languages: &'static [&'static [u8]],
}

impl ServerFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let optional = [&self.authorities, &self.revoked];
        let optional = optional.into_iter().flatten().cloned();
        [self.certificate.clone(), self.key.clone()]
            .into_iter()
            .chain(optional)
            .collect()
    }

    fn load(&self) -> Result<ServerState, TlsError> {
        let chain = files::chain(&self.certificate)?;
        let key = files::key(&self.key)?;
        let provider = &self.parameters.provider;
        let key = CertifiedKey::from_der(chain.certificates, key, provider);
        let key = key.map_err(|error| {
            let why = format!("it does not fit {}: {error}", self.certificate.display());
            TlsError::file(&self.key, why)
        })?;
        let ticketer = Ticketer::new();
        let ticketer = ticketer.map_err(|error| TlsError::Settings(error.to_string()))?;
        Ok(ServerState {
            own: CertificateFile {
                path: self.certificate.clone(),
                certificate: chain.first,
            },
            resolver: Arc::new(SingleCertAndKey::from(key)),
            rules: self.client_rules()?.map(Arc::new),
            sessions: ServerSessionMemoryCache::new(SESSIONS_MAX),
            ticketer,
        })
    }

    fn client_rules(&self) -> Result<Option<ClientRules>, TlsError> {
        let Some(path) = &self.authorities else {
            return Ok(None);
        };
        let authorities = files::authorities(path)?;
        let provider = Arc::clone(&self.parameters.provider);
        let roots = Arc::new(authorities.roots);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        if let Some(path) = &self.revoked {
            // A list is of one authority; certificates of others are not refused for the lack of one.
            builder = builder
                .with_crls(files::revoked(path)?)
                .allow_unknown_revocation_status();
        }
        let library = builder.build().map_err(|error| {
            TlsError::file(self.revoked.as_ref().unwrap_or(path), error.to_string())
        })?;
        Ok(Some(ClientRules {
            library,
            trusted: authorities.certificates,
            authorities: path.clone(),
            allowed: self.allowed.clone(),
        }))
    }
}

/// What was made of the files. Sessions are resumed only under the same files: a certificate that was revoked since
/// is looked at again.
struct ServerState {
    own: CertificateFile,
    resolver: Arc<SingleCertAndKey>,
    rules: Option<Arc<ClientRules>>,
    sessions: Arc<dyn StoresServerSessions>,
    ticketer: Arc<dyn ProducesTickets>,
}

/// The TLS of a port.
#[derive(Debug)]
pub struct Acceptor {
    files: ServerFiles,
    state: Watched<ServerState>,
}

impl Acceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn new(files: ServerFiles) -> Result<Acceptor, TlsError> {
        if files.revoked.is_some() && files.authorities.is_none() {
            let why = "a list of revoked certificates is of no use without the authorities of callers' certificates";
            return Err(TlsError::Settings(why.to_owned()));
        }
        let for_loading = files.clone();
        let state = Watched::new(files.paths(), move || for_loading.load())?;
        Ok(Acceptor { files, state })
    }

    /// Does the handshake with a caller.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn accept(&self, tcp: TcpStream) -> Result<Connection, TlsError> {
        self.accept_within(HANDSHAKE_TIMEOUT, tcp).await
    }

    /// Does the handshake with a caller in so much time.
    pub(crate) async fn accept_within(
        &self,
        patience: Duration,
        tcp: TcpStream,
    ) -> Result<Connection, TlsError> {
        let accepted = timeout(patience, self.accept_in_time(tcp)).await;
        accepted.unwrap_or(Err(TlsError::Timeout))
    }

    async fn accept_in_time(&self, tcp: TcpStream) -> Result<Connection, TlsError> {
        if !speaks_tls(&tcp).await? {
            answer_in_plain(&tcp).await;
            return Err(TlsError::Plain);
        }
        let state = self.state.present();
        let judge = state.rules.clone().map(ClientJudge::new).map(Arc::new);
        let session = ServerConnection::new(Arc::new(self.config(&state, judge.clone())?));
        let session = session.map_err(|error| TlsError::Settings(error.to_string()))?;
        let refused = || judge.as_ref().and_then(|judge| judge.refused());
        let connection = shake_hands(tcp, session.into(), refused, Some(&state.own)).await?;
        // It was valid when the session began, which may have been resumed.
        let expired = connection.certificate().and_then(|certificate| {
            let why = validity_trouble(certificate, now())?;
            Some(format!("the caller's certificate ({certificate}) {why}"))
        });
        expired.map_or(Ok(connection), |why| Err(TlsError::Certificate(why)))
    }

    fn config(
        &self,
        state: &ServerState,
        judge: Option<Arc<ClientJudge>>,
    ) -> Result<ServerConfig, TlsError> {
        let Parameters { provider, versions } = &self.files.parameters;
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
        let builder = builder.with_protocol_versions(versions);
        let builder = builder.map_err(|error| TlsError::Settings(error.to_string()))?;
        let builder = match judge {
            None => builder.with_no_client_auth(),
            Some(judge) => builder.with_client_cert_verifier(judge),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&state.resolver) as _);
        config.alpn_protocols = self
            .files
            .languages
            .iter()
            .map(|name| name.to_vec())
            .collect();
        config.session_storage = Arc::clone(&state.sessions);
        config.ticketer = Arc::clone(&state.ticketer);
        Ok(config)
    }

    /// Whether callers must show a certificate.
    #[must_use]
    pub fn asks_for_certificates(&self) -> bool {
        self.files.authorities.is_some()
    }

    /// How long the own certificate is valid.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        Expiry::of(self.state.present().own.clone())
    }
}

/// Whether a connection begins as one of TLS does; waits for its first byte.
///
/// # Errors
/// Those of the operating system, and [`TlsError::Closed`].
pub async fn speaks_tls(tcp: &TcpStream) -> Result<bool, TlsError> {
    let mut first = [0];
    match tcp.peek(&mut first).await? {
        0 => Err(TlsError::Closed),
        _ => Ok(first[0] == HANDSHAKE_RECORD),
    }
}

/// Tells a caller in plain text that this port wants TLS, if it would understand.
async fn answer_in_plain(tcp: &TcpStream) {
    let mut begin = [0; 4];
    let is_request = matches!(tcp.peek(&mut begin).await, Ok(4)) && METHODS.contains(&&begin[..]);
    if is_request {
        // What was sent is read first: closing with unread bytes would take the answer back.
        let _ = tcp.try_read(&mut [0; 4096]);
        let _ = tcp.try_write(PLAIN_ANSWER);
    }
}
