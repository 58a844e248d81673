//! Connections of remote gateways: they dial every member's peer port, and one connection carries frames both
//! ways. A replica answers on the connection that asked, and knows nothing else of a gateway.
//!
//! Who gets through is whoever may connect to the peer port: a gateway is trusted as a peer is. It holds no memory to
//! speak of without sending: long frames of all gateways share a bounded room (`long_frames.rs`), and where all places
//! are taken, the gateway gives way that has been silent for the longest.

use super::addresses::{Addresses, decode_address};
use super::frame::FrameDecoder;
use super::handshake::{Lane, PeerLane, RejectCode, Rejection};
pub(crate) use super::last_heard::LastHeard;
use super::long_frames::{LongFrames, Room};
use super::opening::{self, HandshakeError, Opening};
use super::outgoing::{Framed, Outgoing, Shared, drain};
use super::{Arrivals, HANDSHAKE_TIMEOUT, PeerContext};
use crate::metrics::PeerMetrics;
use crate::security::{self, Connection};
use crate::tls::PeerSecurity;
use quorate_core::{Boot, ClusterId, Decoder, Encoder, Epoch, Group, ReplicaId, Wire, WireError};
use quorate_host::{SupportedVersions, WireVersion};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout_at;

/// Gateways connected to a replica at once, at most.
const GATEWAYS_MAX: usize = 256;
/// A gateway that has sent nothing for so long gives way to another one, if there is no place left.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// As much as a list of members takes.
const WELCOME_BYTES_MAX: usize = 256 << 10;
/// About how much is read before other connections of the thread have their turn.
const READ_BYTES_MAX: usize = 256 << 10;

/// What a gateway says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GatewayHello {
    /// The cluster it wants to reach; zero for whichever there is.
    pub(crate) cluster: ClusterId,
    /// The number that the gateway has drawn.
    pub(crate) me: ReplicaId,
    /// The boot of the gateway's process.
    pub(crate) boot: Boot,
    /// The log that the gateway orders for.
    pub(crate) group: Group,
}

/// What a replica answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GatewayWelcome {
    /// The replica's cluster.
    pub(crate) cluster: ClusterId,
    /// The replica's own id.
    pub(crate) from: ReplicaId,
    /// The URL at which the replica serves clients; empty if it does not say.
    pub(crate) client_url: String,
    /// The newest epoch that the replica knows.
    pub(crate) epoch: Epoch,
    /// The addresses of the replica's peers.
    pub(crate) peers: Addresses,
    /// Why it does not take the connection, if it does not.
    pub(crate) rejected: Option<Rejection>,
}

impl Opening for GatewayHello {
    const MAGIC: [u8; 8] = *b"QUORGATE";
}

impl Opening for GatewayWelcome {
    const MAGIC: [u8; 8] = GatewayHello::MAGIC;
    const BYTES_MAX: usize = WELCOME_BYTES_MAX;
}

impl Wire for GatewayHello {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.me.encode(out);
        out.u64(self.boot.0);
        self.group.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(GatewayHello {
            cluster: ClusterId::decode(input)?,
            me: ReplicaId::decode(input)?,
            boot: Boot(input.u64()?),
            group: Group::decode(input)?,
        })
    }
}

impl Wire for GatewayWelcome {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.from.encode(out);
        out.string(&self.client_url);
        self.epoch.encode(out);
        self.peers.encode(out);
        self.rejected.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(GatewayWelcome {
            cluster: ClusterId::decode(input)?,
            from: ReplicaId::decode(input)?,
            client_url: decode_address(input)?,
            epoch: Epoch::decode(input)?,
            peers: Addresses::decode(input)?,
            rejected: Option::decode(input)?,
        })
    }
}

/// The gateways that are connected to a replica.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    callers: Mutex<BTreeMap<ReplicaId, GatewayConnection>>,
    long_frames: LongFrames,
}

#[derive(Debug)]
struct GatewayConnection {
    boot: Boot,
    link: Arc<Outgoing>,
    /// When it sent something last.
    heard: Arc<LastHeard>,
    /// Ends the connection: the same gateway has another one, or another gateway its place.
    ends: Arc<Notify>,
}

/// What becomes of what arrives on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSink<'a> {
    pub(crate) arrivals: &'a Arrivals,
    pub(crate) metrics: &'a PeerMetrics,
    pub(crate) long_frames: &'a LongFrames,
    pub(crate) heard: &'a LastHeard,
}

