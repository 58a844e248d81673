//! Options about TLS on the port for clients, by etcd's names.

use crate::Failure;
use crate::address::{are_https, host, host_ports, is_unspecified};
use clap::Args;
use quorate_server::PortTls;
use quorate_tls::{Acceptor, AllowedNames, Parameters, ServerFiles, TlsError, self_signed};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is spoken to clients over TLS.
const LANGUAGES: &[&[u8]] = &[b"h2", b"http/1.1"];
/// Where a replica keeps the certificate that it made for its clients, in its data folder.
const OWN_CERTIFICATE: &str = "certificates/client";
/// The time in years for which a certificate made here is valid, at most.
const YEARS_MAX: u32 = 100;

/// Certificates for clients, and which are wanted of them.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ClientTlsOptions {
    /// The certificate for the port for clients, in PEM, with those that lead to its authority; read again when it
    /// changes. TLS is spoken where --listen-client-urls says https://
    #[arg(long, env = "QUORATE_CERT_FILE", value_name = "FILE")]
    cert_file: Option<PathBuf>,

    /// The private key of --cert-file, in PEM
    #[arg(long, env = "QUORATE_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// The authorities of clients' certificates, in PEM: every client must show one of theirs
    #[arg(long, env = "QUORATE_TRUSTED_CA_FILE", value_name = "FILE")]
    trusted_ca_file: Option<PathBuf>,

    /// Whether every client must show a certificate of --trusted-ca-file, whose common name is the user who asks
    /// [default: false]
    #[arg(
        long,
        env = "QUORATE_CLIENT_CERT_AUTH",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    client_cert_auth: Option<bool>,

    /// Clients' certificates that are not taken any more, in PEM or DER; read again when it changes
    #[arg(long, env = "QUORATE_CLIENT_CRL_FILE", value_name = "FILE")]
    client_crl_file: Option<PathBuf>,

    /// Hosts, for one of which a client's certificate must be valid [default: any]
    #[arg(
        long,
        env = "QUORATE_CLIENT_CERT_ALLOWED_HOSTNAME",
        value_name = "HOSTS",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    client_cert_allowed_hostname: Vec<String>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) parameters: TlsParameters,
}

/// Versions and cipher suites of TLS, between replicas and with clients.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct TlsParameters {
    /// Cipher suites of TLS 1.2 by their names in Go, in the order of preference [default: all that are known to be
    /// safe]
    #[arg(
        long,
        env = "QUORATE_CIPHER_SUITES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cipher_suites: Vec<String>,

    /// The oldest version of TLS that is spoken: TLS1.2 or TLS1.3 [default: TLS1.2]
    #[arg(long, env = "QUORATE_TLS_MIN_VERSION", value_name = "VERSION")]
    tls_min_version: Option<String>,

    /// The newest version of TLS that is spoken: TLS1.2 or TLS1.3 [default: TLS1.3]
    #[arg(long, env = "QUORATE_TLS_MAX_VERSION", value_name = "VERSION")]
    tls_max_version: Option<String>,
}

/// Certificates that a replica makes for itself.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct AutoTlsOptions {
    /// Whether the replica makes a certificate for its clients, if it is given none: it is kept in the data folder, and
    /// clients take it if they have it as --cacert, or verify nothing [default: false]
    #[arg(
        long,
        env = "QUORATE_AUTO_TLS",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    auto_tls: Option<bool>,

    /// For how many years certificates are valid that the replica makes [default: 1]
    #[arg(long, env = "QUORATE_SELF_SIGNED_CERT_VALIDITY", value_name = "YEARS")]
    self_signed_cert_validity: Option<u32>,
}

impl TlsParameters {
    /// What is spoken.
    pub(crate) fn resolve(&self) -> Result<Parameters, String> {
        let (least, most) = (
            self.tls_min_version.as_deref(),
            self.tls_max_version.as_deref(),
        );
        let parameters = Parameters::of(&self.cipher_suites, least, most);
        parameters.map_err(|error| error.to_string())
    }
}

/// How the port for clients is secured.
#[derive(Clone, Debug)]
pub(crate) enum ClientTlsSettings {
    /// Clients speak plain text; certificates may have been given, and are not used.
    Plain { has_certificates: bool },
    /// Clients speak TLS.
    Secured(Box<SecuredPort>),
}

/// What TLS for clients is made from.
#[derive(Clone, Debug)]
pub(crate) struct SecuredPort {
    source: Source,
    authorities: Option<PathBuf>,
    names_users: bool,
    revoked: Option<PathBuf>,
    allowed: AllowedNames,
    parameters: Parameters,
}

/// Where a certificate comes from.
#[derive(Clone, Debug)]
enum Source {
    /// A certificate and its key, in files.
    Files(PathBuf, PathBuf),
    /// One that the replica makes for these hosts, valid for so many years.
    Own { hosts: Vec<String>, years: u32 },
}

