//! Options about what replicas prove to each other: TLS by etcd's names, or a secret.

use crate::address::{are_https, host, host_port, is_https};
use crate::tls::{AutoTlsOptions, TlsParameters};
use clap::{Args, ValueEnum};
use quorate_server::{PeerSecret, PeerSecurity, PeerTls};
use quorate_tls::{
    Acceptor, AllowedNames, ClientFiles, Connector, Parameters, ServerFiles, TlsError, self_signed,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a replica keeps the certificate that it made for other replicas, in its data folder.
const OWN_CERTIFICATE: &str = "certificates/peer";

/// Certificates of replicas, and secrets.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct PeerTlsOptions {
    /// The certificate that other replicas are shown, in PEM, by those who call and who are called; read again when it
    /// changes. TLS is spoken where --listen-peer-urls says https://
    #[arg(long, env = "QUORATE_PEER_CERT_FILE", value_name = "FILE")]
    peer_cert_file: Option<PathBuf>,

    /// The private key of --peer-cert-file, in PEM
    #[arg(long, env = "QUORATE_PEER_KEY_FILE", value_name = "FILE")]
    peer_key_file: Option<PathBuf>,

    /// Another certificate for calls to other replicas, in PEM [default: --peer-cert-file]
    #[arg(long, env = "QUORATE_PEER_CLIENT_CERT_FILE", value_name = "FILE")]
    peer_client_cert_file: Option<PathBuf>,

    /// The private key of --peer-client-cert-file, in PEM
    #[arg(long, env = "QUORATE_PEER_CLIENT_KEY_FILE", value_name = "FILE")]
    peer_client_key_file: Option<PathBuf>,

    /// The authorities of other replicas' certificates, in PEM
    #[arg(long, env = "QUORATE_PEER_TRUSTED_CA_FILE", value_name = "FILE")]
    peer_trusted_ca_file: Option<PathBuf>,

    /// Whether every replica that calls must show a certificate of --peer-trusted-ca-file; given that, it must anyway
    /// [default: false]
    #[arg(
        long,
        env = "QUORATE_PEER_CLIENT_CERT_AUTH",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    peer_client_cert_auth: Option<bool>,

    /// Certificates of replicas that are not taken any more, in PEM or DER; read again when it changes
    #[arg(long, env = "QUORATE_PEER_CRL_FILE", value_name = "FILE")]
    peer_crl_file: Option<PathBuf>,

    /// Common names, of which the certificate of a replica that calls must have one [default: any]
    #[arg(
        long,
        env = "QUORATE_PEER_CERT_ALLOWED_CN",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peer_cert_allowed_cn: Vec<String>,

    /// Hosts, for one of which the certificate of a replica that calls must be valid [default: any]
    #[arg(
        long,
        env = "QUORATE_PEER_CERT_ALLOWED_HOSTNAME",
        value_name = "HOSTS",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peer_cert_allowed_hostname: Vec<String>,

    /// Whether a certificate that names hosts is taken from an address that is none of theirs [default: false]
    #[arg(
        long,
        env = "QUORATE_PEER_SKIP_CLIENT_SAN_VERIFICATION",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    peer_skip_client_san_verification: Option<bool>,

    /// Whether the replica makes a certificate for other replicas, if it is given none. What is sent is encrypted, and
    /// nobody proves who he is: add --peer-secret-file [default: false]
    #[arg(
        long,
        env = "QUORATE_PEER_AUTO_TLS",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    peer_auto_tls: Option<bool>,

    /// Whether replicas that have neither TLS nor the secret are taken, and called, as well (accept): for a cluster
    /// that is switched over, one replica after the other; or not (require) [default: require]
    #[arg(long, env = "QUORATE_PEER_TLS", value_name = "MODE")]
    peer_tls: Option<PeerTlsMode>,

    /// A file with a secret of at least 16 bytes, equal on all replicas, by which they know each other
    #[arg(long, env = "QUORATE_PEER_SECRET_FILE", value_name = "FILE")]
    peer_secret_file: Option<PathBuf>,
}

