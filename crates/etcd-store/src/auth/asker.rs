//! Who asks for a command or a query.

use crate::refused::Refused;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_core::{Decoder, Encoder};
use std::sync::Arc;

/// In front of a command: a user asks for it.
pub(crate) const BY_USER: u8 = 0x1a;
/// In front of a command: the server itself asks for it.
pub(crate) const BY_SERVER: u8 = 0x1b;

/// Who asks, as far as a face has found out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Asker {
    /// A client of a member that has authentication off, as far as that member knows.
    #[default]
    Anybody,
    /// A client that showed no credentials although authentication is on.
    Nobody,
    /// The server itself, which has every right.
    Server,
    /// A user that showed credentials.
    User(Identity),
}

/// A user whose credentials were checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The name of the user.
    pub name: Arc<str>,
    /// The auth revision under which the credentials were checked.
    pub revision: u64,
}

impl Asker {
    /// The command with this body, asked for by this asker. Without one it is the body itself.
    #[must_use]
    pub fn sign(&self, body: Bytes) -> Bytes {
        let identity = match self {
            Asker::Anybody | Asker::Nobody => return body,
            Asker::Server => {
                let mut signed = BytesMut::with_capacity(1 + body.len());
                signed.put_u8(BY_SERVER);
                signed.put(body);
                return signed.freeze();
            }
            Asker::User(identity) => identity,
        };
        let mut head = Encoder::with_capacity(HEAD_BYTES + identity.name.len());
        head.u8(BY_USER);
        head.varint(identity.revision);
        head.string(&identity.name);
        let head = head.into_bytes();
        let mut signed = BytesMut::with_capacity(head.len() + body.len());
        signed.put(head);
        signed.put(body);
        signed.freeze()
    }

    /// The name of the user that asks, if one does.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Asker::User(identity) => Some(&identity.name),
            Asker::Anybody | Asker::Nobody | Asker::Server => None,
        }
    }
}

/// What stands in front of a user's command besides the name, at most.
const HEAD_BYTES: usize = 16;

/// Takes a command apart into who asks and what is asked for. Of a command that nobody has signed, the body is the
/// command itself.
pub(crate) fn asker_and_body(command: &Bytes) -> Result<Option<(Asker, Bytes)>, Refused> {
    match command.first() {
        Some(&BY_USER) => {
            let read = read_user(command.slice(1..));
            read.map(Some).ok_or(Refused::Malformed)
        }
        Some(&BY_SERVER) => Ok(Some((Asker::Server, command.slice(1..)))),
        _ => Ok(None),
    }
}

/// What is asked for by a command, whoever asks; nothing where that cannot be told.
pub(crate) fn bare_body(command: &Bytes) -> Bytes {
    match asker_and_body(command) {
        Ok(Some((_, body))) => body,
        Ok(None) => command.clone(),
        Err(_) => Bytes::new(),
    }
}

fn read_user(rest: Bytes) -> Option<(Asker, Bytes)> {
    let mut input = Decoder::new(rest.clone());
    let revision = input.varint().ok()?;
    let name = input.string().ok()?;
    let body = rest.slice(rest.len() - input.remaining()..);
    let name = name.into();
    Some((Asker::User(Identity { name, revision }), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice(revision: u64) -> Asker {
        let name = "alice".into();
        Asker::User(Identity { name, revision })
    }

    #[test]
    fn who_asks_comes_back_with_what_is_asked_for() {
        let body = Bytes::from_static(b"\x11\x0a\x01k");
        for asker in [alice(0), alice(300), alice(u64::MAX), Asker::Server] {
            let signed = asker.sign(body.clone());
            assert_ne!(signed, body);
            assert_eq!(asker_and_body(&signed), Ok(Some((asker, body.clone()))));
            assert_eq!(bare_body(&signed), body);
        }
    }

    #[test]
    fn a_command_that_nobody_signs_is_as_it_was() {
        let body = Bytes::from_static(b"\x11\x0a\x01k");
        for asker in [Asker::Anybody, Asker::Nobody] {
            assert_eq!(asker.sign(body.clone()), body);
        }
        assert_eq!(asker_and_body(&body), Ok(None));
    }

    #[test]
    fn a_signature_that_is_cut_off_is_malformed() {
        let signed = alice(300).sign(Bytes::new());
        for length in 1..signed.len() {
            let part = signed.slice(..length);
            assert_eq!(asker_and_body(&part), Err(Refused::Malformed), "{part:?}");
        }
        let no_text = Bytes::from_static(b"\x1a\x01\x01\xff");
        assert_eq!(asker_and_body(&no_text), Err(Refused::Malformed));
    }
}
