//! Whether the certificate that a caller shows is taken.

use crate::certificate::{Certificate, now};
use crate::describe::Standard;
use crate::names::AllowedNames;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What all callers are held against.
#[derive(Debug)]
pub(crate) struct ClientRules {
    pub(crate) library: Arc<dyn ClientCertVerifier>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
    pub(crate) authorities: PathBuf,
    pub(crate) allowed: AllowedNames,
}

/// The judge of one caller's certificate, who remembers what was wrong with it.
#[derive(Debug)]
pub(crate) struct ClientJudge {
    rules: Arc<ClientRules>,
    refused: Mutex<Option<String>>,
}

impl ClientJudge {
    pub(crate) fn new(rules: Arc<ClientRules>) -> ClientJudge {
        ClientJudge {
            rules,
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

    fn refuse(&self, why: String) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Whether the port is for the owner of a certificate that is good.
    fn admit(&self, bytes: &CertificateDer<'_>) -> Result<(), Error> {
        let allowed = &self.rules.allowed;
        let certificate = Certificate::read(bytes).unwrap_or_default();
        if allowed.allow(&certificate) {
            return Ok(());
        }
        self.refuse(format!(
            "the caller's certificate ({certificate}) is good, but this port is for {}",
            allowed.text()
        ));
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

impl ClientCertVerifier for ClientJudge {
    fn offer_client_auth(&self) -> bool {
        self.rules.library.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.rules.library.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.rules.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        time: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let standard = Standard {
            whose: "the caller",
            authorities: &self.rules.authorities,
            host: None,
            now: now(),
        };
        let verified = self
            .rules
            .library
            .verify_client_cert(certificate, others, time);
        if let Err(error) = verified
            && !standard.takes_as_trusted(certificate, &self.rules.trusted, &error)
        {
            self.refuse(standard.explain(certificate, &error));
            return Err(error);
        }
        self.admit(certificate)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.rules.library).verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.rules.library).verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.rules.library.supported_verify_schemes()
    }
}
