//! Signed tokens (RFC 7519), with the claims that etcd's have.
//!
//! Only one algorithm is taken, that of the server's options: what a token says of its own is compared and nothing
//! else. A token names a user and the auth revision at which its password was checked; after any change of users or
//! roles it is of no more use for keys, and its user gets another one.

use super::keys::{Method, PrivateKey};
use super::pem;
use super::tokens::sha256;
use super::verified::{Claims, VerifiedTokens};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quorate_etcd_store::Identity;
use ring::hmac;
use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The shortest secret for an algorithm with a shared one, in bytes.
const SECRET_BYTES_MIN: usize = 16;

/// How tokens are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtOptions {
    /// The algorithm, such as `RS256`.
    pub method: String,
    /// The content of the file with the public key.
    pub public_key: Option<Vec<u8>>,
    /// The content of the file with the private key, or with the shared secret.
    pub private_key: Option<Vec<u8>>,
    /// How long a token lasts.
    pub ttl: Duration,
}

impl fmt::Debug for JwtOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtOptions")
            .field("method", &self.method)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// Signs tokens and checks them.
pub struct JwtSigner {
    method: String,
    ttl: Duration,
    key: Key,
    /// Tokens whose signatures were found right.
    verified: VerifiedTokens,
}

impl fmt::Debug for JwtSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtSigner")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl PartialEq for JwtSigner {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for JwtSigner {}

enum Key {
    Shared(hmac::Key),
    Pair {
        /// `None` for a member that only checks.
        private: Option<PrivateKey>,
        public: Vec<u8>,
        verification: &'static dyn VerificationAlgorithm,
    },
}

impl JwtSigner {
    /// With these keys.
    ///
    /// # Errors
    /// Which option is wrong, and what would be right; no part of a key.
    pub fn new(options: &JwtOptions) -> Result<JwtSigner, String> {
        let JwtOptions { method: name, .. } = options;
        let method = Method::named(name).ok_or_else(|| {
            format!(
                "sign-method={name}: it is one of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, \
                 PS512, ES256, ES384 and EdDSA"
            )
        })?;
        Ok(JwtSigner {
            method: name.clone(),
            ttl: options.ttl,
            key: match method {
                Method::Hmac(algorithm) => shared_key(algorithm, options)?,
                method => key_pair(&method, options)?,
            },
            verified: VerifiedTokens::default(),
        })
    }

    /// A token for a user.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn issue(&self, identity: &Identity, now_s: u64) -> Result<String, String> {
        let header = json!({"alg": self.method, "typ": "JWT"});
        let claims = json!({
            "username": &*identity.name,
            "revision": identity.revision,
            "exp": now_s.saturating_add(self.ttl.as_secs()),
        });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(&claims));
        let signature = match &self.key {
            Key::Shared(key) => Some(hmac::sign(key, message.as_bytes()).as_ref().to_vec()),
            Key::Pair { private, .. } => {
                let why = "this member only checks tokens: --auth-token names no private key";
                let private = private.as_ref().ok_or(why)?;
                private.sign(message.as_bytes())
            }
        };
        let signature = signature.ok_or("the token cannot be signed")?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Who a token is for, if this is one of ours and its time is not over.
    pub(super) fn identity(&self, token: &str, now_s: u64) -> Option<Identity> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let digest = sha256(token.as_bytes());
        let claims = match self.verified.find(&digest) {
            Some(claims) => claims,
            None => {
                let claims = self.verify(token)?;
                self.verified.keep(digest, claims.clone());
                claims
            }
        };
        claims.count_at(now_s).then_some(claims.identity)
    }

    /// What a token says, if this is one of ours.
    fn verify(&self, token: &str) -> Option<Claims> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        if header.get("alg")?.as_str()? != self.method {
            return None;
        }
        if !self.has_signed(message.as_bytes(), &decode(signature)?) {
            return None;
        }
        let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
        let time = |name: &str| match claims.get(name) {
            None => Some(None),
            Some(time) => time.as_f64().map(Some),
        };
        Some(Claims {
            identity: Identity {
                name: claims.get("username")?.as_str()?.into(),
                revision: claims.get("revision")?.as_u64()?,
            },
            end_s: time("exp")?,
            start_s: time("nbf")?,
        })
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.key {
            Key::Shared(key) => hmac::verify(key, message, signature).is_ok(),
            Key::Pair {
                public,
                verification,
                ..
            } => {
                let key = UnparsedPublicKey::new(*verification, public);
                key.verify(message, signature).is_ok()
            }
        }
    }
}

