//! Authorities and certificates for tests of TLS, as files in a folder.

#![allow(
    clippy::disallowed_methods,
    reason = "certificates are valid for a time"
)]

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::cell::Cell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Signs certificates, and says which are revoked.
pub struct Authority {
    dir: PathBuf,
    name: String,
    issuer: Issuer<'static, KeyPair>,
    serial_next: Cell<u64>,
}

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// For as long as anybody tests.
    Usual,
    /// For so long from now on.
    For(Duration),
    /// In a year that is over.
    Expired,
    /// In a year that is far away.
    NotYet,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The path of the certificate.
    pub certificate: PathBuf,
    /// The path of its key.
    pub key: PathBuf,
    serial: u64,
}

impl Issued {
    /// The serial number, in hexadecimal digits.
    #[must_use]
    pub fn serial_text(&self) -> String {
        format!("{:04x}", self.serial)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority of this name, whose certificate is a file in a folder.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let authority = Authority {
            dir: dir.to_owned(),
            name: name.to_owned(),
            issuer: Issuer::new(params, key),
            serial_next: Cell::new(0x4001),
        };
        write(&authority.path(), &certificate.pem());
        authority
    }

    /// The path of the authority's own certificate.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(format!("{}.pem", self.name))
    }

    /// Signs a certificate with this common name for these hosts; its files have the name, too, and replace those that
    /// had it.
    ///
    /// # Panics
    /// If a host is neither a name nor an address, or the folder cannot be written.
    #[must_use]
    pub fn issue(&self, name: &str, hosts: &[&str], validity: Validity) -> Issued {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names of hosts");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let serial = self.serial_next.replace(self.serial_next.get() + 1);
        params.serial_number = Some(SerialNumber::from(serial));
        match validity {
            Validity::Usual => {}
            Validity::For(time) => params.not_after = (SystemTime::now() + time).into(),
            Validity::Expired => {
                params.not_before = date_time_ymd(2020, 1, 1);
                params.not_after = date_time_ymd(2021, 1, 1);
            }
            Validity::NotYet => {
                params.not_before = date_time_ymd(2900, 1, 1);
                params.not_after = date_time_ymd(2901, 1, 1);
            }
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let issued = Issued {
            certificate: self.dir.join(format!("{name}.pem")),
            key: self.dir.join(format!("{name}.key")),
            serial,
        };
        write(&issued.key, &key.serialize_pem());
        write(&issued.certificate, &certificate.pem());
        issued
    }

    /// Writes the list of certificates that are revoked, as a file; replaces the one before.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn revoke(&self, revoked: &[&Issued]) -> PathBuf {
        let revoked = revoked.iter().map(|issued| RevokedCertParams {
            serial_number: SerialNumber::from(issued.serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2900, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("a list");
        let path = self.dir.join(format!("{}.crl", self.name));
        write(&path, &list.pem().expect("a list in PEM"));
        path
    }
}

/// Replaces a file in one step, as those who rotate certificates should.
fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("a file in the folder");
    fs::rename(&beside, path).expect("a file in the folder");
}