impl Gateways {
    /// Whether a gateway may connect.
    fn judge(&self, context: &PeerContext, hello: &GatewayHello) -> Result<(), Rejection> {
        let (identity, callers) = (&context.identity, self.callers());
        let reject = |code, text| Err(Rejection { code, text });
        if hello.cluster != ClusterId(0) && hello.cluster != identity.cluster {
            let text = format!(
                "it looks for cluster {}, I am of {}",
                hello.cluster, identity.cluster
            );
            return reject(RejectCode::Cluster, text);
        }
        if hello.group != identity.group || !hello.me.is_gateway() {
            let text = format!("{} is no gateway of group {}", hello.me, identity.group);
            return reject(RejectCode::UnknownReplica, text);
        }
        match callers.get(&hello.me) {
            Some(caller) if caller.boot != hello.boot => {
                let text = format!("another gateway has the number {}", hello.me);
                reject(RejectCode::Taken, text)
            }
            None if callers.len() >= GATEWAYS_MAX && longest_silent(&callers).is_none() => {
                let text = format!("{GATEWAYS_MAX} gateways are connected already");
                reject(RejectCode::TooMany, text)
            }
            _ => Ok(()),
        }
    }

    /// Queues a frame for a gateway; without a connection it is lost.
    pub(super) fn push(&self, to: ReplicaId, version: WireVersion, frame: &Framed<'_>) {
        if let Some(caller) = self.callers().get(&to) {
            caller.link.shared().push(version, frame);
        }
    }

    /// Gives the kernel what it takes.
    pub(super) fn flush(&self) {
        let callers = self.callers();
        callers
            .values()
            .for_each(|caller| caller.link.shared().flush());
    }

    /// The number of gateways that are connected.
    pub(super) fn count(&self) -> usize {
        self.callers().len()
    }

    fn callers(&self) -> MutexGuard<'_, BTreeMap<ReplicaId, GatewayConnection>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a gateway a place. Ends the connection that it had, or another gateway's if there is no place left.
    fn add(&self, me: ReplicaId, caller: GatewayConnection) {
        let mut callers = self.callers();
        if callers.len() >= GATEWAYS_MAX
            && !callers.contains_key(&me)
            && let Some(silent) = longest_silent(&callers)
            && let Some(silent) = callers.remove(&silent)
        {
            silent.ends.notify_one();
        }
        if let Some(before) = callers.insert(me, caller) {
            before.ends.notify_one();
        }
    }
}

/// The gateway that has been silent for the longest, if that is long.
fn longest_silent(callers: &BTreeMap<ReplicaId, GatewayConnection>) -> Option<ReplicaId> {
    let at = callers.iter().map(|(me, caller)| (caller.heard.at(), *me));
    let (at, me) = at.min()?;
    (at.elapsed() >= SILENT_AFTER).then_some(me)
}

/// Answers a gateway that calls. Whether its frames follow.
pub(super) async fn welcome(
    connection: &mut Connection,
    hello: &GatewayHello,
    context: &PeerContext,
) -> Result<(), HandshakeError> {
    let judged = context.gateways.judge(context, hello);
    let (identity, contacts) = (&context.identity, &context.contacts);
    let client_url = identity.about.as_ref().map(|about| &about.client_url);
    let welcome = GatewayWelcome {
        cluster: identity.cluster,
        from: identity.me,
        client_url: client_url.cloned().unwrap_or_default(),
        epoch: contacts.newest().unwrap_or_else(|| identity.epoch.clone()),
        peers: contacts.addresses(),
        rejected: judged.as_ref().err().cloned(),
    };
    opening::send(connection, &welcome, identity.supported)
        .await
        .map_err(HandshakeError::Io)?;
    judged.map_err(HandshakeError::Rejected)
}

/// Carries frames between a replica and a gateway that it has welcomed, until the connection ends.
pub(super) async fn serve(
    connection: Connection,
    hello: GatewayHello,
    version: WireVersion,
    context: &PeerContext,
    arrivals: &Arrivals,
    metrics: &PeerMetrics,
) {
    let GatewayHello { me, boot, .. } = hello;
    let address = connection.peer_addr().map(|from| from.to_string());
    let address = address.unwrap_or_default();
    let is_told = context.log.admit("gateway");
    if let Some(left_out) = is_told {
        tracing::info!(gateway = %me, address, left_out, "gateway connected");
    }
    let link = Outgoing::new(
        PeerLane {
            peer: me,
            lane: Lane::Messages,
        },
        address,
        metrics.clone(),
    );
    let (link, ends) = (Arc::new(link), Arc::new(Notify::new()));
    let heard = Arc::new(LastHeard::now());
    let caller = GatewayConnection {
        boot,
        link: Arc::clone(&link),
        heard: Arc::clone(&heard),
        ends: Arc::clone(&ends),
    };
    context.gateways.add(me, caller);
    let shared = link.shared();
    let sink = FrameSink {
        arrivals,
        metrics,
        long_frames: &context.gateways.long_frames,
        heard: &heard,
    };
    let why = tokio::select! {
        why = converse(&shared, connection, me, version, sink) => why,
        () = ends.notified() => "another connection has its place".to_owned(),
    };
    if is_told.is_some() {
        tracing::info!(gateway = %me, "gateway disconnected: {why}");
    }
    let is_last = {
        let mut callers = context.gateways.callers();
        let is_present = |caller: &GatewayConnection| Arc::ptr_eq(&caller.ends, &ends);
        let is_last = callers.get(&me).is_none_or(is_present);
        if is_last {
            callers.remove(&me);
        }
        is_last
    };
    if is_last {
        arrivals.link(me, None).await;
    }
}

