//! Between relays: clients that are served by another one, and the question whether it executes.

use crate::hub::{Hub, Place, Waiting};
use crate::limits::{RelayLimits, TUNNEL_WITHIN};
use crate::metered::{charge, read, write_all};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_core::ReplicaId;
use quorate_server::{Account, Connection, TunnelDialer};
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

const CLIENT: u8 = b'C';
const PROBE: u8 = b'P';
const OFFER: u8 = b'O';
/// What the other relay answers before anything else.
const YES: u8 = 1;
const NO: u8 = 0;

/// What a tunnel is for. The epoch is the one in which the other replica is said to execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A client's bytes follow.
    Client { epoch: u64 },
    /// The answer is all.
    Probe { epoch: u64 },
    /// The caller gives up its office.
    Offer { epoch: u64 },
}

impl Purpose {
    fn to_bytes(self) -> Bytes {
        let (kind, epoch) = match self {
            Purpose::Client { epoch } => (CLIENT, epoch),
            Purpose::Probe { epoch } => (PROBE, epoch),
            Purpose::Offer { epoch } => (OFFER, epoch),
        };
        let mut out = BytesMut::with_capacity(9);
        out.put_u8(kind);
        out.put_u64_le(epoch);
        out.freeze()
    }

    /// Reads what another relay said; `None` if that makes no sense.
    pub(crate) fn of(bytes: &[u8]) -> Option<Purpose> {
        let (kind, epoch) = bytes.split_first()?;
        let epoch = u64::from_le_bytes(epoch.try_into().ok()?);
        match *kind {
            CLIENT => Some(Purpose::Client { epoch }),
            PROBE => Some(Purpose::Probe { epoch }),
            OFFER => Some(Purpose::Offer { epoch }),
            _ => None,
        }
    }
}

/// Asks another relay; a connection that it took.
///
/// # Errors
/// When it cannot be reached in time, or does not take it.
pub(crate) async fn ask(
    dialer: &TunnelDialer,
    to: ReplicaId,
    purpose: Purpose,
) -> io::Result<Connection> {
    let asked = async {
        let mut connection = dialer.dial(to, purpose.to_bytes()).await?;
        let mut answer = [NO];
        connection.read_exact(&mut answer).await?;
        match answer {
            [YES] => Ok(connection),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    };
    let late = |_| Err(io::ErrorKind::TimedOut.into());
    timeout(TUNNEL_WITHIN, asked).await.unwrap_or_else(late)
}

/// Answers a relay that asked.
pub(crate) async fn answer(connection: &mut Connection, is_so: bool) -> io::Result<()> {
    connection
        .write_all(&[if is_so { YES } else { NO }])
        .await?;
    connection.flush().await
}

/// Relays a client's bytes through a tunnel until one side ends, or clients are served elsewhere.
pub(crate) async fn relay(
    (hub, account, limits): (&Rc<Hub>, Account, RelayLimits),
    (client, first): (impl AsyncRead + AsyncWrite + Unpin, Bytes),
    far: Connection,
    place: Place,
    mut places: watch::Receiver<Place>,
) -> io::Result<()> {
    let waiting = Waiting::new(hub);
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_far, mut to_far) = tokio::io::split(far);
    let asking = async {
        let mut asked = first;
        loop {
            if asked.is_empty() {
                to_far.shutdown().await?;
                return Ok(());
            }
            waiting.set(true);
            let charge = charge(&account, asked.len(), limits.answer_max).await?;
            to_far.write_all_buf(&mut asked).await?;
            to_far.flush().await?;
            drop(charge);
            asked = read(&mut from_client).await?;
        }
    };
    let telling = async {
        loop {
            let answers = read(&mut from_far).await?;
            if answers.is_empty() {
                break;
            }
            waiting.set(false);
            let _charge = charge(&account, answers.len(), limits.answer_max).await?;
            write_all(&mut to_client, &answers, &account, limits.stall_max).await?;
            to_client.flush().await?;
        }
        to_client.shutdown().await?;
        // The end of the answers is the end of the connection.
        Err::<(), io::Error>(io::ErrorKind::ConnectionAborted.into())
    };
    tokio::select! {
        biased;
        _ = places.wait_for(|now| *now != place) => Ok(()),
        ended = async { tokio::try_join!(asking, telling).map(drop) } => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_read_back() {
        for purpose in [
            Purpose::Client { epoch: 7 },
            Purpose::Probe { epoch: u64::MAX },
            Purpose::Offer { epoch: 0 },
        ] {
            assert_eq!(Purpose::of(&purpose.to_bytes()), Some(purpose));
        }
        for strange in [&b""[..], b"C", b"C1234567", b"X12345678", b"C123456789"] {
            assert_eq!(Purpose::of(strange), None);
        }
    }
}
