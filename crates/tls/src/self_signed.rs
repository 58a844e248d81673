//! A certificate that nobody signed but its owner, for those who ask for `--auto-tls`.

use crate::certificate::now;
use crate::der::{
    self, BIT_STRING, ID_ALTERNATIVE_NAMES, ID_COMMON_NAME, INTEGER, OBJECT_ID, OCTET_STRING,
    SEQUENCE, SET, UTF8_STRING, value, values,
};
use crate::error::TlsError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;
/// How far other machines' clocks may be behind.
const CLOCK_SLACK_SECONDS: i64 = 60 * 60;
/// A certificate that was made before is used again as long as it is valid for so long.
const VALID_SECONDS_MIN: i64 = 24 * 60 * 60;

/// Letters in a line of PEM.
const PEM_LINE: usize = 64;

/// The identifier `1.2.840.10045.2.1`, keys on elliptic curves.
const ID_EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// The identifier `1.2.840.10045.3.1.7`, the curve P-256.
const ID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// The identifier `1.2.840.10045.4.3.2`, signatures by ECDSA with SHA-256.
const ID_ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// The identifier `2.5.29.37`, what a key may be used for.
const ID_EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// The identifiers `1.3.6.1.5.5.7.3.1` and `.2`, servers and clients.
const IDS_USES: [&[u8]; 2] = [
    &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01],
    &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02],
];

/// The paths of a certificate for these hosts and of its key in a folder: those that are there, or new ones, valid for
/// so many years.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn self_signed(
    dir: &Path,
    hosts: &[String],
    years: u32,
) -> Result<(PathBuf, PathBuf), TlsError> {
    let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let valid_until = crate::files::chain(&certificate).map(|chain| chain.first.not_after);
    let is_valid = valid_until.is_ok_and(|until| until - now() >= VALID_SECONDS_MIN);
    if is_valid && crate::files::key(&key).is_ok() {
        return Ok((certificate, key));
    }
    fs::create_dir_all(dir).map_err(|error| TlsError::file(dir, error))?;
    let made = make(hosts, years)?;
    // Without the key that it belongs to, a certificate is of no use: the key is written first.
    write(&key, &pem("PRIVATE KEY", &made.key))?;
    write(&certificate, &pem("CERTIFICATE", &made.certificate))?;
    Ok((certificate, key))
}

fn write(path: &Path, text: &str) -> Result<(), TlsError> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| TlsError::file(path, error))
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines: Vec<&str> = (0..text.len())
        .step_by(PEM_LINE)
        .map(|at| &text[at..(at + PEM_LINE).min(text.len())])
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

struct SelfSigned {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

fn make(hosts: &[String], years: u32) -> Result<SelfSigned, TlsError> {
    let failed = |_| TlsError::Settings("no key could be made for a certificate".to_owned());
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random);
    let pair = pair.map_err(|_| failed(ring::error::Unspecified))?;
    let mut serial = [0; 16];
    random.fill(&mut serial).map_err(failed)?;
    // A number that is positive and has all its bytes.
    serial[0] = serial[0] & 0x7f | 0x40;
    let content = content(hosts, years, &serial, pair.public_key().as_ref());
    let signature = pair.sign(&random, &content).map_err(failed)?;
    let certificate = values(
        SEQUENCE,
        &[content, signature_algorithm(), bits(signature.as_ref())],
    );
    Ok(SelfSigned {
        certificate,
        key: key.as_ref().to_vec(),
    })
}

/// What is signed of a certificate (RFC 5280, section 4.1).
fn content(hosts: &[String], years: u32, serial: &[u8], public_key: &[u8]) -> Vec<u8> {
    let name = name();
    let begin = now() - CLOCK_SLACK_SECONDS;
    let end = now() + i64::from(years) * YEAR_SECONDS;
    let key_algorithm = [
        value(OBJECT_ID, ID_EC_PUBLIC_KEY),
        value(OBJECT_ID, ID_P256),
    ];
    let key = [values(SEQUENCE, &key_algorithm), bits(public_key)];
    let uses = IDS_USES.map(|id| value(OBJECT_ID, id));
    let extensions = [
        extension(
            ID_ALTERNATIVE_NAMES,
            &values(SEQUENCE, &alternative_names(hosts)),
        ),
        extension(ID_EXTENDED_KEY_USAGE, &values(SEQUENCE, &uses)),
    ];
    const VERSION_3: u8 = 2;
    values(
        SEQUENCE,
        &[
            values(0xa0, &[value(INTEGER, &[VERSION_3])]),
            value(INTEGER, serial),
            signature_algorithm(),
            name.clone(),
            values(SEQUENCE, &[der::time(begin), der::time(end)]),
            name,
            values(SEQUENCE, &key),
            values(0xa3, &[values(SEQUENCE, &extensions)]),
        ],
    )
}

fn name() -> Vec<u8> {
    let attribute = [
        value(OBJECT_ID, ID_COMMON_NAME),
        value(UTF8_STRING, b"quorate"),
    ];
    values(SEQUENCE, &[values(SET, &[values(SEQUENCE, &attribute)])])
}

fn alternative_names(hosts: &[String]) -> Vec<Vec<u8>> {
    let named = hosts.iter().map(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => value(0x87, &address.octets()),
            Ok(IpAddr::V6(address)) => value(0x87, &address.octets()),
            Err(_) => value(0x82, bare.as_bytes()),
        }
    });
    named.collect()
}

fn extension(id: &[u8], content: &[u8]) -> Vec<u8> {
    values(
        SEQUENCE,
        &[value(OBJECT_ID, id), value(OCTET_STRING, content)],
    )
}

fn signature_algorithm() -> Vec<u8> {
    values(SEQUENCE, &[value(OBJECT_ID, ID_ECDSA_WITH_SHA256)])
}

/// A string of whole bytes, as a BIT STRING.
fn bits(bytes: &[u8]) -> Vec<u8> {
    const UNUSED_BITS: u8 = 0;
    value(BIT_STRING, &[&[UNUSED_BITS], bytes].concat())
}