impl ClientTlsOptions {
    /// What is asked for on a port at this URL, which clients reach by the one that is advertised.
    pub(crate) fn resolve(
        &self,
        auto: &AutoTlsOptions,
        listened: &str,
        advertised: &str,
    ) -> Result<ClientTlsSettings, String> {
        if !are_https("listen-client-urls", listened)? {
            let given = [&self.cert_file, &self.key_file, &self.trusted_ca_file];
            let has_certificates = given.iter().any(|file| file.is_some());
            return Ok(ClientTlsSettings::Plain { has_certificates });
        }
        self.check()?;
        let source = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Source::Files(certificate.clone(), key.clone()),
            (None, None) if auto.auto_tls == Some(true) => Source::Own {
                hosts: certified_hosts(listened, advertised)?,
                years: auto.years()?,
            },
            (None, None) => {
                return Err("--listen-client-urls says https://, and there is no certificate: give --cert-file and \
                            --key-file, or --auto-tls for one that the replica makes"
                    .to_owned());
            }
            _ => {
                return Err(
                    "--cert-file and --key-file are given together, or not at all".to_owned(),
                );
            }
        };
        Ok(ClientTlsSettings::Secured(Box::new(SecuredPort {
            source,
            authorities: self.trusted_ca_file.clone(),
            names_users: self.client_cert_auth.unwrap_or(false),
            revoked: self.client_crl_file.clone(),
            allowed: AllowedNames {
                common_names: Vec::new(),
                hosts: self.client_cert_allowed_hostname.clone(),
            },
            parameters: self.parameters.resolve()?,
        })))
    }

    /// Finds what is asked of clients' certificates where none are asked for.
    fn check(&self) -> Result<(), String> {
        if self.trusted_ca_file.is_some() {
            return Ok(());
        }
        if self.client_cert_auth == Some(true) {
            let why = "--client-cert-auth needs --trusted-ca-file: the authorities of clients' certificates";
            return Err(why.to_owned());
        }
        match self.client_crl_file.is_some() || !self.client_cert_allowed_hostname.is_empty() {
            false => Ok(()),
            true => Err("--client-crl-file and --client-cert-allowed-hostname need --trusted-ca-file: without it, no \
                         client has to show a certificate"
                .to_owned()),
        }
    }
}

/// The hosts that a certificate made here is for: those at which clients reach this replica, as far as it is told.
fn certified_hosts(client_urls: &str, advertised: &str) -> Result<Vec<String>, String> {
    let listened = host_ports("listen-client-urls", client_urls)?;
    let mut hosts = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "[::1]".to_owned(),
    ];
    // Those of all replicas are of no use here.
    let told = host_ports("advertise-client-urls", advertised).unwrap_or_default();
    for at in listened.iter().chain(&told) {
        let named = host(at).to_owned();
        if !is_unspecified(at) && !hosts.contains(&named) {
            hosts.push(named);
        }
    }
    Ok(hosts)
}

impl AutoTlsOptions {
    pub(crate) fn years(&self) -> Result<u32, String> {
        match self.self_signed_cert_validity.unwrap_or(1) {
            years @ 1..=YEARS_MAX => Ok(years),
            years => Err(format!(
                "--self-signed-cert-validity {years} is not between 1 and {YEARS_MAX}"
            )),
        }
    }
}

impl ClientTlsSettings {
    /// Whether clients speak plain text.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, ClientTlsSettings::Plain { .. })
    }

    /// Reads the files, and makes none; `None` also for a certificate that the replica is to make.
    pub(crate) fn look(&self, data_dir: &Path) -> Result<Option<PortTls>, TlsError> {
        match self {
            ClientTlsSettings::Secured(port) if matches!(port.source, Source::Files(..)) => {
                port.open(data_dir).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the files; makes those that the replica is to make, in its data folder. `None` for a port without TLS.
    pub(crate) fn open(&self, data_dir: &Path) -> Result<Option<Arc<PortTls>>, Failure> {
        let port = match self {
            ClientTlsSettings::Secured(port) => port,
            ClientTlsSettings::Plain { has_certificates } => {
                if *has_certificates {
                    tracing::warn!(
                        "--listen-client-urls says http://: certificates for it are not used, and clients speak plain \
                         text"
                    );
                }
                return Ok(None);
            }
        };
        let opened = port.open(data_dir);
        let opened = opened.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Some(Arc::new(opened)))
    }
}

impl SecuredPort {
    fn open(&self, data_dir: &Path) -> Result<PortTls, TlsError> {
        let (certificate, key) = match &self.source {
            Source::Files(certificate, key) => (certificate.clone(), key.clone()),
            Source::Own { hosts, years } => {
                self_signed(&data_dir.join(OWN_CERTIFICATE), hosts, *years)?
            }
        };
        let acceptor = Acceptor::new(ServerFiles {
            certificate,
            key,
            authorities: self.authorities.clone(),
            revoked: self.revoked.clone(),
            allowed: self.allowed.clone(),
            parameters: self.parameters.clone(),
            languages: LANGUAGES,
        })?;
        Ok(PortTls::new(acceptor, self.names_users))
    }
}
