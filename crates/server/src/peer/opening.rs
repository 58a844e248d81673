//! How connections to the peer port begin, in every wire version.
//!
//! A message travels as `magic [8] | newest u32 | oldest u32 | length u32 | crc32c of the body u32 |
//! body`; newest and oldest are the wire versions its sender speaks. Every version keeps that, so
//! that two replicas without a common version can say so, and leaves the fields of a body where they
//! are: a newer one may add fields behind them.

use super::call_back::CallBack;
use super::gateways::GatewayHello;
use super::handshake::{Hello, Rejection};
use super::join_question::JoinQuestion;
use super::tunnels::TunnelHello;
use bytes::Bytes;
use quorate_core::{Decoder, Wire, WireError};
use quorate_host::{SupportedVersions, WireVersion};
use quorate_tls::TlsError;
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC_BYTES: usize = 8;
const HEAD_BYTES: usize = 24;
const BODY_BYTES_MAX: usize = 4096;

/// A message exchanged before the first frame.
pub(crate) trait Opening: Wire {
    /// The bytes that the message begins with: connections of another kind are told apart by them.
    const MAGIC: [u8; MAGIC_BYTES];
    /// The longest body of the message, in bytes.
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}

/// What a connection to the peer port begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A replica that wants to send frames, in this version.
    Peer(Hello, WireVersion),
    /// A replica that does not know yet whether it may.
    Asking(JoinQuestion),
    /// A replica that was sent a hello, and asks whether it is genuine.
    CallingBack(CallBack),
    /// A remote gateway, which wants to send frames and be sent some, in this version.
    Gateway(GatewayHello, WireVersion),
    /// The face of another replica, with something for the one here.
    Tunnel(TunnelHello),
}

/// Why no handshake came about.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The connection failed or closed.
    Io(io::Error),
    /// Neither encrypted nor proved, as it should be.
    Security(TlsError),
    /// What answers is no replica of this kind at all.
    NotAPeer,
    /// The two sides have no wire version in common.
    Version {
        /// The wire versions of the other replica.
        theirs: SupportedVersions,
        /// The own ones.
        mine: SupportedVersions,
    },
    /// A message that is damaged or larger than any of its kind.
    Malformed(String),
    /// One side does not want the other.
    Rejected(Rejection),
    /// The handshake took too long.
    Timeout,
    /// Too many others began one.
    Crowded,
}

impl HandshakeError {
    /// What kind of trouble it is, for those who count.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            HandshakeError::Io(_) => "connection",
            HandshakeError::Security(error) => error.kind(),
            HandshakeError::NotAPeer => "magic",
            HandshakeError::Version { .. } => "version",
            HandshakeError::Malformed(_) => "malformed",
            HandshakeError::Rejected(rejection) => rejection.code.name(),
            HandshakeError::Timeout => "timeout",
            HandshakeError::Crowded => "crowded",
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Io(error) => write!(f, "{error}"),
            HandshakeError::Security(error) => write!(f, "{error}"),
            HandshakeError::NotAPeer => f.write_str(
                "what answers there is not a Quorate replica's peer port: check the addresses in \
                 --initial-cluster, and whether that port wants TLS",
            ),
            HandshakeError::Version { theirs, mine } => write!(
                f,
                "it speaks {theirs}, this program speaks {mine}: upgrade the older one"
            ),
            HandshakeError::Malformed(why) => write!(f, "a malformed handshake: {why}"),
            HandshakeError::Rejected(rejection) => f.write_str(&rejection.text),
            HandshakeError::Timeout => f.write_str("no handshake in time"),
            HandshakeError::Crowded => f.write_str("too many handshakes at once"),
        }
    }
}

/// Sends one message.
pub(crate) async fn send<T: Opening>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
    supported: SupportedVersions,
) -> io::Result<()> {
    let body = message.to_bytes();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend_from_slice(&T::MAGIC);
    let crc = crc_fast::crc32_iscsi(&body);
    for word in [
        supported.newest.0,
        supported.oldest.0,
        body.len() as u32,
        crc,
    ] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&body);
    to.write_all(&bytes).await?;
    to.flush().await
}

/// Receives one message, and the version to go on in.
pub(crate) async fn receive<T: Opening>(
    from: &mut (impl AsyncRead + Unpin),
    mine: SupportedVersions,
) -> Result<(T, WireVersion), HandshakeError> {
    match receive_magic(from).await? {
        magic if magic == T::MAGIC => receive_body(from, mine).await,
        _ => Err(HandshakeError::NotAPeer),
    }
}

