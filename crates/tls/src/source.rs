//! Own certificates, where they are and how long they are valid.

use crate::certificate::{Certificate, now};
use std::fmt;
use std::path::PathBuf;

/// A certificate of this process, and the file that it was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFile {
    /// The path of the file.
    pub path: PathBuf,
    /// What the certificate says.
    pub certificate: Certificate,
}

impl fmt::Display for CertificateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.certificate)
    }
}

/// How long a certificate of this process is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// The certificate and its file.
    pub file: CertificateFile,
    /// Seconds until it expires, below 0 once it has.
    pub seconds_left: i64,
}

impl Expiry {
    pub(crate) fn of(file: CertificateFile) -> Expiry {
        let seconds_left = file.certificate.not_after.saturating_sub(now());
        Expiry { file, seconds_left }
    }
}
