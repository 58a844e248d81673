//! What is wrong with a certificate, in one sentence that names it.

use crate::certificate::{Certificate, validity_trouble};
use crate::error::TlsError;
use crate::names::is_valid_for;
use crate::source::CertificateFile;
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error};
use std::path::Path;

/// What a certificate was held against.
pub(crate) struct Standard<'a> {
    /// The owner of the certificate, in words.
    pub(crate) whose: &'a str,
    /// The file of the authorities that are trusted.
    pub(crate) authorities: &'a Path,
    /// The host that it must be valid for.
    pub(crate) host: Option<&'a str>,
    /// The time, in seconds since 1970.
    pub(crate) now: i64,
}

impl Standard<'_> {
    /// Says what is wrong with a certificate that the library does not take.
    pub(crate) fn explain(&self, bytes: &CertificateDer<'_>, error: &Error) -> String {
        let Some(certificate) = Certificate::read(bytes) else {
            return format!("{}'s certificate is damaged", self.whose);
        };
        let trouble = match error {
            Error::InvalidCertificate(error) => self.trouble(&certificate, error),
            other => other.to_string(),
        };
        format!("{}'s certificate ({certificate}) {trouble}", self.whose)
    }

    fn trouble(&self, certificate: &Certificate, error: &CertificateError) -> String {
        match error {
            CertificateError::Revoked => "is revoked".to_owned(),
            CertificateError::UnknownIssuer => format!(
                "is signed by an authority that is not in {}",
                self.authorities.display()
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                self.name_trouble(certificate)
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "is not meant for this (extended key usage)".to_owned()
            }
            other => validity_trouble(certificate, self.now)
                .unwrap_or_else(|| format!("cannot be used: {other}")),
        }
    }

    fn name_trouble(&self, certificate: &Certificate) -> String {
        let host = self.host.unwrap_or_default();
        format!(
            "is not valid for {host}: it names {}",
            certificate.names_text()
        )
    }

    /// Whether a certificate is fit that is trusted itself, byte by byte, and marked as an authority's: those that
    /// people make by hand often are both, and the library takes no authority's for a server's or a client's.
    pub(crate) fn takes_as_trusted(
        &self,
        bytes: &CertificateDer<'_>,
        trusted: &[CertificateDer<'_>],
        error: &Error,
    ) -> bool {
        let is_of_kind = matches!(error, Error::InvalidCertificate(CertificateError::Other(_)));
        let Some(certificate) =
            Certificate::read(bytes).filter(|_| is_of_kind && trusted.contains(bytes))
        else {
            return false;
        };
        validity_trouble(&certificate, self.now).is_none()
            && self
                .host
                .is_none_or(|host| is_valid_for(&certificate, host))
    }
}

/// Why a handshake failed, for people. `own` is the certificate that was shown to the other side.
pub(crate) fn failure(error: &Error, own: Option<&CertificateFile>) -> TlsError {
    let own = own.map_or_else(|| "none".to_owned(), CertificateFile::to_string);
    match error {
        Error::NoCertificatesPresented => TlsError::Certificate(
            "it shows no certificate, and this port wants one of a trusted authority".to_owned(),
        ),
        Error::AlertReceived(alert) => TlsError::Refused(match alert {
            AlertDescription::CertificateRequired => {
                "the other side wants a certificate, and none was given".to_owned()
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => format!(
                "the other side does not take this one's certificate, which is {own}: it says {alert:?}"
            ),
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
                "the two sides have no TLS version or cipher suite in common".to_owned()
            }
            other => format!("the other side ended the TLS handshake: it says {other:?}"),
        }),
        Error::PeerIncompatible(why) => TlsError::Refused(format!(
            "the two sides have no TLS version or cipher suite in common ({why:?})"
        )),
        Error::InvalidMessage(_) => TlsError::Refused(
            "what the other side sends is no TLS: does it speak plain text?".to_owned(),
        ),
        other => TlsError::Refused(format!("the TLS handshake failed: {other}")),
    }
}
