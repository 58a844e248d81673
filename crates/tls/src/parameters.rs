//! Versions and cipher suites by the names that etcd has for them.

use crate::error::TlsError;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, SupportedProtocolVersion};
use std::sync::Arc;

/// The versions, by etcd's names, ascending.
const VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [
    ("TLS1.2", &rustls::version::TLS12),
    ("TLS1.3", &rustls::version::TLS13),
];

/// Go's names of suites of TLS 1.2; older ones are not spoken here.
const SUITES: [(&str, CipherSuite); 9] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// Versions and cipher suites of TLS.
#[derive(Clone, Debug)]
pub struct Parameters {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            provider: Arc::new(ring::default_provider()),
            versions: VERSIONS.map(|(_, version)| version).to_vec(),
        }
    }
}

impl Parameters {
    /// What etcd's flags `--cipher-suites`, `--tls-min-version` and `--tls-max-version` say. Suites of TLS 1.3 are all
    /// spoken, whatever is listed, as in Go.
    ///
    /// # Errors
    /// A name that is not known, or a combination that leaves nothing.
    pub fn of(
        suites: &[String],
        least: Option<&str>,
        most: Option<&str>,
    ) -> Result<Parameters, TlsError> {
        let at = |flag: &str, name: &str| {
            let found = VERSIONS.iter().position(|(known, _)| *known == name);
            found.ok_or_else(|| {
                TlsError::Settings(format!("--{flag} {name:?} is neither TLS1.2 nor TLS1.3"))
            })
        };
        let named = |flag: &str, name: Option<&str>, default: usize| match name {
            None | Some("") => Ok(default),
            Some(name) => at(flag, name),
        };
        let from = named("tls-min-version", least, 0)?;
        let to = named("tls-max-version", most, VERSIONS.len() - 1)?;
        if from > to {
            let why = "--tls-min-version is above --tls-max-version".to_owned();
            return Err(TlsError::Settings(why));
        }
        let versions: Vec<_> = VERSIONS[from..=to]
            .iter()
            .map(|(_, version)| *version)
            .collect();
        let mut provider = ring::default_provider();
        if !suites.is_empty() {
            let wanted = suites.iter().map(|name| suite(name));
            let wanted = wanted.collect::<Result<Vec<CipherSuite>, TlsError>>()?;
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
            // Go speaks them in the order of the list.
            let place = |suite: CipherSuite| wanted.iter().position(|wanted| *wanted == suite);
            provider
                .cipher_suites
                .sort_by_key(|suite| (suite.tls13().is_none(), place(suite.suite())));
        }
        let is_spoken = |version: &&SupportedProtocolVersion| {
            let mut suites = provider.cipher_suites.iter();
            suites.any(|suite| suite.version() == *version)
        };
        if !versions.iter().all(is_spoken) {
            let why =
                "--cipher-suites names none of TLS 1.2: add one, or set --tls-min-version TLS1.3";
            return Err(TlsError::Settings(why.to_owned()));
        }
        Ok(Parameters {
            provider: Arc::new(provider),
            versions,
        })
    }
}

fn suite(name: &str) -> Result<CipherSuite, TlsError> {
    // Go has two names for each of these.
    let full = match name.ends_with("CHACHA20_POLY1305") {
        true => format!("{name}_SHA256"),
        false => name.to_owned(),
    };
    let found = SUITES.iter().find(|(known, _)| *known == full);
    found.map(|(_, suite)| *suite).ok_or_else(|| {
        let known: Vec<&str> = SUITES.iter().map(|(known, _)| *known).collect();
        TlsError::Settings(format!(
            "--cipher-suites: {name:?} is not spoken here; these are: {}",
            known.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(suites: &[&str], least: &str, most: &str) -> Result<Parameters, String> {
        let suites: Vec<String> = suites.iter().map(|name| (*name).to_owned()).collect();
        Parameters::of(&suites, Some(least), Some(most)).map_err(|error| error.to_string())
    }

    #[test]
    fn versions_and_suites_are_those_that_were_named() {
        let all = of(&[], "", "").unwrap();
        assert_eq!(
            (all.versions.len(), all.provider.cipher_suites.len()),
            (2, SUITES.len())
        );
        let chosen = [
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        ];
        let some = of(&chosen, "TLS1.2", "TLS1.2").unwrap();
        let older = some
            .provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none());
        let older: Vec<CipherSuite> = older.map(|suite| suite.suite()).collect();
        assert_eq!(
            older,
            [
                CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            ]
        );
        assert_eq!(of(&[], "TLS1.3", "").unwrap().versions.len(), 1);
    }

    #[test]
    fn what_leaves_nothing_is_refused() {
        for (suites, least, most, why) in [
            (
                &["TLS_RSA_WITH_RC4_128_SHA"][..],
                "",
                "",
                "is not spoken here",
            ),
            (
                &["TLS_AES_128_GCM_SHA256"],
                "",
                "",
                "--cipher-suites names none",
            ),
            (&[], "TLS1.3", "TLS1.2", "above"),
            (&[], "TLS1.1", "", "neither TLS1.2 nor TLS1.3"),
        ] {
            let error = of(suites, least, most).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
