//! What people are told of a certificate, and what names are compared with.

use crate::der::{
    self, BOOLEAN, ID_ALTERNATIVE_NAMES, ID_COMMON_NAME, INTEGER, OBJECT_ID, OCTET_STRING, Reader,
    SEQUENCE, SET,
};
use std::fmt;
use std::net::IpAddr;

/// The names of subjects in a certificate that are kept, at most.
const NAMES_MAX: usize = 1024;
/// Letters of a name that are shown.
const SHOWN_MAX: usize = 120;

const TAG_VERSION: u8 = 0xa0;
const TAG_EXTENSIONS: u8 = 0xa3;
const TAG_DNS_NAME: u8 = 0x82;
const TAG_IP_ADDRESS: u8 = 0x87;

/// What a certificate (RFC 5280) says of its subject. It is not verified by being read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Certificate {
    /// The subject's common name, empty if it has none.
    pub common_name: String,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The time from which the certificate is valid, in seconds since 1970.
    pub not_before: i64,
    /// The time until which it is valid, in seconds since 1970.
    pub not_after: i64,
    /// The host names among its alternative names.
    pub dns_names: Vec<String>,
    /// The addresses among its alternative names.
    pub addresses: Vec<IpAddr>,
}

impl Certificate {
    /// Reads a certificate in DER; `None` if it is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Certificate> {
        let mut signed = Reader::new(bytes).enter(SEQUENCE)?.enter(SEQUENCE)?;
        if signed.tag() == Some(TAG_VERSION) {
            signed.value()?;
        }
        let serial = signed.expect(INTEGER)?;
        let _algorithm = signed.expect(SEQUENCE)?;
        let _issuer = signed.expect(SEQUENCE)?;
        let mut validity = signed.enter(SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let common_name = common_name(signed.enter(SEQUENCE)?);
        let _key = signed.expect(SEQUENCE)?;
        let mut certificate = Certificate {
            common_name: common_name.unwrap_or_default(),
            serial: serial_text(serial),
            not_before,
            not_after,
            ..Certificate::default()
        };
        while let Some((tag, content)) = signed.value() {
            if tag == TAG_EXTENSIONS {
                certificate.read_extensions(Reader::new(content).enter(SEQUENCE)?)?;
            }
        }
        Some(certificate)
    }

    fn read_extensions(&mut self, mut extensions: Reader<'_>) -> Option<()> {
        while let Some(mut extension) = extensions.enter(SEQUENCE) {
            if extension.expect(OBJECT_ID)? != ID_ALTERNATIVE_NAMES {
                continue;
            }
            if extension.tag() == Some(BOOLEAN) {
                extension.value()?;
            }
            let names = extension.expect(OCTET_STRING)?;
            self.read_names(Reader::new(names).enter(SEQUENCE)?);
        }
        Some(())
    }

    fn read_names(&mut self, mut names: Reader<'_>) {
        while let Some((tag, content)) = names.value() {
            if self.dns_names.len() + self.addresses.len() >= NAMES_MAX {
                return;
            }
            match tag {
                TAG_DNS_NAME => self
                    .dns_names
                    .extend(std::str::from_utf8(content).map(str::to_owned)),
                TAG_IP_ADDRESS => self.addresses.extend(address(content)),
                _ => {}
            }
        }
    }

    /// Whether the certificate names hosts or addresses.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.dns_names.is_empty() || !self.addresses.is_empty()
    }

    /// The names in words, for a message.
    pub(crate) fn names_text(&self) -> String {
        let names = self.dns_names.iter().map(|name| printable(name));
        let all: Vec<String> = names
            .chain(self.addresses.iter().map(IpAddr::to_string))
            .take(8)
            .collect();
        match all.is_empty() {
            true => "no host at all".to_owned(),
            false => all.join(", "),
        }
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.common_name.is_empty() {
            true => write!(f, "serial {}", printable(&self.serial)),
            false => write!(
                f,
                "CN={}, serial {}",
                printable(&self.common_name),
                printable(&self.serial)
            ),
        }
    }
}

/// A text that others chose, fit for one line of a log.
fn printable(text: &str) -> String {
    let shown = text.chars().take(SHOWN_MAX);
    shown
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// The last common name of a subject.
fn common_name(mut subject: Reader<'_>) -> Option<String> {
    let mut found = None;
    while let Some(mut set) = subject.enter(SET) {
        while let Some(mut attribute) = set.enter(SEQUENCE) {
            if attribute.expect(OBJECT_ID)? == ID_COMMON_NAME {
                let (_, text) = attribute.value()?;
                found = std::str::from_utf8(text).ok().map(str::to_owned);
            }
        }
    }
    found
}

fn serial_text(serial: &[u8]) -> String {
    let zeros = serial.iter().take_while(|digit| **digit == 0).count();
    let digits = match &serial[zeros..] {
        [] => &[0][..],
        digits => digits,
    };
    digits.iter().map(|digit| format!("{digit:02x}")).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// The time that a certificate is compared with, in seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Says in one sentence from when or until when a certificate is valid, if it is not valid at this time.
pub(crate) fn validity_trouble(certificate: &Certificate, now: i64) -> Option<String> {
    if now > certificate.not_after {
        return Some(format!(
            "has expired on {}",
            der::date_text(certificate.not_after)
        ));
    }
    (now < certificate.not_before).then(|| {
        format!(
            "is valid only from {} on",
            der::date_text(certificate.not_before)
        )
    })
}