/// Whether others must be secured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PeerTlsMode {
    /// Plain connections are taken as well
    Accept,
    /// Every connection is secured
    Require,
}

/// How connections between replicas are secured.
#[derive(Clone, Debug)]
pub(crate) struct PeerTlsSettings {
    tls: Option<PeerFiles>,
    secret: Option<PathBuf>,
    takes_plain: bool,
    has_unused_certificates: bool,
}

/// What TLS between replicas is made from.
#[derive(Clone, Debug)]
struct PeerFiles {
    source: Source,
    client: Option<(PathBuf, PathBuf)>,
    authorities: Option<PathBuf>,
    revoked: Option<PathBuf>,
    allowed: AllowedNames,
    checks_addresses: bool,
    parameters: Parameters,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
enum Source {
    /// A certificate and its key, in files.
    Files(PathBuf, PathBuf),
    /// One that the replica makes for this host, valid for so many years.
    Own { host: String, years: u32 },
}

impl PeerTlsOptions {
    /// What is asked for on a port at the URL `listened`, which others reach at the URL `own`. `urls` are
    /// those of all replicas.
    pub(crate) fn resolve<'a>(
        &self,
        auto: &AutoTlsOptions,
        parameters: &TlsParameters,
        listened: &str,
        own: &str,
        mut urls: impl Iterator<Item = &'a String>,
    ) -> Result<PeerTlsSettings, String> {
        let has_certificates = self.peer_cert_file.is_some() || self.peer_auto_tls == Some(true);
        let is_on = are_https("listen-peer-urls", listened)?
            || (self.peer_tls.is_some() && has_certificates);
        if !is_on && let Some(url) = urls.find(|url| is_https(url)) {
            return Err(format!(
                "--initial-cluster names {url}, and this replica speaks no TLS to others: say https:// in \
                 --listen-peer-urls, too, and give it --peer-cert-file, --peer-key-file and --peer-trusted-ca-file"
            ));
        }
        if self.peer_tls.is_some() && !has_certificates && self.peer_secret_file.is_none() {
            return Err("--peer-tls is about certificates or a secret, and there is none: give --peer-cert-file, \
                        --peer-key-file and --peer-trusted-ca-file, or --peer-secret-file"
                .to_owned());
        }
        Ok(PeerTlsSettings {
            tls: is_on
                .then(|| self.files(auto, parameters, own))
                .transpose()?,
            secret: self.peer_secret_file.clone(),
            takes_plain: self.peer_tls == Some(PeerTlsMode::Accept),
            has_unused_certificates: has_certificates && !is_on,
        })
    }

    /// What a process that only calls replicas is told: it speaks TLS if it is given a certificate or authorities.
    pub(crate) fn resolve_caller(
        &self,
        parameters: &TlsParameters,
    ) -> Result<PeerTlsSettings, String> {
        let is_on = self.peer_cert_file.is_some() || self.peer_trusted_ca_file.is_some();
        let auto = AutoTlsOptions::default();
        Ok(PeerTlsSettings {
            tls: is_on
                .then(|| self.files(&auto, parameters, ""))
                .transpose()?,
            secret: self.peer_secret_file.clone(),
            takes_plain: self.peer_tls == Some(PeerTlsMode::Accept),
            has_unused_certificates: false,
        })
    }