/// Receives what a connection begins with.
pub(crate) async fn receive_caller(
    from: &mut (impl AsyncRead + Unpin),
    mine: SupportedVersions,
) -> Result<Caller, HandshakeError> {
    match receive_magic(from).await? {
        magic if magic == Hello::MAGIC => {
            let (hello, version) = receive_body(from, mine).await?;
            Ok(Caller::Peer(hello, version))
        }
        magic if magic == JoinQuestion::MAGIC => {
            let (question, _) = receive_body(from, mine).await?;
            Ok(Caller::Asking(question))
        }
        magic if magic == CallBack::MAGIC => {
            let (asked, _) = receive_body(from, mine).await?;
            Ok(Caller::CallingBack(asked))
        }
        magic if magic == GatewayHello::MAGIC => {
            let (hello, version) = receive_body(from, mine).await?;
            Ok(Caller::Gateway(hello, version))
        }
        magic if magic == TunnelHello::MAGIC => {
            let (hello, _) = receive_body(from, mine).await?;
            Ok(Caller::Tunnel(hello))
        }
        _ => Err(HandshakeError::NotAPeer),
    }
}

async fn receive_magic(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<[u8; MAGIC_BYTES], HandshakeError> {
    let mut magic = [0; MAGIC_BYTES];
    from.read_exact(&mut magic)
        .await
        .map_err(HandshakeError::Io)?;
    Ok(magic)
}

async fn receive_body<T: Opening>(
    from: &mut (impl AsyncRead + Unpin),
    mine: SupportedVersions,
) -> Result<(T, WireVersion), HandshakeError> {
    let mut head = [0; HEAD_BYTES - MAGIC_BYTES];
    from.read_exact(&mut head)
        .await
        .map_err(HandshakeError::Io)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let theirs = SupportedVersions {
        newest: WireVersion(word(0)),
        oldest: WireVersion(word(4)),
    };
    let (length, checksum) = (word(8) as usize, word(12));
    if length > T::BYTES_MAX {
        return Err(HandshakeError::Malformed(format!(
            "it claims {length} bytes"
        )));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)
        .await
        .map_err(HandshakeError::Io)?;
    if crc_fast::crc32_iscsi(&body) != checksum {
        return Err(HandshakeError::Malformed(
            "its checksum does not match".into(),
        ));
    }
    // Only after the body is read: closing with unread bytes resets the connection, and the peer
    // would never see the answer that names the versions.
    let Some(version) = mine.common(theirs) else {
        return Err(HandshakeError::Version { theirs, mine });
    };
    let message = decode(body.into(), theirs.newest > mine.newest);
    let message = message.map_err(|error| HandshakeError::Malformed(error.to_string()))?;
    Ok((message, version))
}

/// Decodes a body; that of a newer replica may have more fields than are known here.
fn decode<T: Wire>(body: Bytes, is_newer: bool) -> Result<T, WireError> {
    let mut input = Decoder::new(body);
    let message = T::decode(&mut input)?;
    if !is_newer {
        input.finish()?;
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::handshake::Lane;
    use crate::peer::handshake::tests::identity;
    use quorate_core::{Boot, Encoder, ReplicaId};

    fn hello() -> Hello {
        identity(1).hello(ReplicaId(2), Lane::Messages, Boot(7))
    }

    fn supported(oldest: u32, newest: u32) -> SupportedVersions {
        SupportedVersions {
            oldest: WireVersion(oldest),
            newest: WireVersion(newest),
        }
    }

    /// A hello with a field more than this program knows.
    struct Longer(Hello);

    impl Wire for Longer {
        fn encode(&self, out: &mut Encoder) {
            self.0.encode(out);
            out.string("news");
        }

        fn decode(input: &mut Decoder) -> Result<Self, WireError> {
            Hello::decode(input).map(Longer)
        }
    }

    impl Opening for Longer {
        const MAGIC: [u8; MAGIC_BYTES] = Hello::MAGIC;
    }

    async fn heard<T: Opening>(
        message: &T,
        theirs: SupportedVersions,
        mine: SupportedVersions,
    ) -> Result<Caller, String> {
        let mut bytes = Vec::new();
        send(&mut bytes, message, theirs).await.unwrap();
        let caller = receive_caller(&mut &bytes[..], mine).await;
        caller.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn replicas_of_different_versions_understand_each_other_or_say_why_not() {
        let old = supported(1, 1);
        let both = supported(1, 2);
        for (theirs, mine, version) in [(old, both, 1), (both, old, 1), (both, both, 2)] {
            let expected = Caller::Peer(hello(), WireVersion(version));
            assert_eq!(heard(&hello(), theirs, mine).await, Ok(expected));
        }
        let newer = heard(&hello(), supported(3, 4), both).await.unwrap_err();
        let said = "it speaks wire versions 3 to 4, this program speaks wire versions 1 to 2: \
                    upgrade the older one";
        assert_eq!(newer, said);
        let older = heard(&hello(), supported(0, 0), old).await.unwrap_err();
        assert!(older.starts_with("it speaks wire version 0, this program speaks wire version 1"));
    }

    #[tokio::test]
    async fn only_a_newer_replica_may_say_more() {
        let longer = Longer(hello());
        let newer = heard(&longer, supported(1, 2), supported(1, 1)).await;
        assert_eq!(newer, Ok(Caller::Peer(hello(), WireVersion(1))));
        let equal = heard(&longer, supported(1, 2), supported(1, 2)).await;
        assert_eq!(
            equal,
            Err("a malformed handshake: 5 bytes left over".into())
        );
    }
}
