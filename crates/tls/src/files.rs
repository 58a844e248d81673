//! Certificates, keys and lists of revoked certificates, as they are in files.

use crate::certificate::Certificate;
use crate::error::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest file that is read: the authorities of a whole system fit in.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Certificates, the own one first, with what it says.
pub(crate) struct Chain {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) first: Certificate,
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| TlsError::file(path, error))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| TlsError::file(path, error))?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(TlsError::file(
            path,
            format!("longer than {FILE_BYTES_MAX} bytes"),
        )),
        false => Ok(bytes),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let parsed = parsed.map_err(|error| TlsError::file(path, format!("not PEM: {error}")))?;
    match parsed.is_empty() {
        true => Err(TlsError::file(
            path,
            "it has no certificate in PEM (BEGIN CERTIFICATE)",
        )),
        false => Ok(parsed),
    }
}

/// Reads a certificate and those that lead from it to an authority.
pub(crate) fn chain(path: &Path) -> Result<Chain, TlsError> {
    let certificates = certificates(path)?;
    let first = Certificate::read(&certificates[0]);
    let first = first.ok_or_else(|| TlsError::file(path, "its first certificate is damaged"))?;
    Ok(Chain {
        certificates,
        first,
    })
}

/// Reads a private key.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path)?;
    // The library's own text is not shown: it might quote the file.
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        TlsError::file(
            path,
            "it has no private key in PEM (BEGIN PRIVATE KEY) without a passphrase",
        )
    })
}

/// The certificates of authorities, and what verifies others by them.
pub(crate) struct Authorities {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) roots: RootCertStore,
}

/// Reads the certificates of authorities.
pub(crate) fn authorities(path: &Path) -> Result<Authorities, TlsError> {
    let certificates = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| {
            TlsError::file(path, format!("a certificate cannot be used: {error}"))
        })?;
    }
    Ok(Authorities {
        certificates,
        roots,
    })
}

/// Reads lists of revoked certificates, in PEM or DER.
pub(crate) fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let parsed: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&bytes).collect();
    match parsed {
        Ok(lists) if !lists.is_empty() => Ok(lists),
        // etcd takes DER.
        _ if bytes.first() == Some(&crate::der::SEQUENCE) => Ok(vec![bytes.into()]),
        _ => Err(TlsError::file(
            path,
            "it has no list of revoked certificates, neither in PEM (BEGIN X509 CRL) nor in DER",
        )),
    }
}
