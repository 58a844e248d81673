//! Whether the certificate of whom one dials is taken.

use crate::certificate::now;
use crate::describe::Standard;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What all servers are held against.
#[derive(Debug)]
pub(crate) struct ServerRules {
    /// `None` where every certificate is taken.
    pub(crate) library: Option<Arc<dyn ServerCertVerifier>>,
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
    pub(crate) authorities: PathBuf,
}

/// The judge of one server's certificate, who remembers what was wrong with it.
#[derive(Debug)]
pub(crate) struct ServerJudge {
    rules: Arc<ServerRules>,
    host: String,
    refused: Mutex<Option<String>>,
}

impl ServerJudge {
    pub(crate) fn new(rules: Arc<ServerRules>, host: &str) -> ServerJudge {
        ServerJudge {
            rules,
            host: host.to_owned(),
            refused: Mutex::default(),
        }
    }

    /// What was wrong with the certificate.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl ServerCertVerifier for ServerJudge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        time: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(library) = &self.rules.library else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = library.verify_server_cert(certificate, others, name, stapled, time);
        let Err(error) = verified else {
            return verified;
        };
        let standard = Standard {
            whose: "the server",
            authorities: &self.rules.authorities,
            host: Some(&self.host),
            now: now(),
        };
        if standard.takes_as_trusted(certificate, &self.rules.trusted, &error) {
            return Ok(ServerCertVerified::assertion());
        }
        let why = standard.explain(certificate, &error);
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        Err(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.rules.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.rules.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.rules
            .provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
