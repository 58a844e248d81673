//! What anybody can say to a port for peers: how connections begin there (`crates/server/src/peer/opening.rs`), and what
//! everybody is told who asks.

use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use quorate_core::{
    Boot, ClusterId, Decoder, Encoder, Epoch, Group, Incarnation, ReplicaId, Wire, WireError,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::wire;

/// The oldest wire version, which every replica speaks.
const WIRE_VERSION: u32 = 1;
const HEAD_BYTES: usize = 24;
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// What a replica tells everybody.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) cluster: ClusterId,
    /// The replica that told it.
    pub(super) from: ReplicaId,
    /// The first epoch.
    pub(super) epoch: Epoch,
}

/// Asks as a replica does that has lost its data.
pub(super) async fn ask(authority: &str) -> Result<Told, String> {
    let mut question = Encoder::new();
    ClusterId(0).encode(&mut question);
    ReplicaId(1).encode(&mut question);
    ReplicaId(1).encode(&mut question);
    let question = opening(b"QUORJOIN", &question.into_bytes());
    let told = async {
        let mut stream = wire::connect(authority, &question).await?;
        answer(&mut stream).await
    };
    let told = told
        .await
        .map_err(|error| format!("{authority}: {error}"))?;
    decode(told).map_err(|error| format!("{authority}: {error:?}"))
}

fn decode(answer: Bytes) -> Result<Told, WireError> {
    /// A replica that runs.
    const BEGUN: u8 = 3;
    let mut input = Decoder::new(answer);
    let (cluster, from) = (
        ClusterId::decode(&mut input)?,
        ReplicaId::decode(&mut input)?,
    );
    match input.u8()? {
        BEGUN => Ok(Told {
            cluster,
            from,
            epoch: Epoch::decode(&mut input)?,
        }),
        stage => Err(WireError::Tag("stage", stage)),
    }
}

/// "I am this replica in this life", on the lane for messages, or on the one for bulk.
pub(super) fn hello(told: &Told, from: ReplicaId, life: Incarnation, is_bulk: bool) -> Vec<u8> {
    let mut out = Encoder::new();
    told.cluster.encode(&mut out);
    from.encode(&mut out);
    life.encode(&mut out);
    out.u64(fastrand::u64(..));
    told.from.encode(&mut out);
    out.string(&told.epoch.protocol);
    Group(0).encode(&mut out);
    out.varint(told.epoch.number);
    out.u64(told.epoch.digest());
    if is_bulk {
        out.u8(1);
    }
    opening(b"QUORPEER", &out.into_bytes())
}

/// "I am this gateway."
pub(super) fn gateway_hello(told: &Told, number: u16) -> Vec<u8> {
    let mut out = Encoder::new();
    told.cluster.encode(&mut out);
    ReplicaId(ReplicaId::GATEWAYS | number).encode(&mut out);
    out.u64(Boot(fastrand::u64(..)).0);
    Group(0).encode(&mut out);
    opening(b"QUORGATE", &out.into_bytes())
}

/// Whether the answer to a hello says that frames are taken.
pub(super) async fn is_taken(stream: &mut TcpStream) -> io::Result<bool> {
    let welcome = answer(stream).await?;
    let is_taken = |welcome: Bytes| {
        let mut input = Decoder::new(welcome);
        ReplicaId::decode(&mut input)?;
        ClusterId::decode(&mut input)?;
        Incarnation::decode(&mut input)?;
        input.u64()?;
        // Whether there is a reason why not.
        Ok::<_, WireError>(input.u8()? == 0)
    };
    is_taken(welcome).map_err(|error| io::Error::other(format!("{error:?}")))
}

/// The body of the message that the other side answers with.
async fn answer(stream: &mut TcpStream) -> io::Result<Bytes> {
    let answer = async {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let length = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body).await?;
        Ok(body.into())
    };
    timeout(ANSWER_PATIENCE, answer).await?
}

fn opening(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.put_slice(magic);
    let crc = crc_fast::crc32_iscsi(body);
    for word in [WIRE_VERSION, WIRE_VERSION, body.len() as u32, crc] {
        message.put_u32_le(word);
    }
    message.put_slice(body);
    message
}