fn shared_key(algorithm: hmac::Algorithm, options: &JwtOptions) -> Result<Key, String> {
    let secret = options.private_key.as_deref().unwrap_or_default();
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "priv-key= names the file with the shared secret of {}, which has at least {SECRET_BYTES_MIN} bytes",
            options.method
        ));
    }
    Ok(Key::Shared(hmac::Key::new(algorithm, secret)))
}

fn key_pair(method: &Method, options: &JwtOptions) -> Result<Key, String> {
    let name = &options.method;
    let private = options.private_key.as_deref().map(|file| {
        let block = pem::first_key(file).map_err(|why| format!("priv-key=: {why}"))?;
        let key = method.private_key(&block);
        key.ok_or_else(|| format!("priv-key=: the key in it is none for {name}"))
    });
    let private = private.transpose()?;
    let public = options.public_key.as_deref().map(|file| {
        let block = pem::first_key(file).map_err(|why| format!("pub-key=: {why}"))?;
        match &*block.label {
            "RSA PUBLIC KEY" => Ok(block.der),
            "PUBLIC KEY" => {
                let key = pem::public_key_of(&block.der);
                let key = key.ok_or_else(|| "pub-key=: the key in it is damaged".to_owned())?;
                Ok(key.to_vec())
            }
            label => Err(format!("pub-key=: {label:?} is no public key")),
        }
    });
    let public = public.transpose()?;
    let own = private.as_ref().map(|key| key.public().to_vec());
    let public = match (public, own) {
        (None, None) => {
            return Err(format!(
                "{name} needs priv-key=FILE, or pub-key=FILE to check tokens only"
            ));
        }
        (Some(public), Some(own)) if public != own => {
            return Err("pub-key= and priv-key= are not of one pair".to_owned());
        }
        (Some(public), _) | (None, Some(public)) => public,
    };
    let verification = method
        .verification()
        .ok_or("no algorithm checks such tokens")?;
    Ok(Key::Pair {
        private,
        public,
        verification,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    use ring::rand::SystemRandom;
    use ring::signature::{self as sign, EcdsaKeyPair, Ed25519KeyPair};

    const NOW_S: u64 = 1_800_000_000;

    fn options(method: &str) -> JwtOptions {
        JwtOptions {
            method: method.to_owned(),
            public_key: None,
            private_key: None,
            ttl: Duration::from_secs(300),
        }
    }

    fn shared(method: &str) -> JwtSigner {
        JwtSigner::new(&JwtOptions {
            private_key: Some(b"0123456789abcdef0123456789abcdef".to_vec()),
            ..options(method)
        })
        .expect("a good key")
    }

    fn pem_of(label: &str, der: &[u8]) -> Vec<u8> {
        let content = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n").into_bytes()
    }

    fn signers() -> Vec<JwtSigner> {
        let random = SystemRandom::new();
        let ecdsa = |signing| EcdsaKeyPair::generate_pkcs8(signing, &random).expect("a key");
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        let pairs = [
            ("ES256", ecdsa(&sign::ECDSA_P256_SHA256_FIXED_SIGNING)),
            ("ES384", ecdsa(&sign::ECDSA_P384_SHA384_FIXED_SIGNING)),
            ("EdDSA", ed25519),
        ];
        let pairs = pairs.map(|(method, der)| {
            let private_key = Some(pem_of("PRIVATE KEY", der.as_ref()));
            let options = JwtOptions {
                private_key,
                ..options(method)
            };
            JwtSigner::new(&options).expect("a good key")
        });
        let shared = ["HS256", "HS384", "HS512"].map(shared);
        pairs.into_iter().chain(shared).collect()
    }

    fn alice() -> Identity {
        Identity {
            name: "alice".into(),
            revision: 7,
        }
    }

    #[test]
    fn tokens_come_back_as_who_they_are_for_until_their_time_is_over() {
        for signer in signers() {
            let token = signer.issue(&alice(), NOW_S).expect("it has the key");
            assert_eq!(signer.identity(&token, NOW_S), Some(alice()), "{signer:?}");
            assert_eq!(signer.identity(&token, NOW_S + 299), Some(alice()));
            assert_eq!(signer.identity(&token, NOW_S + 300), None);
        }
    }

    #[test]
    fn a_token_of_another_key_or_algorithm_or_a_changed_one_is_none() {
        let signers = signers();
        for signer in &signers {
            let token = signer.issue(&alice(), NOW_S).expect("it has the key");
            for other in signers.iter().filter(|other| *other != signer) {
                assert_eq!(
                    other.identity(&token, NOW_S),
                    None,
                    "{other:?} of {signer:?}"
                );
            }
            for at in 0..token.len() {
                let mut changed = token.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).expect("ASCII");
                let found = signer.identity(&changed, NOW_S);
                // The last letter of a signature may have bits that nobody reads.
                assert!(
                    found.is_none() || at == token.len() - 1,
                    "{signer:?} at {at}"
                );
            }
        }
    }

    /// Without a signature, and with the public key as a shared secret: what libraries were fooled by.
    #[test]
    fn what_a_token_says_of_its_algorithm_decides_nothing() {
        let signer = &signers()[0];
        let Key::Pair { public, .. } = &signer.key else {
            panic!("a pair");
        };
        let forged = JwtSigner::new(&JwtOptions {
            private_key: Some(public.clone()),
            ..options("HS256")
        });
        let forged = forged
            .expect("long enough")
            .issue(&alice(), NOW_S)
            .expect("signed");
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let claims = format!(
            "{{\"username\":\"root\",\"revision\":1,\"exp\":{}}}",
            NOW_S + 9
        );
        let none = format!("{}.{}.", encode("{\"alg\":\"none\"}"), encode(&claims));
        for token in [
            &forged,
            &none,
            "",
            ".",
            "..",
            "a.b.c",
            &"x".repeat(TOKEN_BYTES_MAX + 1),
        ] {
            assert_eq!(signer.identity(token, NOW_S), None, "{token}");
        }
    }

    #[test]
    fn a_member_with_the_public_key_checks_and_does_not_sign() {
        let signer = &signers()[0];
        let Key::Pair { public, .. } = &signer.key else {
            panic!("a pair");
        };
        // The algorithm's name is not looked at: its length is that of P-256.
        let info = [
            &[0x30, 0x59, 0x30, 0x13][..],
            &[0; 0x13],
            &[0x03, 0x42, 0],
            public,
        ]
        .concat();
        let checker = JwtSigner::new(&JwtOptions {
            public_key: Some(pem_of("PUBLIC KEY", &info)),
            ..options("ES256")
        });
        let checker = checker.expect("a good key");
        let token = signer.issue(&alice(), NOW_S).expect("it has the key");
        assert_eq!(checker.identity(&token, NOW_S), Some(alice()));
        assert!(checker.issue(&alice(), NOW_S).is_err());
    }

    #[test]
    fn wrong_options_are_named_without_their_keys() {
        let secret = b"hunter2".to_vec();
        for (options, why) in [
            (options("RS257"), "sign-method=RS257"),
            (options("none"), "sign-method=none"),
            (options("HS256"), "at least 16 bytes"),
            (
                JwtOptions {
                    private_key: Some(secret.clone()),
                    ..options("HS256")
                },
                "at least 16 bytes",
            ),
            (options("RS256"), "priv-key=FILE"),
            (
                JwtOptions {
                    private_key: Some(secret.clone()),
                    ..options("RS256")
                },
                "priv-key=: there is no key in it",
            ),
            (
                JwtOptions {
                    private_key: Some(pem_of("PRIVATE KEY", b"hunter2")),
                    ..options("ES256")
                },
                "none for ES256",
            ),
        ] {
            let said = JwtSigner::new(&options).expect_err("it is wrong");
            assert!(said.contains(why), "{said}");
            assert!(!format!("{said} {options:?}").contains("hunter2"));
        }
    }
}