/// Carries frames both ways until the connection ends; returns why.
pub(crate) async fn converse(
    shared: &Shared,
    connection: Connection,
    peer: ReplicaId,
    version: WireVersion,
    sink: FrameSink<'_>,
) -> String {
    let connection = Arc::new(connection);
    shared.attach(Some((Arc::clone(&connection), version)));
    sink.arrivals.link(peer, Some(version)).await;
    let why = tokio::select! {
        why = drain(shared, &connection) => why,
        why = read(&connection, peer, sink) => why,
    };
    shared.attach(None);
    why
}

async fn read(connection: &Connection, from: ReplicaId, sink: FrameSink<'_>) -> String {
    let FrameSink {
        arrivals, metrics, ..
    } = sink;
    let mut decoder = FrameDecoder::default();
    let (mut room, mut unbroken) = (None, 0);
    loop {
        if unbroken >= READ_BYTES_MAX {
            unbroken = 0;
            tokio::task::yield_now().await;
        }
        if room.is_none() {
            room = sink.long_frames.room(decoder.expected()).await;
        }
        match readable(connection, room.as_ref()).await {
            Ok(()) => {}
            Err(why) => return why,
        }
        match connection.try_read_buf(&mut decoder.input()) {
            Ok(0) => return "closed by the other side".to_owned(),
            Ok(count) => {
                unbroken += count;
                sink.heard.note();
                metrics.received_bytes.increment(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                unbroken = 0;
                continue;
            }
            Err(error) => return error.to_string(),
        }
        loop {
            match decoder.next() {
                Ok(Some(payload)) => {
                    room = None;
                    metrics.received_frames.increment(1);
                    if arrivals.frame(from, payload).await.is_none() {
                        return "nobody listens any more".to_owned();
                    }
                }
                Ok(None) => break,
                Err(error) => return format!("it sent {error}"),
            }
        }
    }
}

/// Waits for bytes, but not longer than the frame may take that has room.
async fn readable(connection: &Connection, room: Option<&Room<'_>>) -> Result<(), String> {
    let readable = connection.readable();
    let readable = match room {
        None => readable.await,
        Some(room) => match timeout_at(room.until, readable).await {
            Ok(readable) => readable,
            Err(_) => return Err("a long frame took it too long".to_owned()),
        },
    };
    readable.map_err(|error| error.to_string())
}

/// Connects a gateway to the member at an address.
pub(crate) async fn call(
    address: &str,
    hello: &GatewayHello,
    supported: SupportedVersions,
    security: &PeerSecurity,
) -> Result<(Connection, GatewayWelcome, WireVersion), HandshakeError> {
    let greet = async {
        let dialled = security::dial(address, security).await;
        let mut connection = dialled.map_err(HandshakeError::Io)?;
        opening::send(&mut connection, hello, supported)
            .await
            .map_err(HandshakeError::Io)?;
        let (welcome, version) =
            opening::receive::<GatewayWelcome>(&mut connection, supported).await?;
        match &welcome.rejected {
            Some(rejection) => Err(HandshakeError::Rejected(rejection.clone())),
            None => Ok((connection, welcome, version)),
        }
    };
    tokio::time::timeout(HANDSHAKE_TIMEOUT, greet)
        .await
        .map_err(|_| HandshakeError::Timeout)?
}

#[cfg(test)]
mod tests {
    use super::super::handshake::tests::identity;
    use super::super::tests::{Replica, next};
    use super::*;
    use crate::peer::Arrival;
    use crate::peer::frame::{self, PAYLOAD_BYTES_MAX};
    use crate::security::bind;
    use bytes::Bytes;
    use tokio::io::AsyncWriteExt;

    fn hello(me: u16, boot: u64) -> GatewayHello {
        GatewayHello {
            cluster: ClusterId(0),
            me: ReplicaId(me),
            boot: Boot(boot),
            group: Group(0),
        }
    }

    #[test]
    fn what_is_said_reads_back_and_no_bytes_panic() {
        let welcome = GatewayWelcome {
            cluster: ClusterId(3),
            from: ReplicaId(2),
            client_url: "http://h:1".to_owned(),
            epoch: identity(1).epoch,
            peers: Addresses(vec![(ReplicaId(1), "a:2".to_owned())]),
            rejected: Some(Rejection {
                code: RejectCode::Taken,
                text: "taken".to_owned(),
            }),
        };
        let bytes = welcome.to_bytes();
        for end in 0..bytes.len() {
            assert!(GatewayWelcome::from_bytes(bytes.slice(..end)).is_err());
        }
        assert_eq!(GatewayWelcome::from_bytes(bytes), Ok(welcome));
        let said = hello(40_000, 9);
        assert_eq!(GatewayHello::from_bytes(said.to_bytes()), Ok(said));
    }

    #[tokio::test]
    async fn a_number_is_one_gateways_and_there_are_only_so_many() {
        let context = PeerContext::alone(identity(1));
        let judge = |hello: &GatewayHello| {
            let judged = context.gateways.judge(&context, hello);
            judged.map_err(|rejection| rejection.code)
        };
        let connect = |me, boot| {
            let link = Outgoing::new(
                PeerLane {
                    peer: ReplicaId(me),
                    lane: Lane::Messages,
                },
                String::new(),
                crate::metrics::Metrics::new().gateways(),
            );
            let caller = GatewayConnection {
                boot: Boot(boot),
                link: Arc::new(link),
                heard: Arc::new(LastHeard::now()),
                ends: Arc::default(),
            };
            context.gateways.add(ReplicaId(me), caller);
        };
        assert_eq!(judge(&hello(40_000, 9)), Ok(()));
        assert_eq!(judge(&hello(2, 9)), Err(RejectCode::UnknownReplica));
        let strange = GatewayHello {
            cluster: ClusterId(1),
            ..hello(40_000, 9)
        };
        assert_eq!(judge(&strange), Err(RejectCode::Cluster));
        connect(40_000, 9);
        assert_eq!(judge(&hello(40_000, 9)), Ok(()), "it connects again");
        assert_eq!(judge(&hello(40_000, 8)), Err(RejectCode::Taken));
        (0..GATEWAYS_MAX as u16 - 1).for_each(|more| connect(50_000 + more, 1));
        assert_eq!(judge(&hello(40_001, 8)), Err(RejectCode::TooMany));
        assert_eq!(judge(&hello(40_000, 9)), Ok(()));
        let silent = {
            let callers = context.gateways.callers();
            let silent = &callers[&ReplicaId(50_007)];
            *silent.heard.0.lock().unwrap() -= SILENT_AFTER;
            Arc::clone(&silent.ends)
        };
        assert_eq!(judge(&hello(40_001, 8)), Ok(()));
        connect(40_001, 8);
        silent.notified().await;
        assert_eq!(judge(&hello(40_002, 8)), Err(RejectCode::TooMany));
        assert_eq!(context.gateways.count(), GATEWAYS_MAX);
    }

    /// A gateway's end of a connection that a replica has welcomed.
    async fn gateway(address: &str, me: u16) -> Connection {
        let mut hello = hello(me, 1);
        hello.group = identity(1).group;
        let (connection, ..) = call(
            address,
            &hello,
            SupportedVersions::SHIPPED,
            &PeerSecurity::default(),
        )
        .await
        .unwrap();
        connection
    }

    /// Waits for a frame from this gateway, and returns its length.
    async fn frame_of(replica: &mut Replica, me: u16) -> usize {
        loop {
            if let Arrival::Frame { from, payload, .. } = next(replica).await
                && from == ReplicaId(me)
            {
                return payload.len();
            }
        }
    }

    /// Scenario: a gateway has sent a part of a frame of the greatest length. Another one's waits, short ones do not.
    #[tokio::test]
    async fn long_frames_of_gateways_share_what_room_there_is() {
        let port = bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        let mut one = Replica::start((port, None), identity(1), (2, "127.0.0.1:1"));
        let framed = frame::header(&[Bytes::from_static(b"short")]).unwrap();
        let whole = [&framed[..], b"short"].concat();
        let head = (PAYLOAD_BYTES_MAX as u32).to_le_bytes();
        let mut half = gateway(&address, 40_000).await;
        half.write_all(&[&whole[..], &head, &[0; 4], &[7; 5000]].concat())
            .await
            .unwrap();
        assert_eq!(frame_of(&mut one, 40_000).await, 5);

        let long = Bytes::from(vec![7; PAYLOAD_BYTES_MAX]);
        let long = [
            &frame::header(std::slice::from_ref(&long)).unwrap()[..],
            &long,
        ]
        .concat();
        let mut patient = gateway(&address, 40_001).await;
        let sending = tokio::spawn(async move { (patient.write_all(&long).await, patient) });
        let mut short = gateway(&address, 40_002).await;
        short.write_all(&whole).await.unwrap();
        assert_eq!(frame_of(&mut one, 40_002).await, 5);
        assert!(!sending.is_finished());

        drop(half);
        assert_eq!(frame_of(&mut one, 40_001).await, PAYLOAD_BYTES_MAX);
        assert!(sending.await.unwrap().0.is_ok());
    }
}