    fn files(
        &self,
        auto: &AutoTlsOptions,
        parameters: &TlsParameters,
        own: &str,
    ) -> Result<PeerFiles, String> {
        let source = match (&self.peer_cert_file, &self.peer_key_file) {
            (Some(certificate), Some(key)) => Source::Files(certificate.clone(), key.clone()),
            (None, None) if self.peer_auto_tls == Some(true) => Source::Own {
                host: host(&host_port("initial-cluster", own)?).to_owned(),
                years: auto.years()?,
            },
            (None, None) => {
                return Err("replicas are to speak TLS, and this one has no certificate: give --peer-cert-file and \
                            --peer-key-file, or --peer-auto-tls for one that it makes"
                    .to_owned());
            }
            _ => {
                let why = "--peer-cert-file and --peer-key-file are given together, or not at all";
                return Err(why.to_owned());
            }
        };
        if matches!(source, Source::Files(..)) && self.peer_trusted_ca_file.is_none() {
            return Err("--peer-cert-file needs --peer-trusted-ca-file: the authorities of other replicas' certificates"
                .to_owned());
        }
        let client = match (&self.peer_client_cert_file, &self.peer_client_key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => {
                let why = "--peer-client-cert-file and --peer-client-key-file are given together, or not at all";
                return Err(why.to_owned());
            }
        };
        let is_restricted = self.peer_client_cert_auth == Some(true)
            || self.peer_crl_file.is_some()
            || !self.peer_cert_allowed_cn.is_empty()
            || !self.peer_cert_allowed_hostname.is_empty();
        if is_restricted && self.peer_trusted_ca_file.is_none() {
            return Err("--peer-client-cert-auth, --peer-crl-file, --peer-cert-allowed-cn and \
                        --peer-cert-allowed-hostname need --peer-trusted-ca-file: without it, no replica has to \
                        show a certificate"
                .to_owned());
        }
        Ok(PeerFiles {
            source,
            client,
            authorities: self.peer_trusted_ca_file.clone(),
            revoked: self.peer_crl_file.clone(),
            allowed: AllowedNames {
                common_names: self.peer_cert_allowed_cn.clone(),
                hosts: self.peer_cert_allowed_hostname.clone(),
            },
            checks_addresses: self.peer_skip_client_san_verification != Some(true),
            parameters: parameters.resolve()?,
        })
    }
}

impl PeerTlsSettings {
    /// Whether replicas speak TLS to each other.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether every replica that calls must show a certificate.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        let tls = self.tls.as_ref();
        !self.takes_plain && tls.is_some_and(|files| files.authorities.is_some())
    }

    /// Reads the files, and makes none: a certificate that the replica is to make is left out.
    pub(crate) fn look(&self, data_dir: &Path) -> Result<PeerSecurity, TlsError> {
        let read = |files: &&PeerFiles| matches!(files.source, Source::Files(..));
        PeerTlsSettings {
            tls: self.tls.as_ref().filter(read).cloned(),
            ..self.clone()
        }
        .open(data_dir)
    }

    /// Reads the files; makes those that the replica is to make, in its data folder.
    pub(crate) fn open(&self, data_dir: &Path) -> Result<PeerSecurity, TlsError> {
        if self.has_unused_certificates {
            tracing::warn!(
                "--listen-peer-urls says http://: certificates for it are not used, and replicas speak plain text"
            );
        }
        let tls = self
            .tls
            .as_ref()
            .map(|files| files.open(data_dir))
            .transpose()?;
        let secret = self.secret.as_deref().map(PeerSecret::read).transpose()?;
        Ok(PeerSecurity {
            tls: tls.map(Arc::new),
            secret: secret.map(Arc::new),
            takes_plain: self.takes_plain,
        })
    }
}

impl PeerFiles {
    fn open(&self, data_dir: &Path) -> Result<PeerTls, TlsError> {
        let own = match &self.source {
            Source::Files(certificate, key) => (certificate.clone(), key.clone()),
            Source::Own { host, years } => {
                let hosts = [host.clone(), "localhost".to_owned(), "127.0.0.1".to_owned()];
                self_signed(&data_dir.join(OWN_CERTIFICATE), &hosts, *years)?
            }
        };
        let acceptor = Acceptor::new(ServerFiles {
            certificate: own.0.clone(),
            key: own.1.clone(),
            authorities: self.authorities.clone(),
            revoked: self.revoked.clone(),
            allowed: self.allowed.clone(),
            parameters: self.parameters.clone(),
            languages: &[],
        })?;
        let connector = Connector::new(ClientFiles {
            authorities: self.authorities.clone(),
            certificate: Some(self.client.clone().unwrap_or(own)),
            revoked: self.revoked.clone(),
            takes_all: self.authorities.is_none(),
            server_name: None,
            parameters: self.parameters.clone(),
            languages: &[],
        })?;
        Ok(PeerTls {
            acceptor,
            connector,
            checks_addresses: self.checks_addresses,
        })
    }
}
