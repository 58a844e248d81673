//! Algorithms that sign tokens, and their keys (RFC 7518).

use super::pem::{self, Block};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::VerificationAlgorithm;
use ring::signature::{self as sign, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};

/// A key that signs.
pub(super) enum PrivateKey {
    Rsa(Box<RsaKeyPair>, &'static dyn sign::RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// What an algorithm takes.
pub(super) enum Method {
    Hmac(hmac::Algorithm),
    Rsa(
        &'static dyn VerificationAlgorithm,
        &'static dyn sign::RsaEncoding,
    ),
    Ecdsa(
        &'static dyn VerificationAlgorithm,
        &'static sign::EcdsaSigningAlgorithm,
    ),
    Ed25519,
}

impl Method {
    pub(super) fn named(name: &str) -> Option<Method> {
        Some(match name {
            "HS256" => Method::Hmac(hmac::HMAC_SHA256),
            "HS384" => Method::Hmac(hmac::HMAC_SHA384),
            "HS512" => Method::Hmac(hmac::HMAC_SHA512),
            "RS256" => Method::Rsa(&sign::RSA_PKCS1_2048_8192_SHA256, &sign::RSA_PKCS1_SHA256),
            "RS384" => Method::Rsa(&sign::RSA_PKCS1_2048_8192_SHA384, &sign::RSA_PKCS1_SHA384),
            "RS512" => Method::Rsa(&sign::RSA_PKCS1_2048_8192_SHA512, &sign::RSA_PKCS1_SHA512),
            "PS256" => Method::Rsa(&sign::RSA_PSS_2048_8192_SHA256, &sign::RSA_PSS_SHA256),
            "PS384" => Method::Rsa(&sign::RSA_PSS_2048_8192_SHA384, &sign::RSA_PSS_SHA384),
            "PS512" => Method::Rsa(&sign::RSA_PSS_2048_8192_SHA512, &sign::RSA_PSS_SHA512),
            "ES256" => Method::Ecdsa(
                &sign::ECDSA_P256_SHA256_FIXED,
                &sign::ECDSA_P256_SHA256_FIXED_SIGNING,
            ),
            "ES384" => Method::Ecdsa(
                &sign::ECDSA_P384_SHA384_FIXED,
                &sign::ECDSA_P384_SHA384_FIXED_SIGNING,
            ),
            "EdDSA" => Method::Ed25519,
            _ => return None,
        })
    }

    pub(super) fn private_key(&self, block: &Block) -> Option<PrivateKey> {
        let der = &block.der;
        let random = SystemRandom::new();
        Some(match self {
            Method::Hmac(_) => return None,
            Method::Rsa(_, encoding) => {
                let key = match &*block.label {
                    "RSA PRIVATE KEY" => RsaKeyPair::from_der(der),
                    _ => RsaKeyPair::from_pkcs8(der),
                };
                PrivateKey::Rsa(Box::new(key.ok()?), *encoding)
            }
            Method::Ecdsa(_, signing) => {
                let key = match &*block.label {
                    "EC PRIVATE KEY" => {
                        let (private, public) = pem::parts_of_ec_key(der)?;
                        EcdsaKeyPair::from_private_key_and_public_key(
                            signing, private, public, &random,
                        )
                    }
                    _ => EcdsaKeyPair::from_pkcs8(signing, der, &random),
                };
                PrivateKey::Ecdsa(key.ok()?)
            }
            Method::Ed25519 => {
                PrivateKey::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?)
            }
        })
    }

    pub(super) fn verification(&self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Method::Hmac(_) => None,
            Method::Rsa(verification, _) | Method::Ecdsa(verification, _) => Some(*verification),
            Method::Ed25519 => Some(&sign::ED25519),
        }
    }
}

impl PrivateKey {
    pub(super) fn public(&self) -> &[u8] {
        match self {
            PrivateKey::Rsa(key, _) => key.public_key().as_ref(),
            PrivateKey::Ecdsa(key) => key.public_key().as_ref(),
            PrivateKey::Ed25519(key) => key.public_key().as_ref(),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            PrivateKey::Rsa(key, encoding) => {
                let mut signature = vec![0; rsa_bytes(key.public())];
                let signed = key.sign(*encoding, &random, message, &mut signature);
                signed.ok().map(|()| signature)
            }
            PrivateKey::Ecdsa(key) => {
                let signed = key.sign(&random, message).ok()?;
                Some(signed.as_ref().to_vec())
            }
            PrivateKey::Ed25519(key) => Some(key.sign(message).as_ref().to_vec()),
        }
    }
}

fn rsa_bytes(key: &rsa::PublicKey) -> usize {
    key.modulus_len()
}
